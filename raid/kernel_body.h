// The loops that all implementations share, over a vector type `V` that each brings along. All of
// it is in an anonymous namespace, on purpose: every file that includes this gets code of its own,
// compiled with its own flags, and the linker never mixes them. Therefore also no inline function
// of the standard library in here.
//
// V has:
//   kBytes              its width; kBytes <= kKernelStep
//   kUnroll[3]          how many vectors a step takes where one, two, three parities are kept
//   kPairs              columns are taken two at a time
//   kUnrollRebuild[3]   the same where one, two, three columns are rebuilt
//   load, store, stream, fence, zero, operator^
//   bias(a)             see below; its own inverse
//   horner2, horner4    2 a + d and 4 a + d, of a biased
//   Split, split(a), Multiplier(coefficient) with operator()(Split): any product
// and with kPairs also xor3(a, b, c), horner16, and horner2(a, c, d) = 4 a + 2 c + d,
// horner4(a, c, d) = 16 a + 4 c + d.
//
// The bias. Doubling a byte is a shift, and where the top bit fell out, + 0x1d. A byte shuffle
// gives zero for an index with its top bit set, so shuffling a vector of 0x1d by the byte itself
// gives 0x1d just where *no* bit fell out: 2 a + 0x1d in two instructions and an XOR, without a
// comparison and a mask. The constant is no trouble: carry e = 0x1d / 3 along with every sum, and
// 2 (a + e) + 0x1d = 2 a + e, since 2 e + 0x1d = 2 e + 3 e = e. So sums start with e and lose it at
// the end.
#pragma once

#include <cstddef>
#include <cstdint>

#include "raid/gf256.h"
#include "raid/kernels.h"

namespace zuse::raid {
namespace {

inline constexpr std::uint8_t kBias = mul(0x1d, inverse(3));
static_assert((mul2(kBias) ^ 0x1dU) == kBias);

constexpr unsigned members(unsigned set) {
  return (set & 1U) + ((set >> 1U) & 1U) + (set >> 2U);
}

// kCount vectors of each parity in kSet over the columns, by Horner's rule: every further column
// multiplies what is there by 1, 2 or 4 and adds itself. A null column adds nothing.
template <class V, unsigned kSet, unsigned kCount>
struct Sums {
  static constexpr bool kHasP = (kSet & kP) != 0;
  static constexpr bool kHasQ = (kSet & kQ) != 0;
  static constexpr bool kHasR = (kSet & kR) != 0;
  V p[kCount];
  V q[kCount];
  V r[kCount];

  [[gnu::always_inline]] void start(const std::byte* from) noexcept {
#pragma GCC unroll 8
    for (unsigned u = 0; u < kCount; ++u) {
      const V value = from == nullptr ? V::zero() : V::load(from + u * V::kBytes);
      p[u] = value;
      if constexpr (kHasQ || kHasR) {
        q[u] = r[u] = V::bias(value);
      }
    }
  }
  [[gnu::always_inline]] void add(const std::byte* from) noexcept {
#pragma GCC unroll 8
    for (unsigned u = 0; u < kCount; ++u) {
      const V value = V::load(from + u * V::kBytes);
      if constexpr (kHasP) {
        p[u] = p[u] ^ value;
      }
      if constexpr (kHasQ) {
        q[u] = V::horner2(q[u], value);
      }
      if constexpr (kHasR) {
        r[u] = V::horner4(r[u], value);
      }
    }
  }
  [[gnu::always_inline]] void skip() noexcept {
#pragma GCC unroll 8
    for (unsigned u = 0; u < kCount; ++u) {
      if constexpr (kHasQ) {
        q[u] = V::horner2(q[u], V::zero());
      }
      if constexpr (kHasR) {
        r[u] = V::horner4(r[u], V::zero());
      }
    }
  }
  [[gnu::always_inline]] void add_pair(const std::byte* first, const std::byte* second) noexcept {
#pragma GCC unroll 8
    for (unsigned u = 0; u < kCount; ++u) {
      const V one = V::load(first + u * V::kBytes);
      const V two = V::load(second + u * V::kBytes);
      if constexpr (kHasP) {
        p[u] = V::xor3(p[u], one, two);
      }
      if constexpr (kHasQ) {
        q[u] = V::horner2(q[u], one, two);
      }
      if constexpr (kHasR) {
        r[u] = V::horner4(r[u], one, two);
      }
    }
  }
  // A pair of which only the second is there.
  [[gnu::always_inline]] void skip_and_add(const std::byte* second) noexcept {
#pragma GCC unroll 8
    for (unsigned u = 0; u < kCount; ++u) {
      const V value = V::load(second + u * V::kBytes);
      if constexpr (kHasP) {
        p[u] = p[u] ^ value;
      }
      if constexpr (kHasQ) {
        q[u] = V::horner4(q[u], value);
      }
      if constexpr (kHasR) {
        r[u] = V::horner16(r[u], value);
      }
    }
  }

