// SSSE3: 16 bytes at a time. Sums are doubled with a shuffle (see kernel_body.h); a product looks
// both halves of each byte up in tables of sixteen.
#if defined(__x86_64__)
#include <tmmintrin.h>

#include "raid/implementations.h"
#include "raid/kernel_body.h"

namespace zuse::raid {
namespace {

struct Vector {
  static constexpr std::size_t kBytes = 16;
  static constexpr unsigned kUnroll[3] = {4, 4, 4};
  static constexpr unsigned kUnrollRebuild[3] = {4, 4, 4};
  static constexpr bool kPairs = false;
  __m128i bits;

  static Vector load(const std::byte* from) noexcept {
    return {_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))};
  }
  static void store(std::byte* into, Vector value) noexcept {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(into), value.bits);
  }
  static void stream(std::byte* into, Vector value) noexcept {
    _mm_stream_si128(reinterpret_cast<__m128i*>(into), value.bits);
  }
  static void fence() noexcept { _mm_sfence(); }
  static Vector zero() noexcept { return {_mm_setzero_si128()}; }
  friend Vector operator^(Vector a, Vector b) noexcept { return {_mm_xor_si128(a.bits, b.bits)}; }
  static Vector bias(Vector a) noexcept {
    return {_mm_xor_si128(a.bits, _mm_set1_epi8(static_cast<char>(kBias)))};
  }
  // 2 a, and + 0x1d.
  static Vector doubled(Vector a) noexcept {
    const __m128i not_out = _mm_shuffle_epi8(_mm_set1_epi8(0x1d), a.bits);
    return {_mm_xor_si128(_mm_add_epi8(a.bits, a.bits), not_out)};
  }
  static Vector horner2(Vector a, Vector d) noexcept { return doubled(a) ^ d; }
  static Vector horner4(Vector a, Vector d) noexcept { return doubled(doubled(a)) ^ d; }

  struct Split {
    __m128i low;
    __m128i high;
  };
  static Split split(Vector a) noexcept {
    const __m128i mask = _mm_set1_epi8(0x0f);
    return {_mm_and_si128(a.bits, mask), _mm_and_si128(_mm_srli_epi64(a.bits, 4), mask)};
  }
  struct Multiplier {
    __m128i low;
    __m128i high;
    Multiplier() noexcept = default;
    explicit Multiplier(std::uint8_t by) noexcept {
      const auto* const products =
          reinterpret_cast<const __m128i*>(reinterpret_cast<const char*>(&kNibbleProducts) +
                                           std::size_t{by} * sizeof(NibbleProducts));
      low = _mm_loadu_si128(products);
      high = _mm_loadu_si128(products + 1);
    }
    Vector operator()(Split a) const noexcept {
      return {_mm_xor_si128(_mm_shuffle_epi8(low, a.low), _mm_shuffle_epi8(high, a.high))};
    }
  };
};

}  // namespace

constinit const Kernels kSsse3 = kernels_of<Vector>("ssse3");

}  // namespace zuse::raid
#endif
