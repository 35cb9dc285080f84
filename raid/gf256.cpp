// Product tables of the field, computed by the compiler from the arithmetic in gf256.h.
#include "raid/gf256.h"

namespace zuse::raid {

namespace {

constexpr std::array<std::array<std::uint8_t, 256>, 256> all_products() {
  std::array<std::array<std::uint8_t, 256>, 256> products{};
  for (unsigned by = 0; by < 256; ++by) {
    // Each product is that of the value without its lowest bit, plus by * that bit.
    std::array<std::uint8_t, 8> of_bit{};
    std::uint8_t power = static_cast<std::uint8_t>(by);
    for (auto& product : of_bit) {
      product = power;
      power = mul2(power);
    }
    for (unsigned value = 1; value < 256; ++value) {
      unsigned lowest = 0;
      while (((value >> lowest) & 1U) == 0) {
        ++lowest;
      }
      products[by][value] =
          static_cast<std::uint8_t>(products[by][value & (value - 1)] ^ of_bit[lowest]);
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
    std::uint8_t power = static_cast<std::uint8_t>(by);  // by * 2^column
    for (unsigned column = 0; column < 8; ++column) {
      for (unsigned row = 0; row < 8; ++row) {
        const std::uint64_t bit = (std::uint64_t{power} >> row) & 1U;
        matrices[by] |= bit << (8 * (7 - row) + column);
      }
      power = mul2(power);
    }
  }
  return matrices;
}

}  // namespace

static constexpr std::array<std::array<std::uint8_t, 256>, 256> kProductsValue = all_products();
static_assert(kProductsValue[0x80][2] == 0x1d && kProductsValue[0x53][inverse(0x53)] == 1);

constinit const std::array<NibbleProducts, 256> kNibbleProducts = all_nibble_products();
constinit const std::array<std::array<std::uint8_t, 256>, 256> kProducts = kProductsValue;
constinit const std::array<std::uint64_t, 256> kBitMatrices = all_bit_matrices();

}  // namespace zuse::raid
