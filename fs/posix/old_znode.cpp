// The record carries no magic number; which byte order it has is told by the mode, of which only
// the low 16 bits are ever used and the file type is never 0.
#include "fs/posix/old_znode.h"

#include <sys/stat.h>

#include "vdev/base/on_disk.h"

namespace zuse::posix {
namespace {

constexpr std::size_t kRecordSize = 264;
constexpr std::size_t kModeOffset = 72;
constexpr std::size_t kAclOffset = 176;
constexpr std::size_t kEmbeddedOffset = kAclOffset + 16;
constexpr std::size_t kEmbeddedSize = 72;
constexpr std::size_t kExternalAclMax = 65536;
constexpr std::uint64_t kFlagScanstamp = 0x80;
constexpr std::size_t kScanstampSize = 32;
constexpr std::uint64_t kSymlinkMax = 4096;

std::vector<std::byte> copy(std::span<const std::byte> from) {
  return {from.begin(), from.end()};
}

}  // namespace

Result<OldZnode> decode_old_znode(object::Dnode& dnode) {
  const std::vector<std::byte> bonus = dnode.bonus();
  if (bonus.size() < kRecordSize) {
    return fail(Errc::corrupt, "znode record cut short");
  }
  const std::span<const std::byte> from(bonus);
  ByteOrder order = kHostOrder;
  if (load_at<std::uint64_t>(from, kModeOffset, order) > 0xFFFF) {
    order = order == ByteOrder::little ? ByteOrder::big : ByteOrder::little;
  }
  const auto word = [&](std::size_t at) { return load_at<std::uint64_t>(from, at, order); };
  const auto time = [&](std::size_t at) {
    return Time{static_cast<std::int64_t>(word(at)),
                static_cast<std::uint32_t>(std::min<std::uint64_t>(word(at + 8), 999'999'999))};
  };
  OldZnode old;
  ZnodeFields& fields = old.fields;
  fields.atime = time(0);
  fields.mtime = time(16);
  fields.ctime = time(32);
  fields.crtime = time(48);
  fields.gen = word(64);
  fields.mode = word(kModeOffset);
  fields.size = word(80);
  fields.parent = word(88);
  fields.links = word(96);
  fields.xattr = word(104);
  fields.rdev = word(112);
  fields.flags = word(120);
  fields.uid = word(128);
  fields.gid = word(136);
  if (fields.mode > 0xFFFF) {
    return fail(Errc::corrupt, "znode record has an impossible mode");
  }
  if (S_ISLNK(fields.mode)) {
    if (fields.size > kSymlinkMax) {
      return fail(Errc::corrupt, "symbolic link is too long");
    }
    std::vector<std::byte> target(fields.size);
    if (fields.size <= bonus.size() - kRecordSize) {
      target = copy(from.subspan(kRecordSize, fields.size));
    } else {
      ZUSE_TRY_VOID(dnode.read(0, target));
    }
    old.symlink = std::move(target);
  } else if ((fields.flags & kFlagScanstamp) != 0 && bonus.size() - kRecordSize >= kScanstampSize) {
    old.scanstamp = copy(from.subspan(kRecordSize, kScanstampSize));
  }
  fields.flags &= ~kFlagScanstamp;

  old.external_acl = word(kAclOffset);
  const auto size = load_at<std::uint32_t>(from, kAclOffset + 8, order);
  const auto version = load_at<std::uint16_t>(from, kAclOffset + 12, order);
  // Lists of version 0 name their subjects otherwise; they give way to the mode's own list.
  if (version == 1 && size > 0) {
    if (old.external_acl == 0 && size <= kEmbeddedSize) {
      old.aces = copy(from.subspan(kEmbeddedOffset, size));
    } else if (old.external_acl != 0 && size <= kExternalAclMax) {
      ZUSE_TRY(const object::DnodeRef acl, dnode.objset().hold(old.external_acl));
      old.aces.resize(size);
      ZUSE_TRY_VOID(acl->read(0, old.aces));
    }
    if (order != kHostOrder) {
      swap_value(old.aces, SwapKind::acl);
    }
  }
  return old;
}

}  // namespace zuse::posix
