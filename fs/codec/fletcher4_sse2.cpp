// fletcher4 with SSE2: four lanes in two registers.
#if defined(__x86_64__)
#include <emmintrin.h>

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
      const __m128i bytes = _mm_or_si128(_mm_slli_epi16(units, 8), _mm_srli_epi16(units, 8));
      units = _mm_shufflehi_epi16(_mm_shufflelo_epi16(bytes, 0xb1), 0xb1);  // halves of each unit
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

const Fletcher4 kFletcher4Sse2 = {"sse2", sum<Lanes>};

}  // namespace zuse::codec
#endif
