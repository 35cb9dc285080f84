// Product tables of the field, computed by the compiler from the arithmetic in gf256.h.
#include "raid/gf256.h"

namespace zuse::raid {

namespace {

constexpr std::array<std::array<std::uint8_t, 256>, 256> all_products() {
  std::array<std::array<std::uint8_t, 256>, 256> products{};
  for (unsigned by = 0; by < 256; ++by) {
    // Values with a bit more are those without it, plus by * that bit. (Few steps: compilers limit
    // how long they evaluate.)
    std::uint8_t* const row = products[by].data();
    std::uint8_t of_bit = static_cast<std::uint8_t>(by);
    for (unsigned bit = 1; bit < 256; bit *= 2) {
      for (unsigned value = 0; value < bit; ++value) {
        row[bit + value] = static_cast<std::uint8_t>(row[value] ^ of_bit);
      }
      of_bit = mul2(of_bit);
    }
  }
  return products;
}

constexpr std::array<NibbleProducts, 256> all_nibble_products() {
  std::array<NibbleProducts, 256> products{};
  for (unsigned by = 0; by < 256; ++by) {
    for (unsigned nibble = 0; nibble < 16; ++nibble) {
      products[by].low[nibble] =
          mul(static_cast<std::uint8_t>(nibble), static_cast<std::uint8_t>(by));
      products[by].high[nibble] =
          mul(static_cast<std::uint8_t>(nibble << 4U), static_cast<std::uint8_t>(by));
    }
  }
  return products;
}

constexpr std::array<std::uint64_t, 256> all_bit_matrices() {
  std::array<std::uint64_t, 256> matrices{};
  for (unsigned by = 0; by < 256; ++by) {
    matrices[by] = bit_matrix(static_cast<std::uint8_t>(by));
  }
  return matrices;
}

constexpr auto all_powers() {
  std::array<std::uint8_t, 2 * kLogOfZero + 1> powers{};
  std::uint8_t power = 1;
  for (unsigned exponent = 0; exponent < kLogOfZero; ++exponent) {
    powers[exponent] = power;
    power = mul2(power);
  }
  return powers;
}

constexpr std::array<std::uint16_t, 256> all_logarithms() {
  std::array<std::uint16_t, 256> logarithms{};
  logarithms[0] = kLogOfZero;
  std::uint8_t power = 1;
  for (std::uint16_t exponent = 0; exponent < kFieldOrder; ++exponent) {
    logarithms[power] = exponent;
    power = mul2(power);
  }
  return logarithms;
}

}  // namespace

static constexpr std::array<std::array<std::uint8_t, 256>, 256> kProductsValue = all_products();
static_assert(kProductsValue[0x80][2] == 0x1d && kProductsValue[0x53][inverse(0x53)] == 1);

constinit const std::array<NibbleProducts, 256> kNibbleProducts = all_nibble_products();
constinit const std::array<std::array<std::uint8_t, 256>, 256> kProducts = kProductsValue;
constinit const std::array<std::uint8_t, 2 * kLogOfZero + 1> kExp2 = all_powers();
constinit const std::array<std::uint16_t, 256> kLog2 = all_logarithms();
constinit const std::array<std::uint64_t, 256> kBitMatrices = all_bit_matrices();

}  // namespace zuse::raid
