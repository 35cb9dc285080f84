// The field and the equations of recovery.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "raid/gf256.h"
#include "raid/recovery.h"
#include "tests/raid/oracle.h"

namespace zuse::raid {
namespace {

TEST(FieldTest, ProductsAreThoseOfPolynomials) {
  for (unsigned a = 0; a < 256; ++a) {
    for (unsigned b = 0; b < 256; ++b) {
      const unsigned expected = test::oracle_product(a, b);
      ASSERT_EQ(mul(static_cast<std::uint8_t>(a), static_cast<std::uint8_t>(b)), expected);
      ASSERT_EQ(kProducts[a][b], expected);
      ASSERT_EQ(kNibbleProducts[a].low[b & 15U] ^ kNibbleProducts[a].high[b >> 4U], expected);
      unsigned by_matrix = 0;
      for (unsigned i = 0; i < 8; ++i) {
        const unsigned row = static_cast<unsigned>(kBitMatrices[a] >> (8 * (7 - i))) & 0xffU;
        by_matrix |= (static_cast<unsigned>(__builtin_popcount(row & b)) & 1U) << i;
      }
      ASSERT_EQ(by_matrix, expected);
    }
  }
}

TEST(FieldTest, PowersOfTwoAreTheKnownOnes) {
  const std::vector<unsigned> known{1,   2,   4,   8,  16, 32, 64,  128, 29, 58,  116,
                                    232, 205, 135, 19, 38, 76, 152, 45,  90, 180, 117,
                                    234, 201, 143, 3,  6,  12, 24,  48,  96, 192};
  for (unsigned i = 0; i < known.size(); ++i) {
    EXPECT_EQ(exp2(i), known[i]) << i;
  }
}

TEST(FieldTest, EveryNonZeroElementHasAnInverse) {
  for (unsigned a = 1; a < 256; ++a) {
    EXPECT_EQ(mul(static_cast<std::uint8_t>(a), inverse(static_cast<std::uint8_t>(a))), 1);
  }
}

// Whether some columns can be rebuilt depends only on their distances from the last one, so width
// 255 holds all smaller cases. All triples of 255 columns are too many for a unit test in one
// go: triples are taken relative to the last column of the three (a common factor of a row or
// column does not change whether a matrix can be inverted).
TEST(RecoveryTest, EverySquareMinorOfTheWeightsIsInvertible) {
  constexpr unsigned kData = kDataColumnsMax;
  for (unsigned row = 0; row < 3; ++row) {
    for (unsigned x = 0; x < kData; ++x) {
      const unsigned rows[]{row};
      const unsigned columns[]{x};
      ASSERT_TRUE(invert(weights(rows, columns, kData), 1));
    }
  }
  for (unsigned skipped = 0; skipped < 3; ++skipped) {
    const unsigned rows[]{skipped == 0 ? 1U : 0U, skipped == 2 ? 1U : 2U};
    for (unsigned x = 0; x + 1 < kData; ++x) {
      const unsigned columns[]{x, kData - 1};
      ASSERT_TRUE(invert(weights(rows, columns, kData), 2)) << skipped << " " << x;
    }
  }
  const unsigned rows[]{0, 1, 2};
  for (unsigned x = 0; x + 2 < kData; ++x) {
    for (unsigned y = x + 1; y + 1 < kData; ++y) {
      const unsigned columns[]{x, y, kData - 1};
      ASSERT_TRUE(invert(weights(rows, columns, kData), 3)) << x << " " << y;
    }
  }
}

// Beyond that nothing is promised: the weights of two columns that are 255 apart are equal.
TEST(RecoveryTest, WeightsRepeatAfter255Columns) {
  const unsigned rows[]{0, 1};
  const unsigned columns[]{0, 255};
  EXPECT_FALSE(invert(weights(rows, columns, 256), 2));
  EXPECT_TRUE(invert(weights(rows, std::array{0U, 254U}, 255), 2));
}

// The coefficients that a plan writes down are what elimination gives, for every loss.
TEST(RecoveryTest, PlansHoldTheInverseOfTheWeights) {
  for (const unsigned data : {1U, 2U, 3U, 4U, 8U, 15U, 24U, 64U, 255U}) {
    const unsigned columns = kParityMax + data;
    const unsigned step = data <= 24 ? 1 : 17;
    const auto check = [&](std::vector<unsigned> missing) {
      const auto plan = plan_recovery(kParityMax, data, missing);
      ASSERT_TRUE(plan);
      const auto inverse = invert(weights(std::span(plan->rows).first(plan->count),
                                          std::span(plan->data).first(plan->count), data),
                                  plan->count);
      ASSERT_TRUE(inverse);
      for (unsigned i = 0; i < plan->count; ++i) {
        for (unsigned j = 0; j < plan->count; ++j) {
          ASSERT_EQ(plan->coefficients[i][j], (*inverse)[i][j]) << data << " columns";
        }
      }
    };
    for (unsigned a = 0; a < columns; ++a) {
      check({a});
      for (unsigned b = a + 1; b < columns; b += step) {
        check({a, b});
        for (unsigned c = b + 1; c < columns; c += step) {
          check({a, b, c});
        }
      }
    }
  }
}

TEST(RecoveryTest, PlansUseTheFirstParitiesThatAreThere) {
  const unsigned q_and_two[]{1, 7, 4};
  const auto plan = plan_recovery(3, 6, q_and_two);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->count, 2U);
  EXPECT_EQ(plan->row_set, kP | kR);
  EXPECT_EQ(plan->data[0], 1U);
  EXPECT_EQ(plan->data[1], 4U);
  EXPECT_TRUE(plan->lost_parity[1]);
  EXPECT_FALSE(plan->lost_parity[0]);
}

TEST(RecoveryTest, ImpossibleLossesAreRefused) {
  const unsigned three[]{1, 2, 3};
  EXPECT_FALSE(plan_recovery(2, 4, three));
  const unsigned twice[]{4, 4};
  EXPECT_FALSE(plan_recovery(2, 4, twice));
  const unsigned beyond[]{6};
  EXPECT_FALSE(plan_recovery(2, 4, beyond));
  EXPECT_FALSE(plan_recovery(0, 4, {}));
  EXPECT_FALSE(plan_recovery(4, 4, {}));
  EXPECT_FALSE(plan_recovery(3, 256, {}));
  EXPECT_TRUE(plan_recovery(3, 255, {}));
}

}  // namespace
}  // namespace zuse::raid
