// A mode's three classes are not a list: owner, group and others each get exactly their own bits,
// while a list is read from the top and the first entry that speaks decides. Where a later class
// has a bit that an earlier one lacks, a "deny" entry must stand before it, and where the owner has
// what the group lacks and others have, an "allow" must stand before that denial.
#include "fs/posix/acl.h"

#include <sys/stat.h>

#include "vdev/base/on_disk.h"

namespace zuse::posix {
namespace {

constexpr std::uint16_t kAllow = 0;
constexpr std::uint16_t kDeny = 1;
constexpr std::uint16_t kOwner = 0x1000;
constexpr std::uint16_t kGroup = 0x2040;
constexpr std::uint16_t kEveryone = 0x4000;
constexpr std::uint32_t kReadMask = 0x1;
constexpr std::uint32_t kWriteMask = 0x6;
constexpr std::uint32_t kDeleteChildMask = 0x40;
constexpr std::uint32_t kExecuteMask = 0x20;
constexpr std::uint32_t kOwnerBase = 0x1E0198;
constexpr std::uint32_t kOtherBase = 0x120088;

void append(TrivialAcl& acl, std::uint16_t type, std::uint16_t flags, std::uint32_t mask) noexcept {
  const std::span<std::byte> all(acl.entries);
  const std::size_t at = static_cast<std::size_t>(acl.count) * TrivialAcl::kEntrySize;
  store_at<std::uint16_t>(all, at, type, kHostOrder);
  store_at<std::uint16_t>(all, at + 2, flags, kHostOrder);
  store_at<std::uint32_t>(all, at + 4, mask, kHostOrder);
  ++acl.count;
}

}  // namespace

TrivialAcl trivial_acl(std::uint64_t mode) noexcept {
  const std::uint32_t write_mask = kWriteMask | (S_ISDIR(mode) ? kDeleteChildMask : 0U);
  struct Bit {
    unsigned position;  // within a class of the mode
    std::uint32_t mask;
  };
  const std::array<Bit, 3> kinds{{{2, kReadMask}, {1, write_mask}, {0, kExecuteMask}}};
  std::uint32_t owner = 0, group = 0, other = 0, allow_first = 0, deny_owner = 0, deny_group = 0;
  for (const Bit& bit : kinds) {
    const bool user_has = ((mode >> (6 + bit.position)) & 1U) != 0;
    const bool group_has = ((mode >> (3 + bit.position)) & 1U) != 0;
    const bool other_has = ((mode >> bit.position) & 1U) != 0;
    owner |= user_has ? bit.mask : 0U;
    group |= group_has ? bit.mask : 0U;
    other |= other_has ? bit.mask : 0U;
    allow_first |= user_has && !group_has && other_has ? bit.mask : 0U;
    deny_owner |= !user_has && (group_has || other_has) ? bit.mask : 0U;
    deny_group |= !group_has && other_has ? bit.mask : 0U;
  }
  TrivialAcl acl;
  if (allow_first != 0) {
    append(acl, kAllow, kOwner, allow_first);
  }
  if (deny_owner != 0) {
    append(acl, kDeny, kOwner, deny_owner);
  }
  if (deny_group != 0) {
    append(acl, kDeny, kGroup, deny_group);
  }
  append(acl, kAllow, kOwner, kOwnerBase | owner);
  append(acl, kAllow, kGroup, kOtherBase | group);
  append(acl, kAllow, kEveryone, kOtherBase | other);
  return acl;
}

bool everyone_executes(std::uint64_t mode) noexcept {
  return (mode & 0111U) == 0111U;
}

}  // namespace zuse::posix
