// Byte order as a value. A pool is written in its writer's order and one pool may hold both, so
// order is an argument of every load and store: not the host's, not a compile-time choice.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>

namespace zuse {

enum class ByteOrder : std::uint8_t { little, big };

inline constexpr ByteOrder kHostOrder =
    std::endian::native == std::endian::little ? ByteOrder::little : ByteOrder::big;

// The value with its bytes reversed.
template <std::unsigned_integral T>
constexpr T byteswap(T value) noexcept {
  if constexpr (sizeof(T) == 1) {
    return value;
  } else if constexpr (sizeof(T) == 2) {
    return __builtin_bswap16(value);
  } else if constexpr (sizeof(T) == 4) {
    return __builtin_bswap32(value);
  } else {
    return __builtin_bswap64(value);
  }
}

}  // namespace zuse
