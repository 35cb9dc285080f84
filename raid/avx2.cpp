// AVX2: 32 bytes at a time; a byte shuffle looks up the products of both halves of each byte.
#if defined(__x86_64__)
#include <immintrin.h>

#include "raid/implementations.h"
#include "raid/kernel_body.h"

namespace zuse::raid {
namespace {

struct Vector {
  static constexpr std::size_t kBytes = 32;
  static constexpr unsigned kUnroll = 2;
  __m256i bits;

  static Vector load(const std::byte* from) noexcept {
    return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))};
  }
  static void store(std::byte* into, Vector value) noexcept {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(into), value.bits);
  }
  static Vector zero() noexcept { return {_mm256_setzero_si256()}; }
  friend Vector operator^(Vector a, Vector b) noexcept {
    return {_mm256_xor_si256(a.bits, b.bits)};
  }
  static Vector mul2(Vector a) noexcept {
    const __m256i top = _mm256_cmpgt_epi8(_mm256_setzero_si256(), a.bits);
    return {_mm256_xor_si256(_mm256_add_epi8(a.bits, a.bits),
                             _mm256_and_si256(top, _mm256_set1_epi8(0x1d)))};
  }
  static Vector mul4(Vector a) noexcept { return mul2(mul2(a)); }

  struct Multiplier {
    __m256i low;
    __m256i high;
    explicit Multiplier(std::uint8_t by) noexcept {
      const auto* const products =
          reinterpret_cast<const __m128i*>(reinterpret_cast<const char*>(&kNibbleProducts) +
                                           std::size_t{by} * sizeof(NibbleProducts));
      low = _mm256_broadcastsi128_si256(_mm_loadu_si128(products));
      high = _mm256_broadcastsi128_si256(_mm_loadu_si128(products + 1));
    }
    Vector operator()(Vector a) const noexcept {
      const __m256i mask = _mm256_set1_epi8(0x0f);
      const __m256i lower = _mm256_and_si256(a.bits, mask);
      const __m256i upper = _mm256_and_si256(_mm256_srli_epi64(a.bits, 4), mask);
      return {_mm256_xor_si256(_mm256_shuffle_epi8(low, lower), _mm256_shuffle_epi8(high, upper))};
    }
  };
};

}  // namespace

constinit const Kernels kAvx2 = kernels_of<Vector>("avx2");

}  // namespace zuse::raid
#endif
