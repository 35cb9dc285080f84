// GangHeader: what stands in for a block that no free segment could hold: pointers to its parts.
// 512 bytes, the last 40 the embedded checksum that fs/codec/checksum.h verifies and writes.
// source: format page 02 section 2.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "fs/format/blkptr.h"

namespace zuse::format {

inline constexpr std::size_t kGangHeaderSize = 512;
inline constexpr std::size_t kGangPointers = 3;
inline constexpr unsigned kGangDepthMax = 16;  // ours: a cap on recursion, far above need

struct GangHeader {
  std::array<Blkptr, kGangPointers> child{};  // holes: unused
};

// shape: block is at least 512 bytes, its checksum verified. errors: corrupt.
Result<GangHeader> decode_gang_header(std::span<const std::byte> block, ByteOrder order);
// Writes 512 bytes: pointers and zeros; the trailer is left to codec::seal.
void encode_gang_header(const GangHeader& header, std::span<std::byte> block, ByteOrder order);

// The verifier words that a gang header's checksum is seeded with: always of the first copy.
inline std::array<std::uint64_t, 4> gang_verifier(const Blkptr& gang) noexcept {
  return {gang.dva[0].vdev, gang.dva[0].offset, gang.birth(), 0};
}

}  // namespace zuse::format
