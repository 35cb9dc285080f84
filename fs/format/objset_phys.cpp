#include "fs/format/objset_phys.h"

#include <algorithm>
#include <string>

namespace zuse::format {
namespace {

// Byte offsets within the block.
constexpr std::size_t kMetaDnode = 0;
constexpr std::size_t kZil = 512;
constexpr std::size_t kType = 704;
constexpr std::size_t kFlags = 712;
constexpr std::size_t kUserUsed = 1024;
constexpr std::size_t kGroupUsed = 1536;
constexpr std::size_t kProjectUsed = 2048;

Result<DnodePhys> dnode_at(std::span<const std::byte> block, std::size_t at, ByteOrder order) {
  if (block.size() < at + kDnodeSlotSize) {
    return DnodePhys{};  // an older, shorter form of the block
  }
  return decode_dnode(block.subspan(at, kDnodeSlotSize), order);
}

}  // namespace

Result<ObjsetPhys> decode_objset(std::span<const std::byte> block, ByteOrder order) {
  if (block.size() < kObjsetSizeV1) {
    return fail(Errc::corrupt, "object set block of " + std::to_string(block.size()) + " bytes");
  }
  ObjsetPhys out;
  ZUSE_TRY(out.meta_dnode, dnode_at(block, kMetaDnode, order));
  ZUSE_TRY(out.zil, decode_zil_header(block.subspan(kZil, kZilHeaderSize), order));
  const auto type = load_at<std::uint64_t>(block, kType, order);
  if (type > static_cast<std::uint64_t>(ObjsetType::other)) {
    return fail(Errc::corrupt, "object set type " + std::to_string(type));
  }
  out.type = static_cast<ObjsetType>(type);
  out.flags = load_at<std::uint64_t>(block, kFlags, order);
  // An all-zero block is the object set of a dataset without contents; else dnodes are dnodes.
  if (out.meta_dnode.type != ObjectType::none && out.meta_dnode.type != ObjectType::dnode) {
    return fail(Errc::corrupt, "object set: its array of objects has type " +
                                   std::to_string(static_cast<unsigned>(out.meta_dnode.type)));
  }
  ZUSE_TRY(out.user_used, dnode_at(block, kUserUsed, order));
  ZUSE_TRY(out.group_used, dnode_at(block, kGroupUsed, order));
  ZUSE_TRY(out.project_used, dnode_at(block, kProjectUsed, order));
  return out;
}

void encode_objset(const ObjsetPhys& objset, std::span<std::byte> block, ByteOrder order) {
  ZUSE_CHECK(block.size() == kObjsetSizeV1 || block.size() == kObjsetSizeV2 ||
             block.size() == kObjsetSizeV3);
  std::ranges::fill(block, std::byte{0});
  encode_dnode(objset.meta_dnode, block.subspan(kMetaDnode, kDnodeSlotSize), order);
  encode_zil_header(objset.zil, block.subspan(kZil, kZilHeaderSize), order);
  store_at<std::uint64_t>(block, kType, static_cast<std::uint64_t>(objset.type), order);
  store_at<std::uint64_t>(block, kFlags, objset.flags, order);
  const auto put = [&](std::size_t at, const DnodePhys& dnode) {
    if (at + kDnodeSlotSize <= block.size()) {
      encode_dnode(dnode, block.subspan(at, kDnodeSlotSize), order);
    } else {
      ZUSE_CHECK(dnode.type == ObjectType::none);
    }
  };
  put(kUserUsed, objset.user_used);
  put(kGroupUsed, objset.group_used);
  put(kProjectUsed, objset.project_used);
}

}  // namespace zuse::format
