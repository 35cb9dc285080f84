// SSSE3: 16 bytes at a time; a byte shuffle looks up the products of both halves of each byte.
#if defined(__x86_64__)
#include <tmmintrin.h>

#include "raid/implementations.h"
#include "raid/kernel_body.h"

namespace zuse::raid {
namespace {

struct Vector {
  static constexpr std::size_t kBytes = 16;
  static constexpr unsigned kUnroll = 4;
  __m128i bits;

  static Vector load(const std::byte* from) noexcept {
    return {_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))};
  }
  static void store(std::byte* into, Vector value) noexcept {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(into), value.bits);
  }
  static Vector zero() noexcept { return {_mm_setzero_si128()}; }
  friend Vector operator^(Vector a, Vector b) noexcept { return {_mm_xor_si128(a.bits, b.bits)}; }
  static Vector mul2(Vector a) noexcept {
    const __m128i top = _mm_cmpgt_epi8(_mm_setzero_si128(), a.bits);
    return {_mm_xor_si128(_mm_add_epi8(a.bits, a.bits), _mm_and_si128(top, _mm_set1_epi8(0x1d)))};
  }
  static Vector mul4(Vector a) noexcept { return mul2(mul2(a)); }

  struct Multiplier {
    __m128i low;
    __m128i high;
    explicit Multiplier(std::uint8_t by) noexcept {
      const auto* const products =
          reinterpret_cast<const __m128i*>(reinterpret_cast<const char*>(&kNibbleProducts) +
                                           std::size_t{by} * sizeof(NibbleProducts));
      low = _mm_loadu_si128(products);
      high = _mm_loadu_si128(products + 1);
    }
    Vector operator()(Vector a) const noexcept {
      const __m128i mask = _mm_set1_epi8(0x0f);
      const __m128i lower = _mm_and_si128(a.bits, mask);
      const __m128i upper = _mm_and_si128(_mm_srli_epi64(a.bits, 4), mask);
      return {_mm_xor_si128(_mm_shuffle_epi8(low, lower), _mm_shuffle_epi8(high, upper))};
    }
  };
};

}  // namespace

constinit const Kernels kSsse3 = kernels_of<Vector>("ssse3");

}  // namespace zuse::raid
#endif
