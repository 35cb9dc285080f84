// The loops that all implementations share, over a vector type `V` that each brings along. All of
// it is in an anonymous namespace, on purpose: every file that includes this gets code of its own,
// compiled with its own flags, and the linker never mixes them. Therefore also no inline function
// of the standard library in here.
//
// V has: kBytes (its width), kUnroll (how many at once, kBytes * kUnroll <= 64, a power of two),
// load, store, zero, operator^, mul2, mul4, and V::Multiplier(coefficient) with operator()(V).
#pragma once

#include <cstddef>
#include <cstdint>

#include "raid/gf256.h"
#include "raid/kernels.h"

namespace zuse::raid {
namespace {

// kUnroll vectors of each parity in kSet over the columns, by Horner's rule: every further column
// multiplies what is there by 1, 2 or 4 and adds itself. A null column adds nothing.
template <class V, unsigned kSet>
struct Sums {
  V p[V::kUnroll];
  V q[V::kUnroll];
  V r[V::kUnroll];

  Sums(const std::byte* const* data, unsigned data_columns, std::size_t at) noexcept {
    for (unsigned u = 0; u < V::kUnroll; ++u) {
      p[u] = q[u] = r[u] = V::zero();
    }
    for (unsigned column = 0; column < data_columns; ++column) {
      const std::byte* const from = data[column];
      if constexpr ((kSet & kQ) != 0) {
        for (unsigned u = 0; u < V::kUnroll; ++u) {
          q[u] = V::mul2(q[u]);
        }
      }
      if constexpr ((kSet & kR) != 0) {
        for (unsigned u = 0; u < V::kUnroll; ++u) {
          r[u] = V::mul4(r[u]);
        }
      }
      if (from == nullptr) {
        continue;
      }
      for (unsigned u = 0; u < V::kUnroll; ++u) {
        const V value = V::load(from + at + u * V::kBytes);
        if constexpr ((kSet & kP) != 0) {
          p[u] = p[u] ^ value;
        }
        if constexpr ((kSet & kQ) != 0) {
          q[u] = q[u] ^ value;
        }
        if constexpr ((kSet & kR) != 0) {
          r[u] = r[u] ^ value;
        }
      }
    }
  }
};

template <class V, unsigned kSet>
void generate(const Row& row) noexcept {
  constexpr std::size_t kStep = V::kBytes * V::kUnroll;
  for (std::size_t at = 0; at < row.bytes; at += kStep) {
    const Sums<V, kSet> sums(row.data, row.data_columns, at);
    for (unsigned u = 0; u < V::kUnroll; ++u) {
      V::store(row.parity[0] + at + u * V::kBytes, sums.p[u]);
      if constexpr ((kSet & kQ) != 0) {
        V::store(row.parity[1] + at + u * V::kBytes, sums.q[u]);
      }
      if constexpr ((kSet & kR) != 0) {
        V::store(row.parity[2] + at + u * V::kBytes, sums.r[u]);
      }
    }
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
    V::store(into + at, V::load(into + at) ^ multiply(V::load(from + at)));
  }
}

constexpr unsigned members(unsigned set) {
  return (set & 1U) + ((set >> 1U) & 1U) + (set >> 2U);
}

// One pass over all columns. With P among the parities in use, the missing columns add up to P's
// syndrome, so the last of them needs no multiplication.
template <class V, unsigned kSet>
void rebuild(const Rebuild& work) noexcept {
  constexpr std::size_t kStep = V::kBytes * V::kUnroll;
  constexpr unsigned kMissing = members(kSet);
  constexpr unsigned kMultiplied = (kSet & kP) != 0 ? kMissing - 1 : kMissing;
  using Multiplier = typename V::Multiplier;
  const auto factor = [&work](unsigned i, unsigned j) {
    return Multiplier(work.coefficient[i < kMissing ? i : 0][j < kMissing ? j : 0]);
  };
  const Multiplier by[3][3] = {{factor(0, 0), factor(0, 1), factor(0, 2)},
                               {factor(1, 0), factor(1, 1), factor(1, 2)},
                               {factor(2, 0), factor(2, 1), factor(2, 2)}};
  for (std::size_t at = 0; at < work.bytes; at += kStep) {
    const Sums<V, kSet> sums(work.data, work.data_columns, at);
    for (unsigned u = 0; u < V::kUnroll; ++u) {
      const std::size_t here = at + u * V::kBytes;
      V syndrome[kParityMax];
      unsigned used = 0;
      if constexpr ((kSet & kP) != 0) {
        syndrome[used] = sums.p[u] ^ V::load(work.parity[used] + here);
        ++used;
      }
      if constexpr ((kSet & kQ) != 0) {
        syndrome[used] = sums.q[u] ^ V::load(work.parity[used] + here);
        ++used;
      }
      if constexpr ((kSet & kR) != 0) {
        syndrome[used] = sums.r[u] ^ V::load(work.parity[used] + here);
      }
      V rest = syndrome[0];
      for (unsigned i = 0; i < kMultiplied; ++i) {
        V value = by[i][0](syndrome[0]);
        for (unsigned j = 1; j < kMissing; ++j) {
          value = value ^ by[i][j](syndrome[j]);
        }
        V::store(work.out[i] + here, value);
        rest = rest ^ value;
      }
      if constexpr ((kSet & kP) != 0) {
        V::store(work.out[kMissing - 1] + here, rest);
      }
    }
  }
}

template <class V>
constexpr Kernels kernels_of(const char* name) {
  static_assert(V::kBytes * V::kUnroll <= kKernelStep &&
                kKernelStep % (V::kBytes * V::kUnroll) == 0);
  return {
      .name = name,
      .generate = {generate<V, kP>, generate < V, kP | kQ >, generate < V, kP | kQ | kR > },
      .mul_add = mul_add<V>,
      .rebuild = {nullptr, rebuild<V, kP>, rebuild<V, kQ>, rebuild < V, kP | kQ >, rebuild<V, kR>,
                  rebuild < V, kP | kR >, rebuild < V, kQ | kR >, rebuild < V, kP | kQ | kR > }};
}

}  // namespace
}  // namespace zuse::raid
