// GFNI with AVX2 only: the same instruction on 32 bytes, for CPUs without AVX-512.
#if defined(__x86_64__)
#include <immintrin.h>

#include "raid/implementations.h"
#include "raid/kernel_body.h"

namespace zuse::raid {
namespace {

struct Vector {
  static constexpr std::size_t kBytes = 32;
  static constexpr unsigned kUnroll[3] = {4, 4, 4};
  static constexpr unsigned kUnrollRebuild[3] = {4, 4, 2};
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
  static Vector bias(Vector a) noexcept { return a; }
  template <std::uint64_t kMatrix>
  static Vector times(Vector a) noexcept {
    return {_mm256_gf2p8affine_epi64_epi8(a.bits,
                                          _mm256_set1_epi64x(static_cast<long long>(kMatrix)), 0)};
  }
  static Vector horner2(Vector a, Vector d) noexcept { return times<bit_matrix(2)>(a) ^ d; }
  static Vector horner4(Vector a, Vector d) noexcept { return times<bit_matrix(4)>(a) ^ d; }

  using Split = Vector;
  static Split split(Vector a) noexcept { return a; }
  struct Multiplier {
    __m256i matrix;
    Multiplier() noexcept = default;
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
};

}  // namespace

constinit const Kernels kGfniAvx2 = kernels_of<Vector>("gfni");

}  // namespace zuse::raid
#endif
