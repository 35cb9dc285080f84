// GFNI with AVX-512: multiplication by any coefficient is one instruction that applies an 8 x 8 bit
// matrix to each byte. (Its own field multiplication is of no use: that field is 0x11b.) Since
// every product costs the same, columns go in pairs: 4 q + 2 c + d is two products and one
// three-operand XOR, where two single steps would be two of each.
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
  static Vector bias(Vector a) noexcept { return a; }

  // The matrices of 2, 4 and 16, as kBitMatrices has them.
  static constexpr std::uint64_t kBy2 = bit_matrix(2);
  static constexpr std::uint64_t kBy4 = bit_matrix(4);
  static constexpr std::uint64_t kBy16 = bit_matrix(16);
  template <std::uint64_t kMatrix>
  static Vector times(Vector a) noexcept {
    return {_mm512_gf2p8affine_epi64_epi8(a.bits,
                                          _mm512_set1_epi64(static_cast<long long>(kMatrix)), 0)};
  }
  static Vector horner2(Vector a, Vector d) noexcept { return times<kBy2>(a) ^ d; }
  static Vector horner4(Vector a, Vector d) noexcept { return times<kBy4>(a) ^ d; }
  static Vector horner16(Vector a, Vector d) noexcept { return times<kBy16>(a) ^ d; }
  static Vector horner2(Vector a, Vector c, Vector d) noexcept {
    return xor3(times<kBy4>(a), times<kBy2>(c), d);
  }
  static Vector horner4(Vector a, Vector c, Vector d) noexcept {
    return xor3(times<kBy16>(a), times<kBy4>(c), d);
  }

  using Split = Vector;
  static Split split(Vector a) noexcept { return a; }
  struct Multiplier {
    __m512i matrix;
    Multiplier() noexcept = default;
    explicit Multiplier(std::uint8_t by) noexcept {
      std::uint64_t rows = 0;
      __builtin_memcpy(&rows,
                       reinterpret_cast<const char*>(&kBitMatrices) + std::size_t{by} * sizeof rows,
                       sizeof rows);
      matrix = _mm512_set1_epi64(static_cast<long long>(rows));
    }
    Vector operator()(Vector a) const noexcept {
      return {_mm512_gf2p8affine_epi64_epi8(a.bits, matrix, 0)};
    }
  };
};

}  // namespace

constinit const Kernels kGfni = kernels_of<Vector>("gfni");

}  // namespace zuse::raid
#endif
