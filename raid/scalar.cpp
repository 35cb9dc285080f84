// 64-bit words: eight bytes at a time in plain C++, for any CPU.
#include <cstring>

#include "raid/implementations.h"
#include "raid/kernel_body.h"

namespace zuse::raid {
namespace {

struct Word {
  static constexpr std::size_t kBytes = 8;
  static constexpr unsigned kUnroll[3] = {8, 4, 2};
  static constexpr unsigned kUnrollRebuild[3] = {8, 4, 2};
  static constexpr bool kPairs = false;
  std::uint64_t bits;

  static Word load(const std::byte* from) noexcept {
    Word word{};
    std::memcpy(&word.bits, from, sizeof word.bits);
    return word;
  }
  static void store(std::byte* into, Word word) noexcept {
    std::memcpy(into, &word.bits, sizeof word.bits);
  }
  static void stream(std::byte* into, Word word) noexcept { store(into, word); }
  static void fence() noexcept {}
  static Word zero() noexcept { return {0}; }
  friend Word operator^(Word a, Word b) noexcept { return {a.bits ^ b.bits}; }
  static Word bias(Word a) noexcept { return a; }
  // All eight bytes doubled: those with their top bit set take the polynomial's low byte.
  static Word doubled(Word a) noexcept {
    const std::uint64_t top = a.bits & 0x8080808080808080U;
    const std::uint64_t low = a.bits ^ top;
    return {(low << 1U) ^ ((top - (top >> 7U)) & 0x1d1d1d1d1d1d1d1dU)};
  }
  static Word horner2(Word a, Word d) noexcept { return doubled(a) ^ d; }
  static Word horner4(Word a, Word d) noexcept { return doubled(doubled(a)) ^ d; }

  using Split = Word;
  static Split split(Word a) noexcept { return a; }
  struct Multiplier {
    const std::uint8_t* products = nullptr;
    Multiplier() noexcept = default;
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
