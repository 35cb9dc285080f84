// Randomness of two kinds. Xorshift128Plus is fast and well spread, and anyone who has seen a few
// numbers can tell the next: mirror and copy choice, injection probability, test data. What must
// not be guessed or repeat across machines (GUIDs, ZAP salts, intent-log chain ids) comes from the
// kernel: secure_random().
//
// The generator is Vigna's xorshift128+ with shifts 23, 17, 26 (arXiv 1402.6246v2): a linear map
// over GF(2) on 128 bits of state, of period 2^128 - 1, whose output is the sum of the two halves.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace zuse {

// A stream of 64-bit numbers. Satisfies UniformRandomBitGenerator. Not thread-safe.
class Xorshift128Plus {
 public:
  using result_type = std::uint64_t;

  // State from a seed (by splitmix64, so that close seeds give unlike streams).
  explicit Xorshift128Plus(std::uint64_t seed) noexcept;
  // Exactly this state. shape: not all zero (the all-zero state is replaced by a fixed one).
  explicit Xorshift128Plus(std::array<std::uint64_t, 2> state) noexcept;

  static constexpr std::uint64_t min() noexcept { return 0; }
  static constexpr std::uint64_t max() noexcept {
    return std::numeric_limits<std::uint64_t>::max();
  }

  std::uint64_t operator()() noexcept {
    std::uint64_t older = state_[0];
    const std::uint64_t newer = state_[1];
    state_[0] = newer;
    older ^= older << 23U;
    state_[1] = older ^ newer ^ (older >> 17U) ^ (newer >> 26U);
    return state_[1] + newer;
  }
  // A number in [0, bound), without bias (Lemire's multiplication). shape: bound > 0.
  std::uint64_t bounded(std::uint64_t bound) noexcept;
  // A number in [0, 1), a multiple of 2^-53.
  double unit() noexcept { return static_cast<double>((*this)() >> 11U) * 0x1p-53; }
  void fill(std::span<std::byte> bytes) noexcept;

  // As 2^64 calls would: streams that start jumps apart do not meet.
  void jump() noexcept;

  const std::array<std::uint64_t, 2>& state() const noexcept { return state_; }

 private:
  std::array<std::uint64_t, 2> state_;
};

// x^(2^64) modulo the characteristic polynomial of the generator's step, bit i of word i / 64 being
// the coefficient of x^i. How it was found: random.cpp.
extern const std::array<std::uint64_t, 2> kXorshiftJump;

// This thread's stream: all threads start from one seed of the kernel's, each a jump further.
Xorshift128Plus& thread_random();

// Bytes of getrandom(2).
void secure_random(std::span<std::byte> bytes);
// One number of getrandom(2); never 0, which means "none" wherever such numbers are stored.
std::uint64_t secure_random_u64();

}  // namespace zuse
