// The reference: one byte at a time, straight from the definition. It has no fused rebuild, so it
// also keeps the composed one (generate, then mul_add) in use and tested.
#include "raid/gf256.h"
#include "raid/implementations.h"

namespace zuse::raid {
namespace {

template <unsigned kParities>
void generate(const Row& row) noexcept {
  for (std::size_t at = 0; at < row.bytes; ++at) {
    std::uint8_t p = 0;
    std::uint8_t q = 0;
    std::uint8_t r = 0;
    for (unsigned column = 0; column < row.data_columns; ++column) {
      const std::byte* const from = row.data[column];
      const auto value = from == nullptr ? std::uint8_t{0} : static_cast<std::uint8_t>(from[at]);
      p = static_cast<std::uint8_t>(p ^ value);
      q = static_cast<std::uint8_t>(mul2(q) ^ value);
      r = static_cast<std::uint8_t>(mul2(mul2(r)) ^ value);
    }
    row.parity[0][at] = std::byte{p};
    if constexpr (kParities >= 2) {
      row.parity[1][at] = std::byte{q};
    }
    if constexpr (kParities >= 3) {
      row.parity[2][at] = std::byte{r};
    }
  }
}

void mul_add(std::byte* into, const std::byte* from, std::size_t size, std::uint8_t by) noexcept {
  const auto& products = kProducts[by];
  for (std::size_t at = 0; at < size; ++at) {
    into[at] ^= std::byte{products[static_cast<std::uint8_t>(from[at])]};
  }
}

}  // namespace

constinit const Kernels kOriginal = {.name = "original",
                                     .generate = {generate<1>, generate<2>, generate<3>},
                                     .mul_add = mul_add,
                                     .rebuild = {},
                                     .pick = nullptr};

}  // namespace zuse::raid
