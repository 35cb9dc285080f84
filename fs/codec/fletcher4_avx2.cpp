// fletcher4 with AVX2: four lanes in a register.
#if defined(__x86_64__)
#include <immintrin.h>

#include "fs/codec/fletcher4_lanes.h"

namespace zuse::codec {
namespace {

struct Lanes {
  static constexpr std::size_t kLanes = 4;
  __m256i bits;

  static Lanes zero() noexcept { return {_mm256_setzero_si256()}; }
  template <bool kSwap>
  static Lanes load(const std::byte* at) noexcept {
    __m128i units = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    if constexpr (kSwap) {
      units = _mm_shuffle_epi8(units,
                               _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3));
    }
    return {_mm256_cvtepu32_epi64(units)};
  }
  friend Lanes operator+(Lanes a, Lanes b) noexcept { return {_mm256_add_epi64(a.bits, b.bits)}; }
  void store(std::uint64_t* into) const noexcept {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(into), bits);
  }
};

}  // namespace

const Fletcher4 kFletcher4Avx2 = {"avx2", sum<Lanes>};

}  // namespace zuse::codec
#endif
