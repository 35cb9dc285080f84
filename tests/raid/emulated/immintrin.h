// Stands in for the compiler's header when the AVX-512 and GFNI kernels are built for any CPU: the
// same intrinsics in plain C, by SIMDe (SIMD Everywhere).
#pragma once

#define SIMDE_NO_NATIVE
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx2.h>
#include <simde/x86/avx512.h>
#include <simde/x86/gfni.h>

// Not in all of its versions; the kernels keep every lane.
#ifndef _mm512_maskz_srli_epi64
#define _mm512_maskz_srli_epi64(mask, value, count) \
  simde_mm512_maskz_mov_epi64(mask, simde_mm512_srli_epi64(value, count))
#endif
#ifndef _mm512_stream_si512
#define _mm512_stream_si512(at, value) simde_mm512_storeu_si512(at, value)
#endif
#ifndef __mmask64
#define __mmask64 simde__mmask64
#endif
