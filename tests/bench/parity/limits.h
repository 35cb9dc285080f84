// The limits that parity is measured against: loops that read the same columns and write as many,
// but only XOR; with the widest vectors of this CPU.
#pragma once

#include <cstddef>

namespace zuse::bench {

struct Limits {
  const char* name;  // of the instruction set
  // XORs `data_columns` columns of `bytes` and writes the sum to 1, 2 or 3 others.
  // shape: bytes a multiple of 256; everything aligned to 64.
  void (*xor_to[3])(const std::byte* const* data, unsigned data_columns, std::byte* const* into,
                    std::size_t bytes);
  void (*xor_to_streaming[3])(const std::byte* const* data, unsigned data_columns,
                              std::byte* const* into, std::size_t bytes);
  // Reads all and returns a byte of the XOR.
  std::byte (*read)(const std::byte* from, std::size_t bytes);
};

#if defined(__x86_64__)
extern const Limits kLimitsAvx512;
extern const Limits kLimitsAvx2;
extern const Limits kLimitsSse2;
#endif
// The widest that this CPU runs; null: none is written for it.
const Limits* limits();

}  // namespace zuse::bench
