// AVX2: 32 bytes at a time. Sums are doubled with a shuffle (see kernel_body.h); a product looks
// both halves of each byte up in tables of sixteen.
#if defined(__x86_64__)
#include <immintrin.h>

#include "raid/implementations.h"
#include "raid/kernel_body.h"

namespace zuse::raid {
namespace {

struct Vector {
  static constexpr std::size_t kBytes = 32;
  static constexpr unsigned kUnroll[3] = {4, 4, 4};
  static constexpr unsigned kUnrollRebuild[3] = {4, 2, 2};
  static constexpr bool kPairs = false;
  __m256i bits;

  static Vector load(const std::byte* from) noexcept {
    return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))};
  }
  static void store(std::byte* into, Vector value) noexcept {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(into), value.bits);
  }
  static void stream(std::byte* into, Vector value) noexcept {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(into), value.bits);
  }
  static void fence() noexcept { _mm_sfence(); }
  static Vector zero() noexcept { return {_mm256_setzero_si256()}; }
  friend Vector operator^(Vector a, Vector b) noexcept {
    return {_mm256_xor_si256(a.bits, b.bits)};
  }
  static Vector bias(Vector a) noexcept {
    return {_mm256_xor_si256(a.bits, _mm256_set1_epi8(static_cast<char>(kBias)))};
  }
  // 2 a, and + 0x1d.
  static Vector doubled(Vector a) noexcept {
    const __m256i not_out = _mm256_shuffle_epi8(_mm256_set1_epi8(0x1d), a.bits);
    return {_mm256_xor_si256(_mm256_add_epi8(a.bits, a.bits), not_out)};
  }
  static Vector horner2(Vector a, Vector d) noexcept { return doubled(a) ^ d; }
  static Vector horner4(Vector a, Vector d) noexcept { return doubled(doubled(a)) ^ d; }

  struct Split {
    __m256i low;
    __m256i high;
  };
  static Split split(Vector a) noexcept {
    const __m256i mask = _mm256_set1_epi8(0x0f);
    return {_mm256_and_si256(a.bits, mask), _mm256_and_si256(_mm256_srli_epi64(a.bits, 4), mask)};
  }
  struct Multiplier {
    __m256i low;
    __m256i high;
    Multiplier() noexcept = default;
    explicit Multiplier(std::uint8_t by) noexcept {
      const auto* const products =
          reinterpret_cast<const __m128i*>(reinterpret_cast<const char*>(&kNibbleProducts) +
                                           std::size_t{by} * sizeof(NibbleProducts));
      low = _mm256_broadcastsi128_si256(_mm_loadu_si128(products));
      high = _mm256_broadcastsi128_si256(_mm_loadu_si128(products + 1));
    }
    Vector operator()(Split a) const noexcept {
      return {_mm256_xor_si256(_mm256_shuffle_epi8(low, a.low), _mm256_shuffle_epi8(high, a.high))};
    }
  };
};

}  // namespace

constinit const Kernels kAvx2 = kernels_of<Vector>("avx2");

}  // namespace zuse::raid
#endif
