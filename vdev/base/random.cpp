// The jump of xorshift128+, and the kernel's randomness.
//
// One step of the generator is a linear map M of its 128 bits. A jump of 2^64 steps is M^(2^64).
// By Cayley and Hamilton M is a root of its characteristic polynomial p (degree 128 over GF(2)), so
// M^(2^64) equals j(M) with j = x^(2^64) mod p, which has at most 128 terms: the jump is the sum of
// the states after i steps, over all i whose coefficient in j is 1.
//
// p is found from the generator itself: any single bit of the state, watched over 256 steps, obeys
// p as a linear recurrence, and Berlekamp and Massey's algorithm recovers it (p is irreducible, as
// the period is full, so every non-zero sequence has all of p as its minimal polynomial). Then x is
// squared 64 times modulo p. The constant below is the result; the tests derive it again this way
// and check it against the 64-fold squaring of the 128 x 128 matrix M itself.
#include "vdev/base/random.h"

#include <sys/random.h>

#include <cerrno>
#include <cstring>

#include "vdev/base/result.h"
#include "vdev/base/sync.h"

namespace zuse {

namespace {

// Spreads a seed over 64 bits; its own sequence has period 2^64. (Steele, Lea and Flood, 2014.)
std::uint64_t splitmix64(std::uint64_t& state) noexcept {
  state += 0x9e3779b97f4a7c15U;
  std::uint64_t mixed = state;
  mixed = (mixed ^ (mixed >> 30U)) * 0xbf58476d1ce4e5b9U;
  mixed = (mixed ^ (mixed >> 27U)) * 0x94d049bb133111ebU;
  return mixed ^ (mixed >> 31U);
}

std::array<std::uint64_t, 2> not_all_zero(std::array<std::uint64_t, 2> state) noexcept {
  if (state[0] == 0 && state[1] == 0) {
    return {0x9e3779b97f4a7c15U, 0xbf58476d1ce4e5b9U};
  }
  return state;
}

// The stream that the next thread gets; each taking moves it a jump on.
Xorshift128Plus next_stream() {
  static Mutex mutex{LockRank::leaf};
  static Xorshift128Plus next = [] {
    std::array<std::uint64_t, 2> state{};
    secure_random(std::as_writable_bytes(std::span(state)));
    return Xorshift128Plus(state);
  }();
  const LockGuard guard(mutex);
  Xorshift128Plus stream = next;
  next.jump();
  return stream;
}

}  // namespace

constinit const std::array<std::uint64_t, 2> kXorshiftJump = {0x8c405782bca686adU,
                                                              0xc44f35946fef49c6U};

Xorshift128Plus::Xorshift128Plus(std::uint64_t seed) noexcept : state_{} {
  const std::uint64_t first = splitmix64(seed);
  const std::uint64_t second = splitmix64(seed);
  state_ = not_all_zero({first, second});
}

Xorshift128Plus::Xorshift128Plus(std::array<std::uint64_t, 2> state) noexcept
    : state_(not_all_zero(state)) {}

std::uint64_t Xorshift128Plus::bounded(std::uint64_t bound) noexcept {
  // The high half of a 128-bit product is uniform, but for draws whose low half falls below
  // 2^64 mod bound: those are drawn again.
  __extension__ using Wide = unsigned __int128;
  Wide product = Wide{(*this)()} * bound;
  if (static_cast<std::uint64_t>(product) < bound) {
    const std::uint64_t surplus = (0 - bound) % bound;
    while (static_cast<std::uint64_t>(product) < surplus) {
      product = Wide{(*this)()} * bound;
    }
  }
  return static_cast<std::uint64_t>(product >> 64U);
}

void Xorshift128Plus::fill(std::span<std::byte> bytes) noexcept {
  while (bytes.size() >= sizeof(std::uint64_t)) {
    const std::uint64_t word = (*this)();
    std::memcpy(bytes.data(), &word, sizeof word);
    bytes = bytes.subspan(sizeof word);
  }
  if (!bytes.empty()) {
    const std::uint64_t word = (*this)();
    std::memcpy(bytes.data(), &word, bytes.size());
  }
}

void Xorshift128Plus::jump() noexcept {
  std::array<std::uint64_t, 2> sum{};
  for (const std::uint64_t word : kXorshiftJump) {
    for (unsigned bit = 0; bit < 64; ++bit) {
      if (((word >> bit) & 1U) != 0) {
        sum[0] ^= state_[0];
        sum[1] ^= state_[1];
      }
      (*this)();
    }
  }
  state_ = sum;
}

Xorshift128Plus& thread_random() {
  thread_local Xorshift128Plus stream = next_stream();
  return stream;
}

void secure_random(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = getrandom(bytes.data(), bytes.size(), 0);
    if (got < 0) {
      // Blocks until the kernel's pool is ready; only a signal can end it early.
      ZUSE_CHECK(errno == EINTR);
      continue;
    }
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
}

std::uint64_t secure_random_u64() {
  std::uint64_t number = 0;
  while (number == 0) {
    secure_random(std::as_writable_bytes(std::span(&number, 1)));
  }
  return number;
}

}  // namespace zuse
