// fletcher4 with AVX-512F: eight lanes in a register.
#if defined(__x86_64__)
#include <immintrin.h>

#include "fs/codec/fletcher4_lanes.h"

namespace zuse::codec {
namespace {

struct Lanes {
  static constexpr std::size_t kLanes = 8;
  __m512i bits;

  static Lanes zero() noexcept { return {_mm512_setzero_si512()}; }
  template <bool kSwap>
  static Lanes load(const std::byte* at) noexcept {
    __m256i units = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
    if constexpr (kSwap) {
      units = _mm256_shuffle_epi8(
          units, _mm256_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14,
                                 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3));
    }
    return {_mm512_maskz_cvtepu32_epi64(0xff, units)};
  }
  friend Lanes operator+(Lanes a, Lanes b) noexcept { return {_mm512_add_epi64(a.bits, b.bits)}; }
  void store(std::uint64_t* into) const noexcept { _mm512_storeu_si512(into, bits); }
};

}  // namespace

const Fletcher4 kFletcher4Avx512 = {"avx512", sum<Lanes>};

}  // namespace zuse::codec
#endif
