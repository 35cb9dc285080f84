// SSE2: 16 bytes at a time. It has no byte shuffle, so multiplication by a coefficient doubles and
// adds, bit by bit.
#if defined(__x86_64__)
#include <emmintrin.h>

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
  static Vector bias(Vector a) noexcept { return a; }
  static Vector doubled(Vector a) noexcept {
    const __m128i top = _mm_cmpgt_epi8(_mm_setzero_si128(), a.bits);  // all ones where bit 7 is set
    return {_mm_xor_si128(_mm_add_epi8(a.bits, a.bits), _mm_and_si128(top, _mm_set1_epi8(0x1d)))};
  }
  static Vector horner2(Vector a, Vector d) noexcept { return doubled(a) ^ d; }
  static Vector horner4(Vector a, Vector d) noexcept { return doubled(doubled(a)) ^ d; }

  using Split = Vector;
  static Split split(Vector a) noexcept { return a; }
  struct Multiplier {
    std::uint8_t by = 0;
    Multiplier() noexcept = default;
    explicit Multiplier(std::uint8_t coefficient) noexcept : by(coefficient) {}
    Vector operator()(Vector a) const noexcept {
      Vector product = zero();
      for (unsigned bit = 0x80; bit != 0; bit >>= 1U) {
        product = doubled(product);
        if ((by & bit) != 0) {
          product = product ^ a;
        }
      }
      return product;
    }
  };
};

}  // namespace

constinit const Kernels kSse2 = kernels_of<Vector>("sse2");

}  // namespace zuse::raid
#endif
