// Compression of blocks. Streams are those of format page 02 section 4: lzjb and zle are ours, gzip
// is zlib's, lz4 and zstd are their libraries' with a length in front.
#pragma once

#include <cstddef>
#include <span>

#include "fs/format/types.h"
#include "vdev/base/result.h"

namespace zuse::codec {

// errors: unsupported (the algorithm named), for what decompress() cannot read.
Result<void> check_supported(format::Compression algorithm);

// Compresses `in` into at most out.size() bytes. The number of bytes written; 0: it does not fit.
// Padding to a sector is the caller's. `on` means lz4. Contexts are kept per thread.
// errors: unsupported (off and inherit included: there is nothing to compress with).
Result<std::size_t> compress(format::CompressionChoice choice, std::span<const std::byte> in,
                             std::span<std::byte> out);

// Fills `out` exactly. `in` may have trailing padding. errors: corrupt (a stream that does not say
// out.size() bytes), unsupported.
Result<void> decompress(format::Compression algorithm, std::span<const std::byte> in,
                        std::span<std::byte> out);

// All bytes are zero: such a block is stored as a hole.
bool all_zero(std::span<const std::byte> bytes) noexcept;

// The zstd level that a level byte on disk stands for, as libzstd counts (negative: fast).
// errors: corrupt, for a byte that names none.
Result<int> zstd_level(std::uint8_t on_disk);

}  // namespace zuse::codec
