#include "vdev/dtl.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/support/seed.h"

namespace zuse::vdev {
namespace {

TEST(Dtl, BehavesLikeASetOfGroupsInItsShortestForm) {
  std::mt19937_64 rng(test::seed());
  SCOPED_TRACE(test::rerun());
  Dtl dtl;
  std::set<std::uint64_t> model;
  for (int step = 0; step < 2000; ++step) {
    const std::uint64_t first = rng() % 200;
    const std::uint64_t end = first + rng() % 20;
    if (rng() % 2 == 0) {
      dtl.add(first, end);
      for (auto txg = first; txg < end; ++txg) {
        model.insert(txg);
      }
    } else {
      dtl.remove(first, end);
      model.erase(model.lower_bound(first), model.lower_bound(end));
    }
    std::uint64_t previous_end = 0;
    for (const auto& [from, to] : dtl.ranges()) {
      ASSERT_LT(from, to);
      ASSERT_TRUE(from > previous_end || previous_end == 0) << "touching ranges are one";
      previous_end = to;
    }
    for (std::uint64_t txg = 0; txg < 230; ++txg) {
      ASSERT_EQ(dtl.contains(txg), model.contains(txg)) << "txg " << txg;
    }
    ASSERT_EQ(dtl.empty(), model.empty());
    ASSERT_EQ(dtl.lowest(), model.empty() ? 0 : *model.begin());
    ASSERT_EQ(dtl.end(), model.empty() ? 0 : *model.rbegin() + 1);
  }
}

TEST(Dtl, EmptyRangesChangeNothing) {
  Dtl dtl;
  dtl.add(5, 5);
  dtl.add(6, 5);
  EXPECT_TRUE(dtl.empty());
  dtl.add(1, 10);
  dtl.remove(5, 5);
  EXPECT_EQ(dtl.ranges().size(), 1U);
}

TEST(Dtl, HoldsTheWholeHistory) {
  Dtl dtl;
  dtl.add(0, ~std::uint64_t{0});
  EXPECT_TRUE(dtl.contains(0));
  EXPECT_TRUE(dtl.contains(~std::uint64_t{0} - 1));
  dtl.remove(4, ~std::uint64_t{0});
  EXPECT_EQ(dtl.end(), 4U);
}

}  // namespace
}  // namespace zuse::vdev
