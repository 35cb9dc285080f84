// DnodePhys: one object's entry in an object set: 512 bytes a slot. source: format page 05
// section 2.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "fs/format/blkptr.h"

namespace zuse::format {

inline constexpr std::size_t kDnodeSlotSize = 512;
inline constexpr std::size_t kDnodeCoreSize = 64;
inline constexpr unsigned kDnodeSlotsMax = 32;
inline constexpr std::uint8_t kDnodeUsedBytes = 1;
inline constexpr std::uint8_t kDnodeUserUsedAccounted = 2;
inline constexpr std::uint8_t kDnodeSpill = 4;
inline constexpr std::uint8_t kDnodeUserObjectsAccounted = 8;

// A dnode, decoded. A free slot has type none.
struct DnodePhys {
  ObjectType type = ObjectType::none;
  std::uint8_t indirect_shift = 17;
  std::uint8_t levels = 1;
  ObjectType bonus_type = ObjectType::none;
  std::uint8_t checksum = 0;     // 0: inherit
  std::uint8_t compression = 0;  // 0: inherit
  std::uint8_t flags = 0;
  std::uint32_t block_size = 512;  // bytes
  std::uint8_t extra_slots = 0;
  std::uint64_t max_block = 0;
  std::uint64_t used = 0;        // bytes if flags & kDnodeUsedBytes, else 512-byte units
  std::vector<Blkptr> blkptr;    // 1..3
  std::vector<std::byte> bonus;  // bonus length bytes
  std::optional<Blkptr> spill;

  unsigned slots() const noexcept { return 1U + extra_slots; }
  std::uint64_t used_bytes() const noexcept {
    return (flags & kDnodeUsedBytes) != 0 ? used : used << 9;
  }
};

// `slot` holds at least the slots that the dnode says it has. errors: corrupt (field named), for a
// dnode that is not free and breaks a rule of format page 05 section 12.
Result<DnodePhys> decode_dnode(std::span<const std::byte> slot, ByteOrder order);
// Fills slots() * 512 bytes, all of them. shape: what decode_dnode would accept.
void encode_dnode(const DnodePhys& dnode, std::span<std::byte> slot, ByteOrder order);
// Walks a block of dnodes: calls visit(slot index, the dnode's own bytes) for each allocated one,
// in order. errors: corrupt, if a dnode says that it runs past the block; what visit answers.
Result<void> for_each_dnode(
    std::span<const std::byte> block,
    const std::function<Result<void>(std::size_t slot, std::span<const std::byte> dnode)>& visit);
// The number of allocated dnodes in a block of them: its fill count. errors: corrupt.
Result<std::uint64_t> count_dnodes(std::span<const std::byte> block);

}  // namespace zuse::format
