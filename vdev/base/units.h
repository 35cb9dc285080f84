// Small arithmetic with its intent in the name, where `/` and masks would hide it.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <type_traits>

namespace zuse {

inline constexpr std::uint64_t kKiB = 1024;
inline constexpr std::uint64_t kMiB = 1024 * kKiB;
inline constexpr std::uint64_t kGiB = 1024 * kMiB;
inline constexpr std::uint64_t kTiB = 1024 * kGiB;

// The smallest multiple of `unit` (> 0) that is >= value. The caller knows that it does not wrap.
template <std::unsigned_integral T>
constexpr T round_up(T value, std::type_identity_t<T> unit) {
  return (value + unit - 1) / unit * unit;
}
template <std::unsigned_integral T>
constexpr T round_down(T value, std::type_identity_t<T> unit) {
  return value / unit * unit;
}
template <std::unsigned_integral T>
constexpr T div_ceil(T value, std::type_identity_t<T> by) {
  return value / by + (value % by != 0 ? 1 : 0);
}
constexpr std::uint64_t pow2(unsigned exponent) {
  return std::uint64_t{1} << exponent;
}
// Bits [first, first + count) of a word.
constexpr std::uint64_t bits(std::uint64_t word, unsigned first, unsigned count) {
  return (word >> first) & (count == 64 ? ~std::uint64_t{0} : pow2(count) - 1);
}
// `word` with `value` put at bits [first, first + count).
constexpr std::uint64_t with_bits(std::uint64_t word, unsigned first, unsigned count,
                                  std::uint64_t value) {
  const std::uint64_t mask = (count == 64 ? ~std::uint64_t{0} : pow2(count) - 1) << first;
  return (word & ~mask) | ((value << first) & mask);
}
// log2 of a power of two; of other values, rounded down. shape: value > 0.
constexpr unsigned log2_floor(std::uint64_t value) {
  return 63U - static_cast<unsigned>(std::countl_zero(value));
}

}  // namespace zuse
