#include "fs/pool/range_set.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/seed.h"

namespace zuse::pool {
namespace {

constexpr std::uint64_t kSpace = 600;

// The ranges that a bitmap holds.
std::vector<Range> runs(const std::vector<bool>& bits, std::uint64_t from, std::uint64_t end,
                        bool value) {
  std::vector<Range> result;
  for (std::uint64_t i = from; i < end; ++i) {
    if (bits[i] != value) {
      continue;
    }
    if (!result.empty() && result.back().end() == i) {
      ++result.back().size;
    } else {
      result.push_back({i, 1});
    }
  }
  return result;
}

TEST(RangeSet, IsABitmap) {
  SCOPED_TRACE(test::rerun());
  std::mt19937_64 rng(test::seed());
  FreeSpace set;
  std::vector<bool> model(kSpace);
  for (int step = 0; step < 4000; ++step) {
    const std::uint64_t offset = rng() % kSpace;
    const Range range{offset, rng() % std::min<std::uint64_t>(kSpace - offset, 40) + 1};
    std::uint64_t present = 0;
    for (std::uint64_t i = range.offset; i < range.end(); ++i) {
      present += model[i] ? 1U : 0U;
    }
    ASSERT_EQ(set.contains(range), present == range.size);
    ASSERT_EQ(set.overlaps(range), present != 0);
    const bool value = rng() % 2 == 0;
    if (value) {
      if (present == 0 && rng() % 2 == 0) {
        set.add(range);
      } else {
        ASSERT_EQ(set.add_missing(range), range.size - present);
      }
    } else if (present == range.size && rng() % 2 == 0) {
      set.remove(range);
    } else {
      ASSERT_EQ(set.remove_overlap(range), present);
    }
    for (std::uint64_t i = range.offset; i < range.end(); ++i) {
      model[i] = value;
    }
    const std::vector<Range> expected = runs(model, 0, kSpace, true);
    ASSERT_EQ(set.to_vector(), expected);
    std::uint64_t total = 0, largest = 0;
    for (const Range& run : expected) {
      total += run.size;
      largest = std::max(largest, run.size);
    }
    ASSERT_EQ(set.total(), total);
    ASSERT_EQ(set.largest(), largest);

    const std::uint64_t from = rng() % kSpace, end = from + rng() % (kSpace - from) + 1;
    std::vector<Range> gaps;
    set.for_each_gap({from, end - from}, [&](const Range& gap) { gaps.push_back(gap); });
    ASSERT_EQ(gaps, runs(model, from, end, false));

    const std::uint64_t want = rng() % 30 + 1;
    std::uint64_t best = 0, best_at = 0, first_at = kSpace;
    for (const Range& run : expected) {
      if (run.size >= want && (best == 0 || run.size < best)) {
        best = run.size;
        best_at = run.offset;
      }
      if (run.size >= want && run.offset >= from && first_at == kSpace) {
        first_at = run.offset;
      }
    }
    const auto fit = set.best_fit(want);
    ASSERT_EQ(fit == set.ranges().end(), best == 0);
    if (best != 0) {
      ASSERT_EQ(fit->first, best_at);
    }
    const auto first = set.first_fit(from, want, 1000);
    ASSERT_EQ(first == set.ranges().end() ? kSpace : first->first, first_at);
  }
}

}  // namespace
}  // namespace zuse::pool
