// fletcher4 in L lanes side by side: lane l sums the units l, l + L, l + 2L ... by itself, and the
// lanes are combined exactly at the end. All in an anonymous namespace: each file that includes
// this is compiled for its own instruction set.
//
// With n units a lane, unit i of lane l stands at place Li + l of N = Ln. Its weight in the sums
// over all is a polynomial of its distance from the end, r = N - (Li + l) = Lk - l with k = n - i,
// and each lane's own sums weigh it by binomials of k:
//     weight in b: r,       in c: r(r + 1)/2,       in d: r(r + 1)(r + 2)/6
//     a lane has:  A = sum x,  B = sum k x,  C = sum k(k + 1)/2 x,  D = sum k(k + 1)(k + 2)/6 x
// Expressing the former by the latter (k = B, k^2 = 2C - B, k^3 = 6D - 6C + B) gives the weights
// below; everything is modulo 2^64, as the sums are.
//
// V is L lanes of 64 bits: kLanes, zero(), load<kSwap>(at) (32-bit units, widened), operator+,
// store(at).
#pragma once

#include <cstddef>
#include <cstdint>

#include "fs/codec/fletcher4.h"

namespace zuse::codec {
namespace {

struct LaneWeights {
  std::int64_t b_of_a, b_of_b;
  std::int64_t c_of_a, c_of_b, c_of_c;
  std::int64_t d_of_a, d_of_b, d_of_c, d_of_d;
};

constexpr LaneWeights lane_weights(std::int64_t lanes, std::int64_t l) {
  const std::int64_t square = lanes * lanes, cube = square * lanes;
  return {.b_of_a = -l,
          .b_of_b = lanes,
          .c_of_a = l * (l - 1) / 2,
          .c_of_b = lanes * (1 - lanes) / 2 - lanes * l,
          .c_of_c = square,
          .d_of_a = -l * (l - 1) * (l - 2) / 6,
          .d_of_b = (cube - 3 * square * (1 - l) + lanes * (3 * l * l - 6 * l + 2)) / 6,
          .d_of_c = square * (1 - l) - cube,
          .d_of_d = cube};
}
static_assert(lane_weights(4, 2).d_of_b == 20 && lane_weights(4, 2).d_of_c == -80);

template <class V, bool kSwap>
void sum_lanes(const std::byte* data, std::size_t bytes, std::uint64_t out[4]) noexcept {
  constexpr std::size_t kLanes = V::kLanes;
  constexpr std::size_t kStep = kLanes * sizeof(std::uint32_t);
  V a = V::zero(), b = a, c = a, d = a;
  const std::size_t whole = bytes / kStep * kStep;
#pragma GCC unroll 4
  for (std::size_t at = 0; at < whole; at += kStep) {
    a = a + V::template load<kSwap>(data + at);
    b = b + a;
    c = c + b;
    d = d + c;
  }
  std::uint64_t lane_a[kLanes], lane_b[kLanes], lane_c[kLanes], lane_d[kLanes];
  a.store(lane_a);
  b.store(lane_b);
  c.store(lane_c);
  d.store(lane_d);
  std::uint64_t sum_a = 0, sum_b = 0, sum_c = 0, sum_d = 0;
  for (std::size_t l = 0; l < kLanes; ++l) {
    const LaneWeights weights =
        lane_weights(static_cast<std::int64_t>(kLanes), static_cast<std::int64_t>(l));
    const auto times = [](std::int64_t weight, std::uint64_t sum) {
      return static_cast<std::uint64_t>(weight) * sum;
    };
    sum_a += lane_a[l];
    sum_b += times(weights.b_of_a, lane_a[l]) + times(weights.b_of_b, lane_b[l]);
    sum_c += times(weights.c_of_a, lane_a[l]) + times(weights.c_of_b, lane_b[l]) +
             times(weights.c_of_c, lane_c[l]);
    sum_d += times(weights.d_of_a, lane_a[l]) + times(weights.d_of_b, lane_b[l]) +
             times(weights.d_of_c, lane_c[l]) + times(weights.d_of_d, lane_d[l]);
  }
  // A tail of fewer units than lanes goes on from there.
  for (std::size_t at = whole; at + sizeof(std::uint32_t) <= bytes; at += sizeof(std::uint32_t)) {
    std::uint32_t unit = 0;
    __builtin_memcpy(&unit, data + at, sizeof unit);
    sum_a += kSwap ? __builtin_bswap32(unit) : unit;
    sum_b += sum_a;
    sum_c += sum_b;
    sum_d += sum_c;
  }
  out[0] = sum_a;
  out[1] = sum_b;
  out[2] = sum_c;
  out[3] = sum_d;
}

template <class V>
void sum(const std::byte* data, std::size_t bytes, bool swap, std::uint64_t out[4]) noexcept {
  if (swap) {
    sum_lanes<V, true>(data, bytes, out);
  } else {
    sum_lanes<V, false>(data, bytes, out);
  }
}

}  // namespace
}  // namespace zuse::codec
