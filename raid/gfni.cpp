// GFNI with AVX2: multiplication by any coefficient is one instruction that applies an 8 x 8 bit
// matrix to each byte. (Its own field multiplication is of no use: that field is 0x11b.)
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

  struct Multiplier {
    __m256i matrix;
    explicit Multiplier(std::uint8_t by) noexcept {
      std::uint64_t rows = 0;
      __builtin_memcpy(&rows,
                       reinterpret_cast<const char*>(&kBitMatrices) + std::size_t{by} * sizeof rows,
                       sizeof rows);
      matrix = _mm256_set1_epi64x(static_cast<long long>(rows));
    }
    Vector operator()(Vector a) const noexcept {
      return {_mm256_gf2p8affine_epi64_epi8(a.bits, matrix, 0)};
    }
  };
  static Vector mul2(Vector a) noexcept { return Multiplier(2)(a); }
  static Vector mul4(Vector a) noexcept { return Multiplier(4)(a); }
};

}  // namespace

constinit const Kernels kGfni = kernels_of<Vector>("gfni");

}  // namespace zuse::raid
#endif
