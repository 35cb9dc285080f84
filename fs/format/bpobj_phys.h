// BpobjHeader: the bonus area of a list of block pointers, 16 to 56 bytes by the pool's age; drawn
// in README.md. source: format page 04 section 5.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "fs/format/blkptr.h"

namespace zuse::format {

inline constexpr std::size_t kBpobjHeaderSizeV0 = 16;  // pool version < 3
inline constexpr std::size_t kBpobjHeaderSizeV1 = 32;  // with compressed and uncompressed totals
inline constexpr std::size_t kBpobjHeaderSizeV2 = 48;  // with lists below: what new pools use
inline constexpr std::size_t kBpobjHeaderSizeV3 = 56;  // with freed entries (livelists)

struct BpobjHeader {
  std::uint64_t block_count = 0;  // own entries
  std::uint64_t bytes = 0;        // dsize of own entries and those below
  std::uint64_t compressed = 0, uncompressed = 0;
  std::uint64_t sub_list = 0;   // object: array of object numbers of lists below; 0: none
  std::uint64_t sub_count = 0;  // entries of that array
  std::uint64_t freed_count = 0;
  bool operator==(const BpobjHeader&) const = default;
};

// Fields beyond the bonus area's length are 0. errors: corrupt (shorter than 16 bytes).
Result<BpobjHeader> decode_bpobj_header(std::span<const std::byte> bonus, ByteOrder order);
// shape: bonus is one of the four sizes; fields beyond it must be 0.
void encode_bpobj_header(const BpobjHeader& header, std::span<std::byte> bonus, ByteOrder order);

// The form in which a pointer is stored in such a list: without checksum (kept where the dedup bit
// is set) and fill; an embedded one keeps its properties and birth only. `freed`: a livelist's FREE
// entry.
Blkptr canonical_entry(const Blkptr& blkptr, bool freed = false) noexcept;

}  // namespace zuse::format
