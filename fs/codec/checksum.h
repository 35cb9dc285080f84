// Checksums of blocks: four 64-bit words over the bytes as they lie on disk. fletcher2 and
// fletcher4 sum the block's integers, so the block's byte order matters to them; the others hash
// bytes. Also the checksums that live inside what they protect: labels, uberblocks, gang headers
// and intent log blocks, "sealed" with a verifier that says where the block belongs. source: format
// page 02 section 3.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "fs/format/blkptr.h"
#include "fs/format/types.h"
#include "vdev/base/byte_order.h"
#include "vdev/base/result.h"

namespace zuse::codec {

using ChecksumWords = std::array<std::uint64_t, 4>;

// errors: unsupported (the algorithm named), for what compute() must not be asked: inherit, skein,
// edonr, blake3 and numbers beyond.
Result<void> check_supported(format::Checksum algorithm);

// The checksum of `data`. shape: check_supported(algorithm); `on` means fletcher4; off and noparity
// give zeros. A tail shorter than the sum's unit counts for nothing (blocks are multiples of 512).
// Allocates nothing after a thread's first call.
ChecksumWords compute(format::Checksum algorithm, std::span<const std::byte> data, ByteOrder order);

// errors: checksum (they differ), unsupported.
Result<void> verify(format::Checksum algorithm, std::span<const std::byte> data, ByteOrder order,
                    const ChecksumWords& expected);
// Whether `data` (psize bytes) is what a pointer points to. It knows the truncated checksums of
// encrypted blocks (format page 02 section 1.4). errors: checksum, unsupported.
Result<void> verify_block(const format::Blkptr& blkptr, std::span<const std::byte> data);

// ---- Checksums inside the block -----------------------------------------------------------------

inline constexpr std::uint64_t kSealMagic = 0x0210da7ab10c7a11;
inline constexpr std::size_t kSealSize = 40;           // magic and four words
inline constexpr std::size_t kZilog2SealOffset = 144;  // zilog2 keeps it in the block's head
inline constexpr std::size_t kZilog2UsedOffset = 136;  // bytes in use, which are what it covers

// Writes the trailer of `block` (its last 40 bytes; for zilog2 the 40 bytes at 144, where the bytes
// in use at 136 are already set). shape: kind is label, gang_header, zilog or zilog2.
void seal(format::Checksum kind, std::span<std::byte> block, const ChecksumWords& verifier,
          ByteOrder order);
// The writer's byte order. errors: checksum (no magic, or the sum differs).
Result<ByteOrder> verify_sealed(format::Checksum kind, std::span<const std::byte> block,
                                const ChecksumWords& verifier);

// ---- The choice of fletcher4's implementation ---------------------------------------------------

// One way to sum. `swap`: the block's integers are not in the host's order.
struct Fletcher4 {
  const char* name;  // "scalar", "avx2" ...
  void (*sum)(const std::byte* data, std::size_t bytes, bool swap, std::uint64_t out[4]) noexcept;
};
// Those that this processor can run; the first is the definition, spelt out.
std::span<const Fletcher4* const> fletcher4_implementations() noexcept;
// The quickest of them here that gives the right sums: measured at the first call (a millisecond),
// remembered. Thread-safe.
const Fletcher4& fastest_fletcher4() noexcept;

}  // namespace zuse::codec
