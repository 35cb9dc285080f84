// fletcher4 with SSSE3, for its byte shuffle: four lanes in two registers.
#if defined(__x86_64__)
#include <tmmintrin.h>

#include "fs/codec/fletcher4_lanes.h"

namespace zuse::codec {
namespace {

struct Lanes {
  static constexpr std::size_t kLanes = 4;
  __m128i low;
  __m128i high;

  static Lanes zero() noexcept { return {_mm_setzero_si128(), _mm_setzero_si128()}; }
  template <bool kSwap>
  static Lanes load(const std::byte* at) noexcept {
    __m128i units = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    if constexpr (kSwap) {
      units = _mm_shuffle_epi8(units,
                               _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3));
    }
    return {_mm_unpacklo_epi32(units, _mm_setzero_si128()),
            _mm_unpackhi_epi32(units, _mm_setzero_si128())};
  }
  friend Lanes operator+(Lanes a, Lanes b) noexcept {
    return {_mm_add_epi64(a.low, b.low), _mm_add_epi64(a.high, b.high)};
  }
  void store(std::uint64_t* into) const noexcept {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(into), low);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(into + 2), high);
  }
};

}  // namespace

const Fletcher4 kFletcher4Ssse3 = {"ssse3", sum<Lanes>};

}  // namespace zuse::codec
#endif
