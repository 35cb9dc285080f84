// Tables and the spelling of numbers.
#include "fs/cli/table.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <sstream>

#include "tests/support/seed.h"

namespace zuse::cli {
namespace {

TEST(SizeText, HasThreeDigitsAndASuffix) {
  EXPECT_EQ(size_text(0), "0B");
  EXPECT_EQ(size_text(512), "512B");
  EXPECT_EQ(size_text(1023), "1023B");
  EXPECT_EQ(size_text(1024), "1K");
  EXPECT_EQ(size_text(1536), "1.50K");
  EXPECT_EQ(size_text(131072), "128K");
  EXPECT_EQ(size_text(std::uint64_t{3} << 29), "1.50G");
  EXPECT_EQ(size_text((std::uint64_t{15} << 30) + 1), "15.0G");
  EXPECT_EQ(size_text((std::uint64_t{150} << 30) + 1), "150G");
  EXPECT_EQ(size_text(~std::uint64_t{0}), "16.0E");
}

TEST(SizeText, RoundingNeverAddsAFourthDigit) {
  EXPECT_EQ(size_text(1024 * 1024 - 1), "1.00M");
  EXPECT_EQ(size_text(10 * 1024 - 1), "10.0K");
  EXPECT_EQ(size_text(100 * 1024 - 1), "100K");
}

TEST(SizeText, IsNeverLongerThanFiveAndCloseToTheNumber) {
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE("rerun: ZUSE_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  const std::string suffixes = "BKMGTPE";
  for (int i = 0; i < 20000; ++i) {
    const std::uint64_t bytes = random() >> (random() % 64);
    const std::string text = size_text(bytes);
    ASSERT_LE(text.size(), 5U) << bytes;
    double shown = std::strtod(text.c_str(), nullptr);
    for (std::size_t k = suffixes.find(text.back()); k > 0; --k) {
      shown *= 1024;
    }
    ASSERT_NEAR(shown, static_cast<double>(bytes), static_cast<double>(bytes) * 0.0051) << text;
  }
}

TEST(SizeText, ExactIsAllDigits) {
  EXPECT_EQ(size_text(123456789, true), "123456789");
}

TEST(CountText, SmallCountsAreExact) {
  EXPECT_EQ(count_text(0), "0");
  EXPECT_EQ(count_text(999), "999");
  EXPECT_EQ(count_text(2048), "2K");
  EXPECT_EQ(count_text(2048, true), "2048");
}

TEST(DurationText, DaysStandBeforeTheClock) {
  EXPECT_EQ(duration_text(0), "00:00:00");
  EXPECT_EQ(duration_text(3723), "01:02:03");
  EXPECT_EQ(duration_text(2 * 86400 + 5), "2 days 00:00:05");
}

TEST(Table, ColumnsAreAlignedAndLinesHaveNoBlankEnd) {
  Table table({{"NAME"}, {"SIZE", Align::right}, {"ROOT"}});
  table.add({"tank", "1.50G", "-"});
  table.add({"a-longer-name", "1K", "/mnt"});
  std::ostringstream out;
  table.print(out, false);
  EXPECT_EQ(out.str(),
            "NAME            SIZE  ROOT\n"
            "tank           1.50G  -\n"
            "a-longer-name     1K  /mnt\n");
}

TEST(Table, ScriptsGetTabsAndNoHead) {
  Table table({{"NAME"}, {"SIZE", Align::right}});
  table.add({"tank", "1K"});
  std::ostringstream out;
  table.print(out, true);
  EXPECT_EQ(out.str(), "tank\t1K\n");
}

}  // namespace
}  // namespace zuse::cli
