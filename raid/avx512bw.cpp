// AVX-512BW: 64 bytes at a time with byte instructions. Sums are doubled with a shuffle (see
// kernel_body.h), and one instruction adds the shuffled vector and the column; a product looks both
// halves of each byte up in tables of sixteen.
#if defined(__x86_64__)
#include <immintrin.h>

#include "raid/implementations.h"
#include "raid/kernel_body.h"

namespace zuse::raid {
namespace {

struct Vector {
  static constexpr std::size_t kBytes = 64;
  static constexpr unsigned kUnroll[3] = {4, 4, 4};
  static constexpr unsigned kUnrollRebuild[3] = {4, 4, 4};
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
  static Vector bias(Vector a) noexcept {
    return {_mm512_xor_si512(a.bits, _mm512_set1_epi8(static_cast<char>(kBias)))};
  }
  static Vector horner2(Vector a, Vector d) noexcept {
    const __m512i not_out = _mm512_shuffle_epi8(_mm512_set1_epi8(0x1d), a.bits);
    return xor3({_mm512_add_epi8(a.bits, a.bits)}, {not_out}, d);
  }
  static Vector horner4(Vector a, Vector d) noexcept { return horner2(horner2(a, zero()), d); }
  static Vector horner16(Vector a, Vector d) noexcept { return horner4(horner4(a, zero()), d); }
  static Vector horner2(Vector a, Vector c, Vector d) noexcept { return horner2(horner2(a, c), d); }
  static Vector horner4(Vector a, Vector c, Vector d) noexcept { return horner4(horner4(a, c), d); }

  struct Split {
    __m512i low;
    __m512i high;
  };
  static Split split(Vector a) noexcept {
    const __m512i mask = _mm512_set1_epi8(0x0f);
    return {_mm512_and_si512(a.bits, mask),
            _mm512_and_si512(_mm512_maskz_srli_epi64(0xff, a.bits, 4), mask)};
  }
  struct Multiplier {
    __m512i low;
    __m512i high;
    Multiplier() noexcept = default;
    explicit Multiplier(std::uint8_t by) noexcept {
      const auto* const products =
          reinterpret_cast<const __m128i*>(reinterpret_cast<const char*>(&kNibbleProducts) +
                                           std::size_t{by} * sizeof(NibbleProducts));
      low = _mm512_maskz_broadcast_i32x4(0xffff, _mm_loadu_si128(products));
      high = _mm512_maskz_broadcast_i32x4(0xffff, _mm_loadu_si128(products + 1));
    }
    Vector operator()(Split a) const noexcept {
      return {_mm512_xor_si512(_mm512_shuffle_epi8(low, a.low), _mm512_shuffle_epi8(high, a.high))};
    }
  };
};

}  // namespace

constinit const Kernels kAvx512bw = kernels_of<Vector>("avx512bw");

}  // namespace zuse::raid
#endif
