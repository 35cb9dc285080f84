#if defined(__x86_64__)
#include <immintrin.h>

#include "tests/bench/parity/limits_body.h"

namespace zuse::bench {
namespace {

struct Vector {
  __m128i bits;
  static Vector load(const std::byte* from) {
    return {_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))};
  }
  static void store(std::byte* into, Vector value) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(into), value.bits);
  }
  static void stream(std::byte* into, Vector value) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(into), value.bits);
  }
  static void fence() { _mm_sfence(); }
  static Vector exclusive_or(Vector a, Vector b) { return {_mm_xor_si128(a.bits, b.bits)}; }
};

}  // namespace

constinit const Limits kLimitsSse2 = limits_of<Vector>("sse2");

}  // namespace zuse::bench
#endif
