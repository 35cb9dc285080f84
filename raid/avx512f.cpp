// AVX-512F: 64 bytes at a time, but no byte instructions: bytes are doubled within 64-bit words,
// and multiplication by a coefficient doubles and adds, bit by bit. It has any function of three
// operands in one instruction, though, and so adds two columns to P at once.
#if defined(__x86_64__)
#include <immintrin.h>

#include "raid/implementations.h"
#include "raid/kernel_body.h"

namespace zuse::raid {
namespace {

struct Vector {
  static constexpr std::size_t kBytes = 64;
  static constexpr unsigned kUnroll[3] = {4, 4, 2};
  static constexpr unsigned kUnrollRebuild[3] = {4, 2, 1};
  static constexpr bool kPairs = true;
  __m512i bits;

  static Vector load(const std::byte* from) noexcept { return {_mm512_loadu_si512(from)}; }
  static void store(std::byte* into, Vector value) noexcept {
    _mm512_storeu_si512(into, value.bits);
  }
  static void stream(std::byte* into, Vector value) noexcept {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(into), value.bits);
  }
  static void fence() noexcept { _mm_sfence(); }
  static Vector zero() noexcept { return {_mm512_setzero_si512()}; }
  friend Vector operator^(Vector a, Vector b) noexcept {
    return {_mm512_xor_si512(a.bits, b.bits)};
  }
  static Vector xor3(Vector a, Vector b, Vector c) noexcept {
    return {_mm512_ternarylogic_epi64(a.bits, b.bits, c.bits, 0x96)};
  }
  static Vector bias(Vector a) noexcept { return a; }
  static Vector doubled(Vector a) noexcept {
    const __m512i top =
        _mm512_and_si512(a.bits, _mm512_set1_epi64(static_cast<long long>(0x8080808080808080U)));
    const __m512i low = _mm512_xor_si512(a.bits, top);
    const __m512i ones = _mm512_sub_epi64(top, _mm512_maskz_srli_epi64(0xff, top, 7));
    return {_mm512_ternarylogic_epi64(_mm512_add_epi64(low, low), ones,
                                      _mm512_set1_epi64(0x1d1d1d1d1d1d1d1d), 0x78)};  // a ^ (b & c)
  }
  static Vector horner2(Vector a, Vector d) noexcept { return doubled(a) ^ d; }
  static Vector horner4(Vector a, Vector d) noexcept { return doubled(doubled(a)) ^ d; }
  static Vector horner16(Vector a, Vector d) noexcept { return horner4(horner4(a, zero()), d); }
  static Vector horner2(Vector a, Vector c, Vector d) noexcept { return horner2(horner2(a, c), d); }
  static Vector horner4(Vector a, Vector c, Vector d) noexcept { return horner4(horner4(a, c), d); }

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

constinit const Kernels kAvx512f = kernels_of<Vector>("avx512f");

}  // namespace zuse::raid
#endif
