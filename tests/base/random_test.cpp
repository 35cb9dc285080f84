// The generator, its jump, and the kernel's randomness.
#include "vdev/base/random.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <set>
#include <thread>
#include <vector>

#include "tests/support/seed.h"

namespace zuse {
namespace {

// 128 bits over GF(2): a vector, and a polynomial of degree < 128.
using Vector = std::array<std::uint64_t, 2>;

bool bit(const Vector& vector, unsigned i) {
  return ((vector[i / 64] >> (i % 64)) & 1U) != 0;
}

// The step of the generator as its 128 columns: column i is where state bit i goes. A step is
// linear (shifts and XOR), so the generator itself, run on unit vectors, gives it.
using Map = std::array<Vector, 128>;

Map step_map() {
  Map map{};
  for (unsigned i = 0; i < 128; ++i) {
    Vector unit{};
    unit[i / 64] = std::uint64_t{1} << (i % 64);
    Xorshift128Plus generator(unit);
    generator();
    map[i] = generator.state();
  }
  return map;
}

Vector image_of(const Map& map, const Vector& vector) {
  Vector sum{};
  for (unsigned i = 0; i < 128; ++i) {
    if (bit(vector, i)) {
      sum[0] ^= map[i][0];
      sum[1] ^= map[i][1];
    }
  }
  return sum;
}

Map squared(const Map& map) {
  Map result{};
  for (unsigned i = 0; i < 128; ++i) {
    result[i] = image_of(map, map[i]);
  }
  return result;
}

// The low 128 coefficients of the characteristic polynomial (that of x^128 is 1), by Berlekamp and
// Massey's algorithm on one bit of the state.
Vector characteristic_polynomial() {
  std::vector<unsigned> sequence;
  Xorshift128Plus generator(std::array<std::uint64_t, 2>{1, 2});
  for (unsigned i = 0; i < 256; ++i) {
    sequence.push_back(static_cast<unsigned>(generator.state()[0] & 1U));
    generator();
  }
  std::vector<unsigned> connection{1};
  std::vector<unsigned> previous{1};
  std::size_t length = 0;
  std::size_t gap = 1;
  for (std::size_t n = 0; n < sequence.size(); ++n) {
    unsigned discrepancy = sequence[n];
    for (std::size_t i = 1; i <= length && i < connection.size(); ++i) {
      discrepancy ^= connection[i] & sequence[n - i];
    }
    if (discrepancy == 0) {
      ++gap;
      continue;
    }
    const auto before = connection;
    if (connection.size() < previous.size() + gap) {
      connection.resize(previous.size() + gap);
    }
    for (std::size_t i = 0; i < previous.size(); ++i) {
      connection[i + gap] ^= previous[i];
    }
    if (2 * length <= n) {
      length = n + 1 - length;
      previous = before;
      gap = 1;
    } else {
      ++gap;
    }
  }
  EXPECT_EQ(length, 128U);
  connection.resize(129);
  Vector polynomial{};
  for (unsigned i = 0; i < 128; ++i) {  // reversed: the coefficient of x^i is that of gap 128 - i
    polynomial[i / 64] |= std::uint64_t{connection[128 - i]} << (i % 64);
  }
  return polynomial;
}

Vector multiply(Vector a, const Vector& b, const Vector& modulus) {
  Vector product{};
  for (unsigned i = 0; i < 128; ++i) {
    if (bit(b, i)) {
      product[0] ^= a[0];
      product[1] ^= a[1];
    }
    const bool carry = bit(a, 127);
    a[1] = (a[1] << 1U) | (a[0] >> 63U);
    a[0] <<= 1U;
    if (carry) {
      a[0] ^= modulus[0];
      a[1] ^= modulus[1];
    }
  }
  return product;
}

TEST(RandomTest, StepsAreThoseOfThePaper) {
  // By hand, shifts 23, 17, 26, from state (1, 2): a = 1 ^ 1 << 23; new = a ^ 2 ^ a >> 17 ^ 2
  // >> 26.
  Xorshift128Plus generator(std::array<std::uint64_t, 2>{1, 2});
  const std::uint64_t first = 0x800001U ^ 2U ^ (0x800001U >> 17U);
  EXPECT_EQ(generator(), first + 2);
  EXPECT_EQ(generator.state(), (std::array<std::uint64_t, 2>{2, first}));
}

TEST(RandomTest, TheJumpPolynomialIsXToThe2To64) {
  const Vector modulus = characteristic_polynomial();
  Vector power{2, 0};  // x
  for (int i = 0; i < 64; ++i) {
    power = multiply(power, power, modulus);
  }
  EXPECT_EQ(kXorshiftJump, power);
}

TEST(RandomTest, AJumpIsTheStepMapSquared64Times) {
  SCOPED_TRACE(test::rerun());
  Map map = step_map();
  for (int i = 0; i < 64; ++i) {
    map = squared(map);
  }
  Xorshift128Plus generator(test::seed());
  for (int i = 0; i < 100; ++i) {
    const auto expected = image_of(map, generator.state());
    generator.jump();
    ASSERT_EQ(generator.state(), expected);
  }
}

TEST(RandomTest, TheStepMapAgreesWithStepping) {
  Map map = step_map();
  for (int i = 0; i < 10; ++i) {
    map = squared(map);  // 1024 steps
  }
  Xorshift128Plus generator(7);
  const auto expected = image_of(map, generator.state());
  for (int i = 0; i < 1024; ++i) {
    generator();
  }
  EXPECT_EQ(generator.state(), expected);
}

TEST(RandomTest, SeedZeroAndStateZeroStillRun) {
  EXPECT_NE(Xorshift128Plus(0)(), Xorshift128Plus(1)());
  Xorshift128Plus generator(std::array<std::uint64_t, 2>{0, 0});
  generator();
  EXPECT_NE(generator(), 0U);
}

TEST(RandomTest, BoundedDrawsAreBelowTheBoundAndEven) {
  SCOPED_TRACE(test::rerun());
  Xorshift128Plus generator(test::seed());
  EXPECT_EQ(generator.bounded(1), 0U);
  constexpr std::uint64_t kBound = 10;
  constexpr int kDraws = 100000;
  std::array<int, kBound> seen{};
  for (int i = 0; i < kDraws; ++i) {
    const std::uint64_t draw = generator.bounded(kBound);
    ASSERT_LT(draw, kBound);
    ++seen[draw];
  }
  // Chi squared with 9 degrees of freedom; 60 is exceeded once in a billion runs.
  double chi = 0;
  for (const int count : seen) {
    const double off = count - kDraws / double{kBound};
    chi += off * off / (kDraws / double{kBound});
  }
  EXPECT_LT(chi, 60);
  const std::uint64_t large = (std::uint64_t{1} << 63U) + 1;
  for (int i = 0; i < 1000; ++i) {
    ASSERT_LT(generator.bounded(large), large);
  }
}

TEST(RandomTest, UnitDrawsAreBelowOneAndCentred) {
  SCOPED_TRACE(test::rerun());
  Xorshift128Plus generator(test::seed());
  double sum = 0;
  for (int i = 0; i < 100000; ++i) {
    const double draw = generator.unit();
    ASSERT_TRUE(draw >= 0 && draw < 1);
    sum += draw;
  }
  EXPECT_NEAR(sum / 100000, 0.5, 0.01);
}

TEST(RandomTest, FillWritesEveryByteOfAnySize) {
  for (std::size_t size = 0; size < 40; ++size) {
    Xorshift128Plus generator(size + 1);
    std::vector<std::byte> once(size), ever(size);
    for (int i = 0; i < 64; ++i) {
      generator.fill(once);
      for (std::size_t at = 0; at < size; ++at) {
        ever[at] |= once[at];
      }
    }
    for (const std::byte byte : ever) {
      EXPECT_EQ(byte, std::byte{0xff});
    }
  }
}

TEST(RandomTest, ThreadsHaveStreamsOfTheirOwn) {
  std::vector<std::array<std::uint64_t, 2>> states(8);
  std::vector<std::thread> threads;
  for (auto& state : states) {
    threads.emplace_back([&state] { state = thread_random().state(); });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(std::set(states.begin(), states.end()).size(), states.size());
  EXPECT_EQ(&thread_random(), &thread_random());
}

TEST(RandomTest, TheKernelsNumbersAreNeverZeroAndDiffer) {
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 1000; ++i) {
    seen.insert(secure_random_u64());
  }
  EXPECT_EQ(seen.size(), 1000U);
  EXPECT_FALSE(seen.contains(0));
}

}  // namespace
}  // namespace zuse
