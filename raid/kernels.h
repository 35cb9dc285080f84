// The table that one implementation of the parity arithmetic fills. Kernels are dumb: no
// allocation, no errors, no failure patterns. What to call with which coefficients is decided once
// for all of them, in raidz_math.cpp.
//
// A file with a SIMD implementation has its own compiler flags, so it holds intrinsics and
// anonymous-namespace code only: a shared inline function compiled there could be the copy that the
// linker keeps for everyone.
#pragma once

#include <cstddef>
#include <cstdint>

namespace zuse::raid {

inline constexpr unsigned kParityMax = 3;
inline constexpr unsigned kDataColumnsMax = 255;  // beyond, weights would repeat
inline constexpr unsigned kColumnsMax = kDataColumnsMax + kParityMax;
inline constexpr std::size_t kKernelStep = 64;  // bytes; kernels take multiples of it
// Where one pass follows another, work goes in strips of so many bytes, that the second finds what
// the first left in the cache. A kernel that does all in one pass gets columns as long as they are.
inline constexpr std::size_t kStripBytes = 8192;

// One stretch of a stripe to compute parity for.
struct Row {
  const std::byte* const* data;  // data_columns pointers to `bytes` bytes; null: all zeros
  std::byte* const* parity;      // P, then Q, then R
  unsigned data_columns;
  std::size_t bytes;  // a multiple of kKernelStep
  bool streaming;     // store past the caches; only if every parity is aligned to kKernelStep
};

// One stretch of a stripe to rebuild data columns in. With k columns missing and the parities
// s_0..s_k-1 in use, out[i] = sum over j of coefficient[i][j] * (s_j as stored ^ s_j of the data).
struct Rebuild {
  const std::byte* const* data;    // data_columns pointers; null: missing, or all zeros
  const std::byte* const* parity;  // the k parity columns in use, ascending
  std::byte* const* out;           // the k missing columns, ascending
  unsigned data_columns;
  std::size_t bytes;  // a multiple of kKernelStep
  std::uint8_t coefficient[kParityMax][kParityMax];
};

// Bits of a set of parities: which rows are in use.
inline constexpr unsigned kP = 1;
inline constexpr unsigned kQ = 2;
inline constexpr unsigned kR = 4;

struct Kernels {
  const char* name;                                   // "scalar", "avx2": in logs and options
  void (*generate[kParityMax])(const Row&) noexcept;  // P, PQ, PQR
  // into ^= by * from. shape: size a multiple of kKernelStep.
  void (*mul_add)(std::byte* into, const std::byte* from, std::size_t size,
                  std::uint8_t by) noexcept;
  // Fused: reads every column once. By set of parities in use (kP|kQ ...; [0] is unused). Null
  // where an implementation has none: generate and mul_add then do the work.
  void (*rebuild[8])(const Rebuild&) noexcept;
  // Null for an implementation. "fastest" and "cycle" are tables of nothing but this: the table
  // that takes columns of so many bytes, asked once for each stripe.
  const Kernels& (*pick)(std::size_t column_bytes) noexcept;
};

}  // namespace zuse::raid
