// AVX-512BW: 64 bytes at a time with byte instructions; a byte shuffle looks up the products of
// both halves of each byte.
#if defined(__x86_64__)
#include <immintrin.h>

#include "raid/implementations.h"
#include "raid/kernel_body.h"

namespace zuse::raid {
namespace {

struct Vector {
  static constexpr std::size_t kBytes = 64;
  static constexpr unsigned kUnroll = 1;
  __m512i bits;

  static Vector load(const std::byte* from) noexcept { return {_mm512_loadu_si512(from)}; }
  static void store(std::byte* into, Vector value) noexcept {
    _mm512_storeu_si512(into, value.bits);
  }
  static Vector zero() noexcept { return {_mm512_setzero_si512()}; }
  friend Vector operator^(Vector a, Vector b) noexcept {
    return {_mm512_xor_si512(a.bits, b.bits)};
  }
  static Vector mul2(Vector a) noexcept {
    const __mmask64 top = _mm512_movepi8_mask(a.bits);
    return {_mm512_xor_si512(_mm512_add_epi8(a.bits, a.bits),
                             _mm512_maskz_mov_epi8(top, _mm512_set1_epi8(0x1d)))};
  }
  static Vector mul4(Vector a) noexcept { return mul2(mul2(a)); }

  struct Multiplier {
    __m512i low;
    __m512i high;
    explicit Multiplier(std::uint8_t by) noexcept {
      const auto* const products =
          reinterpret_cast<const __m128i*>(reinterpret_cast<const char*>(&kNibbleProducts) +
                                           std::size_t{by} * sizeof(NibbleProducts));
      low = _mm512_maskz_broadcast_i32x4(0xffff, _mm_loadu_si128(products));
      high = _mm512_maskz_broadcast_i32x4(0xffff, _mm_loadu_si128(products + 1));
    }
    Vector operator()(Vector a) const noexcept {
      const __m512i mask = _mm512_set1_epi8(0x0f);
      const __m512i lower = _mm512_and_si512(a.bits, mask);
      const __m512i upper = _mm512_and_si512(_mm512_maskz_srli_epi64(0xff, a.bits, 4), mask);
      return {_mm512_xor_si512(_mm512_shuffle_epi8(low, lower), _mm512_shuffle_epi8(high, upper))};
    }
  };
};

}  // namespace

constinit const Kernels kAvx512bw = kernels_of<Vector>("avx512bw");

}  // namespace zuse::raid
#endif