  // kHoles: some columns are null.
  template <bool kHoles>
  [[gnu::always_inline]] void sum(const std::byte* const* data, unsigned data_columns,
                                  std::size_t at) noexcept {
    start(data[0] == nullptr ? nullptr : data[0] + at);
    unsigned column = 1;
    if constexpr (V::kPairs) {
      for (; column + 1 < data_columns; column += 2) {
        const std::byte* const first = data[column];
        const std::byte* const second = data[column + 1];
        if (!kHoles || (first != nullptr && second != nullptr)) {
          add_pair(first + at, second + at);
        } else if (second != nullptr) {
          skip_and_add(second + at);
        } else {
          if (first != nullptr) {
            add(first + at);
          } else {
            skip();
          }
          skip();
        }
      }
    }
    for (; column < data_columns; ++column) {
      if (const std::byte* const from = data[column]; !kHoles || from != nullptr) {
        add(from + at);
      } else {
        skip();
      }
    }
    if constexpr (kHasQ || kHasR) {
#pragma GCC unroll 8
      for (unsigned u = 0; u < kCount; ++u) {
        q[u] = V::bias(q[u]);
        r[u] = V::bias(r[u]);
      }
    }
  }
};

template <class V, bool kStream>
[[gnu::always_inline]] inline void put(std::byte* into, V value) noexcept {
  if constexpr (kStream) {
    V::stream(into, value);
  } else {
    V::store(into, value);
  }
}

template <class V, unsigned kSet, unsigned kCount, bool kHoles, bool kStream>
[[gnu::always_inline]] inline std::size_t generate_steps(const Row& row, std::size_t at) noexcept {
  constexpr std::size_t kStep = V::kBytes * kCount;
  std::byte* const p = row.parity[0];
  std::byte* const q = (kSet & kQ) != 0 ? row.parity[1] : nullptr;
  std::byte* const r = (kSet & kR) != 0 ? row.parity[2] : nullptr;
  for (; at + kStep <= row.bytes; at += kStep) {
    Sums<V, kSet, kCount> sums;
    sums.template sum<kHoles>(row.data, row.data_columns, at);
#pragma GCC unroll 8
    for (unsigned u = 0; u < kCount; ++u) {
      put<V, kStream>(p + at + u * V::kBytes, sums.p[u]);
      if constexpr ((kSet & kQ) != 0) {
        put<V, kStream>(q + at + u * V::kBytes, sums.q[u]);
      }
      if constexpr ((kSet & kR) != 0) {
        put<V, kStream>(r + at + u * V::kBytes, sums.r[u]);
      }
    }
  }
  return at;
}

template <class V, unsigned kSet, bool kHoles, bool kStream>
void generate_all(const Row& row) noexcept {
  const std::size_t at =
      generate_steps<V, kSet, V::kUnroll[members(kSet) - 1], kHoles, kStream>(row, 0);
  generate_steps<V, kSet, kKernelStep / V::kBytes, kHoles, kStream>(row, at);
  if constexpr (kStream) {
    V::fence();
  }
}

template <class V, unsigned kSet>
void generate(const Row& row) noexcept {
  bool holes = false;
  for (unsigned column = 0; column < row.data_columns; ++column) {
    holes |= row.data[column] == nullptr;
  }
  if (holes) {
    generate_all<V, kSet, true, false>(row);
  } else if (row.streaming) {
    generate_all<V, kSet, false, true>(row);
  } else {
    generate_all<V, kSet, false, false>(row);
  }
}

template <class V>
void mul_add(std::byte* into, const std::byte* from, std::size_t size, std::uint8_t by) noexcept {
  if (by == 1) {
    for (std::size_t at = 0; at < size; at += V::kBytes) {
      V::store(into + at, V::load(into + at) ^ V::load(from + at));
    }
    return;
  }
  const typename V::Multiplier multiply(by);
  for (std::size_t at = 0; at < size; at += V::kBytes) {
    V::store(into + at, V::load(into + at) ^ multiply(V::split(V::load(from + at))));
  }
}

// The multiplications of a rebuild, kept in registers as far as they go.
template <class V, unsigned kSet>
struct Solver {
  static constexpr unsigned kMissing = members(kSet);
  // With P among the parities in use, the missing columns add up to P's syndrome, so the last of
  // them needs no multiplication.
  static constexpr unsigned kMultiplied = (kSet & kP) != 0 ? kMissing - 1 : kMissing;
  typename V::Multiplier by[kMissing][kMissing];

