// fletcher4 in four lanes: lane l sums the units l, l + 4, l + 8 ... by itself, and the four are
// combined exactly at the end.
//
// With n units a lane, unit i of lane l stands at place 4i + l of N = 4n. Its weight in the sums
// over all is a polynomial of its distance from the end, N - (4i + l) = 4(n - i) - l, and each
// lane's own sums weigh it by binomials of n - i. Writing k = n - i:
//     weight in b: 4k - l,  in c: C(4k - l + 1, 2),  in d: C(4k - l + 2, 3)
//     a lane has:  A = sum x,  B = sum k x,  C = sum C(k + 1, 2) x,  D = sum C(k + 2, 3) x
// and expressing the former by the latter (k = B, k^2 = 2C - B, k^3 = 6D - 6C + B) gives the lines
// below.
#if defined(__x86_64__)

#include <immintrin.h>

#include "fs/codec/fletcher4.h"

namespace zuse::codec {
namespace {

template <bool kSwap>
void sum_lanes(const std::byte* data, std::size_t bytes, std::uint64_t out[4]) noexcept {
  const __m128i reverse = _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3);
  __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
  const std::size_t whole = bytes / 16 * 16;
  for (std::size_t at = 0; at < whole; at += 16) {
    __m128i units = _mm_loadu_si128(reinterpret_cast<const __m128i*>(data + at));
    if constexpr (kSwap) {
      units = _mm_shuffle_epi8(units, reverse);
    }
    a = _mm256_add_epi64(a, _mm256_cvtepu32_epi64(units));
    b = _mm256_add_epi64(b, a);
    c = _mm256_add_epi64(c, b);
    d = _mm256_add_epi64(d, c);
  }
  alignas(32) std::uint64_t la[4], lb[4], lc[4], ld[4];
  _mm256_store_si256(reinterpret_cast<__m256i*>(la), a);
  _mm256_store_si256(reinterpret_cast<__m256i*>(lb), b);
  _mm256_store_si256(reinterpret_cast<__m256i*>(lc), c);
  _mm256_store_si256(reinterpret_cast<__m256i*>(ld), d);
  std::uint64_t sa = 0, sb = 0, sc = 0, sd = 0;
  for (std::uint64_t l = 0; l < 4; ++l) {
    const std::uint64_t A = la[l], B = lb[l], C = lc[l], D = ld[l];
    sa += A;
    sb += 4 * B - l * A;
    // C(4k - l + 1, 2) = 8k^2 + (2 - 4l)k - l(1 - l)/2 = 16C - (6 + 4l)B + (l(l - 1)/2)A
    sc += 16 * C - (6 + 4 * l) * B + l * (l - 1) / 2 * A;
    // C(4k - l + 2, 3), expanded likewise.
    const std::uint64_t constant[4] = {0, 0, 0, ~std::uint64_t{0}};  // -l(l - 1)(l - 2)/6
    const std::uint64_t linear[4] = {4, 10, 20, 34};                 // of B
    const std::uint64_t square[4] = {48, 64, 80, 96};                // of -C
    sd += 64 * D - square[l] * C + linear[l] * B + constant[l] * A;
  }
  // A tail of up to three units goes on from there.
  for (std::size_t at = whole; at + 4 <= bytes; at += 4) {
    std::uint32_t unit = 0;
    __builtin_memcpy(&unit, data + at, sizeof unit);
    sa += kSwap ? __builtin_bswap32(unit) : unit;
    sb += sa;
    sc += sb;
    sd += sc;
  }
  out[0] = sa;
  out[1] = sb;
  out[2] = sc;
  out[3] = sd;
}

void sum(const std::byte* data, std::size_t bytes, bool swap, std::uint64_t out[4]) noexcept {
  if (swap) {
    sum_lanes<true>(data, bytes, out);
  } else {
    sum_lanes<false>(data, bytes, out);
  }
}

}  // namespace

const Fletcher4 kFletcher4Avx2 = {"avx2", sum};

}  // namespace zuse::codec

#endif
