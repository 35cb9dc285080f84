// The loops of limits.h over a vector type V; each file that includes this is compiled for one
// instruction set.
#pragma once

#include "tests/bench/parity/limits.h"

namespace zuse::bench {
namespace {

// kData: the number of columns, known to the compiler; 0: any.
template <class V, unsigned kInto, bool kStream, unsigned kData>
void xor_loop(const std::byte* const* data, unsigned any, std::byte* const* into,
              std::size_t bytes) {
  constexpr unsigned kCount = 128 / sizeof(V);
  const unsigned columns = kData == 0 ? any : kData;
  for (std::size_t at = 0; at < bytes; at += 128) {
    V sum[kCount];
    for (unsigned u = 0; u < kCount; ++u) {
      sum[u] = V::load(data[0] + at + u * sizeof(V));
    }
#pragma GCC unroll 8
    for (unsigned column = 1; column < columns; ++column) {
      for (unsigned u = 0; u < kCount; ++u) {
        sum[u] = V::exclusive_or(sum[u], V::load(data[column] + at + u * sizeof(V)));
      }
    }
    for (unsigned w = 0; w < kInto; ++w) {
      for (unsigned u = 0; u < kCount; ++u) {
        if constexpr (kStream) {
          V::stream(into[w] + at + u * sizeof(V), sum[u]);
        } else {
          V::store(into[w] + at + u * sizeof(V), sum[u]);
        }
      }
    }
  }
  if constexpr (kStream) {
    V::fence();
  }
}

template <class V, unsigned kInto, bool kStream>
void xor_to(const std::byte* const* data, unsigned columns, std::byte* const* into,
            std::size_t bytes) {
  if (columns == 8) {
    xor_loop<V, kInto, kStream, 8>(data, columns, into, bytes);
  } else if (columns == 4) {
    xor_loop<V, kInto, kStream, 4>(data, columns, into, bytes);
  } else {
    xor_loop<V, kInto, kStream, 0>(data, columns, into, bytes);
  }
}

template <class V>
std::byte read_all(const std::byte* from, std::size_t bytes) {
  constexpr unsigned kCount = 256 / sizeof(V);
  V sum[kCount];
  for (unsigned u = 0; u < kCount; ++u) {
    sum[u] = V::load(from + u * sizeof(V));
  }
  for (std::size_t at = 256; at < bytes; at += 256) {
    for (unsigned u = 0; u < kCount; ++u) {
      sum[u] = V::exclusive_or(sum[u], V::load(from + at + u * sizeof(V)));
    }
  }
  std::byte out[256];
  std::byte all{};
  for (unsigned u = 0; u < kCount; ++u) {
    V::store(out + u * sizeof(V), sum[u]);
  }
  for (const std::byte one : out) {
    all ^= one;
  }
  return all;
}

template <class V>
constexpr Limits limits_of(const char* name) {
  return {name,
          {xor_to<V, 1, false>, xor_to<V, 2, false>, xor_to<V, 3, false>},
          {xor_to<V, 1, true>, xor_to<V, 2, true>, xor_to<V, 3, true>},
          read_all<V>};
}

}  // namespace
}  // namespace zuse::bench
