// AVX-512F: 64 bytes at a time, but no byte instructions: bytes are doubled within 64-bit words,
// and multiplication by a coefficient doubles and adds, bit by bit.
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
    const __m512i top =
        _mm512_and_si512(a.bits, _mm512_set1_epi64(static_cast<long long>(0x8080808080808080U)));
    const __m512i low = _mm512_xor_si512(a.bits, top);
    const __m512i ones = _mm512_sub_epi64(top, _mm512_maskz_srli_epi64(0xff, top, 7));
    return {_mm512_xor_si512(_mm512_add_epi64(low, low),
                             _mm512_and_si512(ones, _mm512_set1_epi64(0x1d1d1d1d1d1d1d1d)))};
  }
  static Vector mul4(Vector a) noexcept { return mul2(mul2(a)); }

  struct Multiplier {
    std::uint8_t by;
    explicit Multiplier(std::uint8_t coefficient) noexcept : by(coefficient) {}
    Vector operator()(Vector a) const noexcept {
      Vector product = zero();
      for (unsigned bit = 0x80; bit != 0; bit >>= 1U) {
        product = mul2(product);
        if ((by & bit) != 0) {
          product = product ^ a;
        }
      }
      return product;
    }
  };
};

}  // namespace

constinit const Kernels kAvx512f = kernels_of<Vector>("avx512f");

}  // namespace zuse::raid
#endif
