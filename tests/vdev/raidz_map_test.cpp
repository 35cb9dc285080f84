// The geometry of raidz against the worked examples and tables of format page 03.
#include "vdev/raidz_map.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "tests/support/seed.h"
#include "vdev/base/units.h"
#include "vdev/label_area.h"
#include "vdev/tree.h"

namespace zuse::vdev {
namespace {

struct Example {
  char name;
  std::uint64_t offset, size;
  unsigned ashift, children, parity;
  std::uint64_t asize;
  std::vector<RaidzColumn> columns;
};

// source: format page 03 section 4.2.
const std::vector<Example> kExamples = {
    {'A', 0x0, 0x200, 9, 3, 1, 0x400, {{0, 0, 0x200}, {1, 0, 0x200}}},
    {'B',
     0x4000,
     0x20000,
     9,
     5,
     1,
     0x28000,
     {{2, 0xc00, 0x8000},
      {3, 0xc00, 0x8000},
      {4, 0xc00, 0x8000},
      {0, 0xe00, 0x8000},
      {1, 0xe00, 0x8000}}},
    {'C',
     0x100000,
     0x2000,
     9,
     4,
     1,
     0x2c00,
     {{1, 0x40000, 0xc00}, {0, 0x40000, 0xc00}, {2, 0x40000, 0xa00}, {3, 0x40000, 0xa00}}},
    {'D',
     0x3000,
     0x5000,
     12,
     5,
     2,
     0x9000,
     {{3, 0, 0x2000},
      {4, 0, 0x2000},
      {0, 0x1000, 0x2000},
      {1, 0x1000, 0x2000},
      {2, 0x1000, 0x1000}}},
    {'E',
     0x1a000,
     0x20000,
     12,
     6,
     2,
     0x30000,
     {{2, 0x4000, 0x8000},
      {3, 0x4000, 0x8000},
      {4, 0x4000, 0x8000},
      {5, 0x4000, 0x8000},
      {0, 0x5000, 0x8000},
      {1, 0x5000, 0x8000}}},
    {'F',
     0x7000,
     0x1000,
     12,
     6,
     3,
     0x4000,
     {{1, 0x1000, 0x1000}, {2, 0x1000, 0x1000}, {3, 0x1000, 0x1000}, {4, 0x1000, 0x1000}}},
    {'G',
     0x25e00,
     0x1600,
     9,
     7,
     3,
     0x2800,
     {{2, 0x5600, 0x600},
      {3, 0x5600, 0x600},
      {4, 0x5600, 0x600},
      {5, 0x5600, 0x600},
      {6, 0x5600, 0x600},
      {0, 0x5800, 0x600},
      {1, 0x5800, 0x400}}},
    {'H',
     0x100200,
     0x800,
     9,
     5,
     1,
     0xc00,
     {{0, 0x33400, 0x200},
      {4, 0x33200, 0x200},
      {1, 0x33400, 0x200},
      {2, 0x33400, 0x200},
      {3, 0x33400, 0x200}}},
    {'I',
     0x5000,
     0x3000,
     12,
     4,
     1,
     0x4000,
     {{1, 0x1000, 0x1000}, {2, 0x1000, 0x1000}, {3, 0x1000, 0x1000}, {0, 0x2000, 0x1000}}},
    {'J',
     0x11c000,
     0xb000,
     12,
     4,
     1,
     0x10000,
     {{1, 0x47000, 0x4000}, {0, 0x47000, 0x4000}, {2, 0x47000, 0x4000}, {3, 0x47000, 0x3000}}},
};

TEST(RaidzMap, AgreesWithTheWorkedExamples) {
  for (const Example& example : kExamples) {
    SCOPED_TRACE(example.name);
    RaidzMap map;
    map_block({example.children, example.parity, example.ashift}, example.offset, example.size,
              map);
    EXPECT_EQ(map.parity, example.parity);
    ASSERT_EQ(map.columns.size(), example.columns.size());
    for (std::size_t c = 0; c < map.columns.size(); ++c) {
      EXPECT_EQ(map.columns[c].child, example.columns[c].child) << "column " << c;
      EXPECT_EQ(map.columns[c].offset, example.columns[c].offset) << "column " << c;
      EXPECT_EQ(map.columns[c].size, example.columns[c].size) << "column " << c;
    }
    const TopGeometry geometry{example.ashift, example.children, example.parity, 0};
    EXPECT_EQ(geometry.psize_to_asize(example.size), example.asize);
  }
}

// source: format page 03 section 2.
TEST(TopGeometry, AgreesWithTheTableOfAllocatedSizes) {
  struct Row {
    unsigned children, parity, ashift;
    std::array<std::uint64_t, 6> asize;
    std::uint64_t deflate;
  };
  constexpr std::array<std::uint64_t, 6> kSizes = {512, 4096, 8192, 16384, 131072, 1048576};
  constexpr Row kRows[] = {
      {3, 1, 9, {0x400, 0x1800, 0x3000, 0x6000, 0x30000, 0x180000}, 341},
      {3, 1, 12, {0x2000, 0x2000, 0x4000, 0x6000, 0x30000, 0x180000}, 341},
      {4, 1, 9, {0x400, 0x1800, 0x2c00, 0x5800, 0x2ac00, 0x155800}, 383},
      {4, 1, 12, {0x2000, 0x2000, 0x4000, 0x6000, 0x2c000, 0x156000}, 372},
      {5, 1, 9, {0x400, 0x1400, 0x2800, 0x5000, 0x28000, 0x140000}, 409},
      {5, 1, 12, {0x2000, 0x2000, 0x4000, 0x6000, 0x28000, 0x140000}, 409},
      {4, 2, 9, {0x600, 0x2400, 0x4200, 0x8400, 0x40200, 0x200400}, 255},
      {4, 2, 12, {0x3000, 0x3000, 0x6000, 0x9000, 0x42000, 0x201000}, 248},
      {6, 2, 9, {0x600, 0x1800, 0x3000, 0x6000, 0x30000, 0x180000}, 341},
      {6, 2, 12, {0x3000, 0x3000, 0x6000, 0x6000, 0x30000, 0x180000}, 341},
      {8, 3, 9, {0x800, 0x2000, 0x3800, 0x7000, 0x33800, 0x19a000}, 318},
      {8, 3, 12, {0x4000, 0x4000, 0x8000, 0x8000, 0x38000, 0x19c000}, 292},
      {5, 3, 9, {0x800, 0x2800, 0x5000, 0xa000, 0x50000, 0x280000}, 204},
      {5, 3, 12, {0x4000, 0x4000, 0x8000, 0xc000, 0x50000, 0x280000}, 204},
  };
  for (const Row& row : kRows) {
    const TopGeometry geometry{row.ashift, row.children, row.parity, 0};
    for (std::size_t i = 0; i < kSizes.size(); ++i) {
      EXPECT_EQ(geometry.psize_to_asize(kSizes[i]), row.asize[i])
          << row.children << " children, parity " << row.parity << ", ashift " << row.ashift
          << ", psize " << kSizes[i];
    }
    EXPECT_EQ(geometry.deflate_ratio(), row.deflate);
  }
}

TEST(TopGeometry, OfMirrorsRoundsUpToASector) {
  const TopGeometry mirror{12, 3, 0, 0};
  EXPECT_EQ(mirror.psize_to_asize(1), 4096U);
  EXPECT_EQ(mirror.psize_to_asize(4097), 8192U);
  EXPECT_EQ(mirror.deflate_ratio(), 512U);
}

// The rule by linear sectors: row i of column c is sector first + i * n + c, and that sector lies
// on child (sector mod n), row (sector div n).
TEST(RaidzMap, PutsEachSectorWhereTheLinearRuleSays) {
  std::mt19937_64 rng(zuse::test::seed());
  SCOPED_TRACE(zuse::test::rerun());
  for (int round = 0; round < 20000; ++round) {
    RaidzShape shape;
    shape.parity = 1 + static_cast<unsigned>(rng() % 3);
    shape.children = shape.parity + 1 + static_cast<unsigned>(rng() % 12);
    shape.ashift = rng() % 2 == 0 ? 9 : 12;
    const std::uint64_t first = rng() % 100000;
    const std::uint64_t sectors = 1 + rng() % (rng() % 8 == 0 ? 300 : 40);
    RaidzMap map;
    map_block(shape, first << shape.ashift, sectors << shape.ashift, map);
    const std::uint64_t asize =
        TopGeometry{shape.ashift, shape.children, shape.parity, 0}.psize_to_asize(
            sectors << shape.ashift) >>
        shape.ashift;
    std::set<std::uint64_t> taken;
    std::uint64_t data = 0;
    for (std::size_t c = 0; c < map.columns.size(); ++c) {
      const RaidzColumn& column = map.columns[c];
      ASSERT_GT(column.size, 0U);
      data += c < map.parity ? 0 : column.size;
      for (std::uint64_t i = 0; i < column.size >> shape.ashift; ++i) {
        const std::uint64_t linear =
            ((column.offset >> shape.ashift) + i) * shape.children + column.child;
        ASSERT_TRUE(taken.insert(linear).second) << "two columns share a sector";
        ASSERT_GE(linear, first);
        ASSERT_LT(linear, first + asize) << "outside of the allocation";
        const bool swapped =
            shape.parity == 1 && ((first << shape.ashift) & 0x100000) != 0 && c < 2;
        ASSERT_EQ(linear, first + i * shape.children + (swapped ? 1 - c : c));
      }
    }
    ASSERT_EQ(data, sectors << shape.ashift);
    ASSERT_LE(asize - taken.size(), shape.parity) << "padding";
  }
}

// source: format page 01 section 1.
TEST(LabelArea, LiesAtBothEndsOfWholeUnits) {
  const std::uint64_t size = 100 * kMiB + 300 * kKiB;
  EXPECT_EQ(label_offset(0, size), 0U);
  EXPECT_EQ(label_offset(1, size), 0x40000U);
  EXPECT_EQ(label_offset(2, size), 100 * kMiB + 256 * kKiB - 0x80000);
  EXPECT_EQ(label_offset(3, size), 100 * kMiB + 256 * kKiB - 0x40000);
  EXPECT_EQ(allocatable_size(size), 100 * kMiB + 256 * kKiB - 0x480000);
  EXPECT_EQ(allocatable_size(kDeviceSizeMin - 1), 0U);
  EXPECT_EQ(allocatable_size(kDeviceSizeMin), kDeviceSizeMin - 0x480000);
}

}  // namespace
}  // namespace zuse::vdev
