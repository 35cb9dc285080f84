// lzjb and zle: the two formats that no library has. source: format page 02 sections 4.1, 4.2.
#pragma once

#include <cstddef>
#include <span>

#include "vdev/base/result.h"

namespace zuse::codec {

// Bytes written; 0: it does not fit.
std::size_t lzjb_compress(std::span<const std::byte> in, std::span<std::byte> out) noexcept;
Result<void> lzjb_decompress(std::span<const std::byte> in, std::span<std::byte> out);
std::size_t zle_compress(std::span<const std::byte> in, std::span<std::byte> out) noexcept;
Result<void> zle_decompress(std::span<const std::byte> in, std::span<std::byte> out);

}  // namespace zuse::codec
