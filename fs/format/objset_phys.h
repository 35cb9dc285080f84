// ObjsetPhys: the block that an object set hangs from. source: format page 05 section 1.
#pragma once

#include <cstdint>
#include <span>

#include "fs/format/dnode_phys.h"
#include "fs/format/zil.h"

namespace zuse::format {

enum class ObjsetType : std::uint64_t { none = 0, meta = 1, zfs = 2, zvol = 3, other = 4 };

inline constexpr std::uint64_t kObjsetUserAccounting = 1;
inline constexpr std::uint64_t kObjsetUserObjectAccounting = 2;
inline constexpr std::uint64_t kObjsetProjectQuota = 4;

inline constexpr std::size_t kObjsetSizeV1 = 1024;
inline constexpr std::size_t kObjsetSizeV2 = 2048;
inline constexpr std::size_t kObjsetSizeV3 = 4096;

struct ObjsetPhys {
  DnodePhys meta_dnode;
  ZilHeader zil;
  ObjsetType type = ObjsetType::none;
  std::uint64_t flags = 0;
  DnodePhys user_used, group_used, project_used;  // type none: absent
};

// shape: block is 1024, 2048 or 4096 bytes (larger is accepted, the rest ignored). errors: corrupt.
Result<ObjsetPhys> decode_objset(std::span<const std::byte> block, ByteOrder order);
// shape: block is kObjsetSizeV1, V2 or V3; parts beyond it must be absent.
void encode_objset(const ObjsetPhys& objset, std::span<std::byte> block, ByteOrder order);

}  // namespace zuse::format
