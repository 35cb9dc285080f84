#if defined(__x86_64__)
#include <immintrin.h>

#include "tests/bench/parity/limits_body.h"

namespace zuse::bench {
namespace {

struct Vector {
  __m256i bits;
  static Vector load(const std::byte* from) {
    return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))};
  }
  static void store(std::byte* into, Vector value) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(into), value.bits);
  }
  static void stream(std::byte* into, Vector value) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(into), value.bits);
  }
  static void fence() { _mm_sfence(); }
  static Vector exclusive_or(Vector a, Vector b) { return {_mm256_xor_si256(a.bits, b.bits)}; }
};

}  // namespace

constinit const Limits kLimitsAvx2 = limits_of<Vector>("avx2");

}  // namespace zuse::bench
#endif
