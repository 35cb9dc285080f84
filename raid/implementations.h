// The tables of all implementations; each is defined in the file of its name.
#pragma once

#include "raid/kernels.h"

namespace zuse::raid {

extern const Kernels kOriginal;  // byte by byte: the reference, and the slowest
extern const Kernels kScalar;    // 64-bit words
#if defined(__x86_64__)
extern const Kernels kSse2;
extern const Kernels kSsse3;
extern const Kernels kAvx2;
extern const Kernels kAvx512f;
extern const Kernels kAvx512bw;
extern const Kernels kGfni;      // with AVX-512
extern const Kernels kGfniAvx2;  // the same name, where only AVX2 exists
#endif

}  // namespace zuse::raid
