// 64-bit words: eight bytes at a time in plain C++, for any CPU.
#include <cstring>

#include "raid/implementations.h"
#include "raid/kernel_body.h"

namespace zuse::raid {
namespace {

struct Word {
  static constexpr std::size_t kBytes = 8;
  static constexpr unsigned kUnroll = 4;
  std::uint64_t bits;

  static Word load(const std::byte* from) noexcept {
    Word word{};
    std::memcpy(&word.bits, from, sizeof word.bits);
    return word;
  }
  static void store(std::byte* into, Word word) noexcept {
    std::memcpy(into, &word.bits, sizeof word.bits);
  }
  static Word zero() noexcept { return {0}; }
  friend Word operator^(Word a, Word b) noexcept { return {a.bits ^ b.bits}; }
  // All eight bytes doubled: those with their top bit set take the polynomial's low byte.
  static Word mul2(Word a) noexcept {
    const std::uint64_t top = a.bits & 0x8080808080808080U;
    const std::uint64_t low = a.bits ^ top;
    return {(low << 1U) ^ ((top - (top >> 7U)) & 0x1d1d1d1d1d1d1d1dU)};
  }
  static Word mul4(Word a) noexcept { return mul2(mul2(a)); }

  struct Multiplier {
    const std::uint8_t* products;
    explicit Multiplier(std::uint8_t by) noexcept
        : products(&kProducts.front().front() + by * 256) {}
    Word operator()(Word a) const noexcept {
      std::uint64_t product = 0;
      for (unsigned shift = 0; shift < 64; shift += 8) {
        product |= std::uint64_t{products[(a.bits >> shift) & 0xffU]} << shift;
      }
      return {product};
    }
  };
};

}  // namespace

constinit const Kernels kScalar = kernels_of<Word>("scalar");

}  // namespace zuse::raid