  [[gnu::always_inline]] explicit Solver(const Rebuild& work) noexcept {
    for (unsigned i = 0; i < kMultiplied; ++i) {
      for (unsigned j = 0; j < kMissing; ++j) {
        by[i][j] = typename V::Multiplier(work.coefficient[i][j]);
      }
    }
  }

  template <unsigned kCount>
  [[gnu::always_inline]] std::size_t steps(const Rebuild& work, std::size_t at) const noexcept {
    constexpr std::size_t kStep = V::kBytes * kCount;
    for (; at + kStep <= work.bytes; at += kStep) {
      Sums<V, kSet, kCount> sums;
      sums.template sum<true>(work.data, work.data_columns, at);
      V syndrome[kMissing][kCount];
#pragma GCC unroll 8
      for (unsigned u = 0; u < kCount; ++u) {
        const std::size_t here = at + u * V::kBytes;
        unsigned used = 0;
        if constexpr ((kSet & kP) != 0) {
          syndrome[used][u] = sums.p[u] ^ V::load(work.parity[used] + here);
          ++used;
        }
        if constexpr ((kSet & kQ) != 0) {
          syndrome[used][u] = sums.q[u] ^ V::load(work.parity[used] + here);
          ++used;
        }
        if constexpr ((kSet & kR) != 0) {
          syndrome[used][u] = sums.r[u] ^ V::load(work.parity[used] + here);
        }
      }
      if constexpr (kMultiplied != 0) {
        V value[kMultiplied][kCount];
#pragma GCC unroll 8
        for (unsigned j = 0; j < kMissing; ++j) {
          typename V::Split parts[kCount];
#pragma GCC unroll 8
          for (unsigned u = 0; u < kCount; ++u) {
            parts[u] = V::split(syndrome[j][u]);
          }
#pragma GCC unroll 8
          for (unsigned i = 0; i < kMultiplied; ++i) {
            const typename V::Multiplier multiply = by[i][j];
#pragma GCC unroll 8
            for (unsigned u = 0; u < kCount; ++u) {
              const V product = multiply(parts[u]);
              value[i][u] = j == 0 ? product : value[i][u] ^ product;
            }
          }
        }
#pragma GCC unroll 8
        for (unsigned i = 0; i < kMultiplied; ++i) {
#pragma GCC unroll 8
          for (unsigned u = 0; u < kCount; ++u) {
            V::store(work.out[i] + at + u * V::kBytes, value[i][u]);
            syndrome[0][u] = syndrome[0][u] ^ value[i][u];
          }
        }
      }
      if constexpr ((kSet & kP) != 0) {
#pragma GCC unroll 8
        for (unsigned u = 0; u < kCount; ++u) {
          V::store(work.out[kMissing - 1] + at + u * V::kBytes, syndrome[0][u]);
        }
      }
    }
    return at;
  }
};

// One pass over all columns.
template <class V, unsigned kSet>
void rebuild(const Rebuild& work) noexcept {
  const Solver<V, kSet> solver(work);
  const std::size_t at = solver.template steps<V::kUnrollRebuild[members(kSet) - 1]>(work, 0);
  solver.template steps<kKernelStep / V::kBytes>(work, at);
}

template <class V>
constexpr Kernels kernels_of(const char* name) {
  static_assert(V::kBytes <= kKernelStep && kKernelStep % V::kBytes == 0);
  return {
      .name = name,
      .generate = {generate<V, kP>, generate < V, kP | kQ >, generate < V, kP | kQ | kR > },
      .mul_add = mul_add<V>,
      .rebuild = {nullptr, rebuild<V, kP>, rebuild<V, kQ>, rebuild < V, kP | kQ >, rebuild<V, kR>,
                  rebuild < V, kP | kR >, rebuild < V, kQ | kR >, rebuild < V, kP | kQ | kR > },
      .pick = nullptr};
}

}  // namespace
}  // namespace zuse::raid
