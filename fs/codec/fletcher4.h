// The implementations of fletcher4, for checksum.cpp. Each SIMD one has a file of its own, compiled
// for its instruction set.
#pragma once

#include "fs/codec/checksum.h"

namespace zuse::codec {

extern const Fletcher4 kFletcher4Scalar;
#if defined(__x86_64__)
extern const Fletcher4 kFletcher4Sse2;
extern const Fletcher4 kFletcher4Ssse3;
extern const Fletcher4 kFletcher4Avx2;
extern const Fletcher4 kFletcher4Avx512;
#endif

}  // namespace zuse::codec
