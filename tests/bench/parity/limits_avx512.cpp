#if defined(__x86_64__)
#include <immintrin.h>

#include "tests/bench/parity/limits_body.h"

namespace zuse::bench {
namespace {

struct Vector {
  __m512i bits;
  static Vector load(const std::byte* from) { return {_mm512_loadu_si512(from)}; }
  static void store(std::byte* into, Vector value) { _mm512_storeu_si512(into, value.bits); }
  static void stream(std::byte* into, Vector value) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(into), value.bits);
  }
  static void fence() { _mm_sfence(); }
  static Vector exclusive_or(Vector a, Vector b) { return {_mm512_xor_si512(a.bits, b.bits)}; }
};

}  // namespace

constinit const Limits kLimitsAvx512 = limits_of<Vector>("avx512");

}  // namespace zuse::bench
#endif
