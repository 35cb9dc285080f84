// To whom a file is charged: user, group and project lie at fixed places of the bonus area, so that
// accounting need not know what else is in it. source: format page 08 sections 5.4, 5.6, 9, 11.
#include "fs/dataset/owner.h"

#include "vdev/base/on_disk.h"
#include "vdev/base/units.h"

namespace zuse::dataset {
namespace {

constexpr std::uint32_t kSaMagic = 0x2f505a;
// Offsets after the header of a system attribute area.
constexpr std::size_t kUser = 24, kGroup = 32, kFlags = 48, kProject = 128;
constexpr std::uint64_t kHasProject = 0x800000000000;
// Offsets in an old znode.
constexpr std::size_t kOldUser = 128, kOldGroup = 136, kOldSize = 264;

}  // namespace

std::optional<object::ObjectOwner> file_owner(format::ObjectType bonus_type,
                                              std::span<const std::byte> bonus) {
  if (bonus_type == format::ObjectType::znode && bonus.size() >= kOldSize) {
    return object::ObjectOwner{load_at<std::uint64_t>(bonus, kOldUser, kHostOrder),
                               load_at<std::uint64_t>(bonus, kOldGroup, kHostOrder), 0};
  }
  if (bonus_type != format::ObjectType::sa || bonus.size() < 8 ||
      load_at<std::uint32_t>(bonus, 0, kHostOrder) != kSaMagic) {
    return std::nullopt;
  }
  const std::size_t header = bits(load_at<std::uint16_t>(bonus, 4, kHostOrder), 10, 6) * 8;
  if (bonus.size() < header + kFlags + 8) {
    return std::nullopt;
  }
  const auto word = [&](std::size_t at) {
    return load_at<std::uint64_t>(bonus, header + at, kHostOrder);
  };
  object::ObjectOwner owner{word(kUser), word(kGroup), 0};
  if ((word(kFlags) & kHasProject) != 0 && bonus.size() >= header + kProject + 8) {
    owner.project = word(kProject);
  }
  return owner;
}

}  // namespace zuse::dataset
