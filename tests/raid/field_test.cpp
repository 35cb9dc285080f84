// The field and the equations of recovery.
#include <gtest/gtest.h>

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

// Whether some columns can be rebuilt depends only on their distances from the last one, so widths
// up to 252 hold all smaller cases. All triples of 252 columns are too many for a unit test in one
// go: triples are taken relative to the last column of the three (a common factor of a row or
// column does not change whether a matrix can be inverted).
TEST(RecoveryTest, EverySquareMinorOfTheWeightsIsInvertible) {
  constexpr unsigned kData = kColumnsMax - kParityMax;
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
  EXPECT_FALSE(plan_recovery(3, 253, {}));
  EXPECT_TRUE(plan_recovery(3, 252, {}));
}

}  // namespace
}  // namespace zuse::raid
