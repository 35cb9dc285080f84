// The field GF(2^8) that P, Q and R are made in: bytes, added by XOR, multiplied as polynomials
// modulo x^8 + x^4 + x^3 + x^2 + 1 (0x11d), where 2 is a generator. All of it constexpr, so that
// claims about the field are checked by the compiler. source: format page 03 section 5.
#pragma once

#include <array>
#include <cstdint>

namespace zuse::raid {

inline constexpr unsigned kFieldPolynomial = 0x11d;
inline constexpr unsigned kFieldOrder = 255;  // of the multiplicative group: 2^255 = 1

// 2 * a.
constexpr std::uint8_t mul2(std::uint8_t a) noexcept {
  const unsigned doubled = unsigned{a} << 1U;
  return static_cast<std::uint8_t>((doubled & 0x100U) != 0 ? doubled ^ kFieldPolynomial : doubled);
}

// a * b, by doubling and adding: slow, needs no table.
constexpr std::uint8_t mul(std::uint8_t a, std::uint8_t b) noexcept {
  unsigned product = 0;
  for (std::uint8_t power = a; b != 0; b = static_cast<std::uint8_t>(b >> 1U)) {
    if ((b & 1U) != 0) {
      product ^= power;
    }
    power = mul2(power);
  }
  return static_cast<std::uint8_t>(product);
}

// 2^exponent.
constexpr std::uint8_t exp2(unsigned exponent) noexcept {
  std::uint8_t power = 1;
  for (unsigned left = exponent % kFieldOrder; left != 0; --left) {
    power = mul2(power);
  }
  return power;
}

// 1 / a, as a^254. shape: a != 0 (0 gives 0).
constexpr std::uint8_t inverse(std::uint8_t a) noexcept {
  std::uint8_t result = 1;
  std::uint8_t square = a;
  for (unsigned exponent = 254; exponent != 0; exponent >>= 1U) {
    if ((exponent & 1U) != 0) {
      result = mul(result, square);
    }
    square = mul(square, square);
  }
  return result;
}

// Multiplication by `by` as an 8 x 8 matrix over GF(2), as GFNI's affine instruction takes it: byte
// 7 - i holds the bits of the factor that make up bit i of the product.
constexpr std::uint64_t bit_matrix(std::uint8_t by) noexcept {
  std::uint64_t matrix = 0;
  std::uint8_t power = by;  // by * 2^column
  for (unsigned column = 0; column < 8; ++column) {
    for (unsigned row = 0; row < 8; ++row) {
      const std::uint64_t bit = (std::uint64_t{power} >> row) & 1U;
      matrix |= bit << (8 * (7 - row) + column);
    }
    power = mul2(power);
  }
  return matrix;
}

// Powers and logarithms, for products at run time. kLog2[0] is so large that every sum it is part
// of finds a zero.
inline constexpr std::uint16_t kLogOfZero = 512;
extern const std::array<std::uint8_t, 2 * kLogOfZero + 1> kExp2;  // [i] = 2^i; 0 from kLogOfZero on
extern const std::array<std::uint16_t, 256> kLog2;

// Products of one coefficient, split for byte shuffles: c * b = low[b & 15] ^ high[b >> 4].
struct NibbleProducts {
  std::array<std::uint8_t, 16> low;
  std::array<std::uint8_t, 16> high;
};
// By coefficient. Data only, so SIMD files may use them. Defined in gf256.cpp.
extern const std::array<NibbleProducts, 256> kNibbleProducts;
// kProducts[c][b] = c * b.
extern const std::array<std::array<std::uint8_t, 256>, 256> kProducts;
// bit_matrix(), by coefficient.
extern const std::array<std::uint64_t, 256> kBitMatrices;

static_assert(exp2(8) == 29 && exp2(32) == 157 && exp2(64) == 95 && exp2(128) == 133);
static_assert(exp2(254) == 142 && exp2(255) == 1);
static_assert(mul(inverse(0x53), 0x53) == 1 && mul(2, inverse(2)) == 1);

}  // namespace zuse::raid
