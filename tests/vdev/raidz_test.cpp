// Raidz trees under loss and damage. The budget: within parity every byte returns and what was
// wrong is repaired and counted on the leaf that lied; beyond it, an honest error; wrong data
// never.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

#include "tests/support/seed.h"
#include "tests/vdev/rig.h"
#include "vdev/base/units.h"
#include "vdev/raidz_map.h"

namespace zuse::vdev::test {
namespace {

class RaidzTree : public testing::TestWithParam<Shape> {
 protected:
  // A block of any size at any place. Sizes need not be whole sectors.
  Block any_block(std::uint64_t txg = 10) {
    const std::uint64_t sector = pow2(GetParam().ashift);
    const std::uint64_t sectors = 1 + rng_() % (rng_() % 4 == 0 ? 64 : 12);
    const std::uint64_t size = sectors * sector - (rng_() % 4 == 0 ? rng_() % sector : 0);
    return Block(rng_() % 5000 * sector, size, rng_, txg);
  }
  RaidzMap map_of(const Block& block) const {
    RaidzMap map;
    map_block({GetParam().children, GetParam().parity, GetParam().ashift}, block.offset,
              round_up<std::uint64_t>(block.bytes.size(), pow2(GetParam().ashift)), map);
    return map;
  }
  // `count` different columns of a block.
  std::vector<std::size_t> draw_columns(const RaidzMap& map, std::size_t count) {
    std::vector<std::size_t> columns(map.columns.size());
    for (std::size_t i = 0; i < columns.size(); ++i) {
      columns[i] = i;
    }
    std::ranges::shuffle(columns, rng_);
    columns.resize(std::min(count, columns.size()));
    return columns;
  }
  void damage(Rig& rig, const RaidzColumn& column) {
    rig.corrupt(column.child, column.offset, column.size);
  }

  std::mt19937_64 rng_{zuse::test::seed()};
  const testing::ScopedTrace trace_{__FILE__, __LINE__, zuse::test::rerun()};
};

std::vector<Shape> shapes() {
  std::vector<Shape> all;
  for (unsigned parity = 1; parity <= 3; ++parity) {
    for (unsigned data : {1U, 2U, 3U, 5U}) {
      for (unsigned ashift : {9U, 12U}) {
        all.push_back({VdevType::raidz, parity + data, parity, ashift});
      }
    }
  }
  all.push_back({VdevType::raidz, 17, 3, 9});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Shapes, RaidzTree, testing::ValuesIn(shapes()), [](const auto& shape) {
  return "raidz" + std::to_string(shape.param.parity) + "_of_" +
         std::to_string(shape.param.children) + "_ashift_" + std::to_string(shape.param.ashift);
});

TEST_P(RaidzTree, ReadsBackWhatWasWritten) {
  Rig rig(GetParam());
  for (int round = 0; round < 20; ++round) {
    const Block block = any_block();
    ASSERT_TRUE(write(*rig, block));
    for (const ReadMode mode : {ReadMode::normal, ReadMode::scrub}) {
      const Outcome got = read(*rig, block, mode);
      ASSERT_TRUE(got.result) << got.result.error().what();
      ASSERT_TRUE(got.right);
      ASSERT_EQ(got.errors_seen, 0U);
      ASSERT_EQ(got.bytes_repaired, 0U);
    }
  }
}

TEST_P(RaidzTree, ReadsThroughEveryPatternOfLostLeavesWithinParity) {
  const unsigned n = GetParam().children;
  Rig rig(GetParam());
  // Two that do not overlap: the first lies below sector 5000 + 4 * 64.
  const std::uint64_t beyond = std::uint64_t{8192} << GetParam().ashift;
  const Block blocks[] = {any_block(), Block(beyond, std::size_t{16} << GetParam().ashift, rng_)};
  for (const Block& block : blocks) {
    ASSERT_TRUE(write(*rig, block));
  }
  for (std::uint32_t lost = 1; lost < pow2(n); ++lost) {
    const auto count = static_cast<unsigned>(std::popcount(lost));
    if (count > GetParam().parity || (n > 8 && rng_() % 8 != 0)) {
      continue;
    }
    // Half of the patterns fail as devices do, half are taken away by the operator.
    const bool broken = lost % 2 == 0;
    for (unsigned i = 0; i < n; ++i) {
      if ((lost >> i & 1) == 0) {
        continue;
      }
      if (broken) {
        rig.leaf(i).fails_reads = true;
      } else {
        ASSERT_TRUE(rig->set_leaf_state(leaf_guid(i), VdevState::faulted, VdevAux::external));
      }
    }
    for (const Block& block : blocks) {
      const Outcome got = read(*rig, block, ReadMode::normal, false);
      ASSERT_TRUE(got.result) << "lost " << lost << ": " << got.result.error().what();
      ASSERT_TRUE(got.right) << "lost " << lost;
    }
    for (unsigned i = 0; i < n; ++i) {
      rig.leaf(i).fails_reads = false;
    }
    ASSERT_TRUE(rig->clear(0));
  }
}

TEST_P(RaidzTree, FindsRepairsAndCountsSilentDamageOfAsManyColumnsAsParityCovers) {
  for (int round = 0; round < 12; ++round) {
    Rig rig(GetParam());
    const Block block = any_block();
    ASSERT_TRUE(write(*rig, block));
    const auto pristine = rig.images();
    const RaidzMap map = map_of(block);
    const auto damaged = draw_columns(map, 1 + rng_() % GetParam().parity);
    const bool data_hit =
        std::ranges::any_of(damaged, [&](std::size_t c) { return c >= map.parity; });
    for (const std::size_t c : damaged) {
      damage(rig, map.columns[c]);
    }
    const Outcome got = read(*rig, block, data_hit ? ReadMode::normal : ReadMode::scrub);
    ASSERT_TRUE(got.result) << got.result.error().what();
    ASSERT_TRUE(got.right);
    ASSERT_EQ(got.errors_seen, damaged.size());
    std::uint64_t repaired = 0;
    for (const std::size_t c : damaged) {
      repaired += map.columns[c].size;
    }
    ASSERT_EQ(got.bytes_repaired, repaired);
    ASSERT_TRUE(rig.images() == pristine);
    for (unsigned leaf = 0; leaf < GetParam().children; ++leaf) {
      const bool lied =
          std::ranges::any_of(damaged, [&](std::size_t c) { return map.columns[c].child == leaf; });
      const VdevStats stats = rig.leaf_status(leaf).stats;
      ASSERT_EQ(stats.checksum_errors, lied ? 1U : 0U) << "leaf " << leaf;
      ASSERT_EQ(stats.read_errors + stats.write_errors, 0U);
      ASSERT_EQ(stats.bytes_repaired != 0, lied);
    }
  }
}

TEST_P(RaidzTree, FindsSilentDamageBesideLostLeavesWithinParity) {
  if (GetParam().parity < 2) {
    return;  // one parity column covers either, not both
  }
  for (int round = 0; round < 12; ++round) {
    Rig rig(GetParam());
    const Block block = any_block();
    ASSERT_TRUE(write(*rig, block));
    const auto pristine = rig.images();
    const RaidzMap map = map_of(block);
    const auto hit = draw_columns(map, GetParam().parity);
    rig.leaf(map.columns[hit[0]].child).fails_reads = true;
    for (std::size_t i = 1; i < hit.size(); ++i) {
      damage(rig, map.columns[hit[i]]);
    }
    const Outcome got = read(*rig, block, ReadMode::scrub);
    ASSERT_TRUE(got.result) << got.result.error().what();
    ASSERT_TRUE(got.right);
    ASSERT_EQ(got.errors_seen, hit.size());
    ASSERT_TRUE(rig.images() == pristine);
  }
}

TEST_P(RaidzTree, AnswersOneColumnTooManyWithAnErrorAndChangesNothing) {
  for (int round = 0; round < 6; ++round) {
    Rig rig(GetParam());
    const Block block = any_block();
    ASSERT_TRUE(write(*rig, block));
    const RaidzMap map = map_of(block);
    const auto damaged = draw_columns(map, GetParam().parity + 1);
    for (const std::size_t c : damaged) {
      damage(rig, map.columns[c]);
    }
    const auto before = rig.images();
    const Outcome got = read(*rig, block, rng_() % 2 == 0 ? ReadMode::normal : ReadMode::scrub);
    ASSERT_FALSE(got.result);
    ASSERT_EQ(got.result.error().code(), Errc::checksum);
    ASSERT_TRUE(rig.images() == before);

    for (const std::size_t c : damaged) {
      rig.leaf(map.columns[c].child).fails_reads = true;
    }
    const Outcome lost = read(*rig, block);
    ASSERT_FALSE(lost.result);
    ASSERT_EQ(lost.result.error().code(), Errc::io);
    ASSERT_TRUE(rig.images() == before);
  }
}

TEST_P(RaidzTree, ScrubFindsDamagedParityThatReadsDoNotSee) {
  Rig rig(GetParam());
  const Block block = any_block();
  ASSERT_TRUE(write(*rig, block));
  const auto pristine = rig.images();
  const RaidzMap map = map_of(block);
  for (unsigned p = 0; p < map.parity; ++p) {
    damage(rig, map.columns[p]);
  }
  const Outcome seen = read(*rig, block);
  EXPECT_TRUE(seen.result && seen.right && seen.errors_seen == 0);
  EXPECT_FALSE(rig.images() == pristine);
  const Outcome looked = read(*rig, block, ReadMode::scrub, false);
  EXPECT_EQ(looked.errors_seen, map.parity);
  EXPECT_FALSE(rig.images() == pristine) << "repair was not wanted";
  const Outcome scrubbed = read(*rig, block, ReadMode::scrub);
  EXPECT_TRUE(scrubbed.result && scrubbed.right);
  EXPECT_EQ(scrubbed.errors_seen, map.parity);
  EXPECT_TRUE(rig.images() == pristine);
}

TEST_P(RaidzTree, WritesSucceedWhileParityCoversTheLeavesThatFail) {
  Rig rig(GetParam());
  const Block block = any_block(42);
  const RaidzMap map = map_of(block);
  const auto failing = draw_columns(map, GetParam().parity + 1);
  for (std::size_t i = 0; i < GetParam().parity; ++i) {
    rig.leaf(map.columns[failing[i]].child).fails_writes = true;
  }
  ASSERT_TRUE(write(*rig, block));
  for (std::size_t c = 0; c < map.columns.size(); ++c) {
    const bool failed = std::find(failing.begin(), failing.end() - 1, c) != failing.end() - 1;
    EXPECT_EQ(rig.dtl(map.columns[c].child).contains(42), failed);
    EXPECT_EQ(rig.leaf_status(map.columns[c].child).stats.write_errors, failed ? 1U : 0U);
  }
  Outcome got = read(*rig, block);
  EXPECT_TRUE(got.result && got.right);

  rig.leaf(map.columns[failing.back()].child).fails_writes = true;
  const auto too_many = write(*rig, block);
  ASSERT_FALSE(too_many);
  EXPECT_EQ(too_many.error().code(), Errc::io);
}

TEST_P(RaidzTree, WhatALeafMissedIsNotReadFromItUntilAScanHasPutItThere) {
  Rig rig(GetParam());
  const std::size_t away = rng_() % GetParam().children;
  const Block old = any_block(5);
  ASSERT_TRUE(write(*rig, old));
  ASSERT_TRUE(rig->set_leaf_state(leaf_guid(away), VdevState::offline, VdevAux::none));
  std::vector<Block> blocks;
  const std::uint64_t step = kMiB;  // more than the largest block takes
  for (std::uint64_t i = 0; i < 12; ++i) {
    blocks.push_back(any_block(20 + i));
    blocks.back().offset = (8 << 20) + i * step;
    ASSERT_TRUE(write(*rig, blocks.back()));
  }
  ASSERT_TRUE(rig->set_leaf_state(leaf_guid(away), VdevState::healthy, VdevAux::none));
  ASSERT_FALSE(rig.dtl(away).empty());
  EXPECT_FALSE(rig.dtl(away).contains(5));

  rig.leaf(away).reads = 0;
  for (const Block& block : blocks) {
    const Outcome got = read(*rig, block);
    ASSERT_TRUE(got.result && got.right);
    ASSERT_EQ(got.errors_seen, 0U);
  }
  EXPECT_EQ(rig.leaf(away).reads, 0U) << "its bytes are known to be old";

  rig->scan_started();
  for (const Block& block : blocks) {
    const Outcome got = read(*rig, block, ReadMode::scrub);
    ASSERT_TRUE(got.result && got.right);
    ASSERT_EQ(got.errors_seen, 0U) << "nobody lied";
  }
  rig->scan_finished(1000, true);
  EXPECT_TRUE(rig.dtl(away).empty());
  EXPECT_EQ(rig.leaf_status(away).stats.checksum_errors, 0U);

  // It holds its share now: others may go.
  for (unsigned i = 0, gone = 0; i < GetParam().children && gone < GetParam().parity; ++i) {
    if (i != away) {
      rig.leaf(i).fails_reads = true;
      ++gone;
    }
  }
  for (const Block& block : blocks) {
    const Outcome got = read(*rig, block, ReadMode::normal, false);
    ASSERT_TRUE(got.result && got.right);
    ASSERT_TRUE(rig->clear(0));
  }
}

// Random histories within the budget, against the blocks themselves as the model.
TEST_P(RaidzTree, NeverReturnsWrongDataAndHealsWithinParity) {
  Rig rig(GetParam());
  const std::uint64_t sector = pow2(GetParam().ashift);
  std::vector<Block> blocks;
  for (std::uint64_t i = 0; i < 16; ++i) {
    blocks.push_back(any_block(10 + i));
    blocks.back().offset = i * 512 * sector + rng_() % 8 * sector;
    ASSERT_TRUE(write(*rig, blocks.back()));
  }
  const auto pristine = rig.images();
  for (int round = 0; round < 20; ++round) {
    // One set of leaves, so that every block stays within the budget.
    std::vector<std::size_t> leaves(GetParam().children);
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      leaves[i] = i;
    }
    std::ranges::shuffle(leaves, rng_);
    leaves.resize(rng_() % (GetParam().parity + 1));
    for (const std::size_t leaf : leaves) {
      switch (rng_() % 3) {
        case 0: rig.corrupt(leaf, rng_() % 64 * sector, 200 * sector); break;
        case 1: rig.leaf(leaf).fails_reads = true; break;
        default: rig.corrupt(leaf, 0, (16 * 512 + 200) * sector); break;
      }
    }
    // All blocks in one call, as the pipeline asks.
    std::vector<std::vector<std::byte>> bytes;
    std::vector<BlockRead> reads;
    for (const Block& block : blocks) {
      bytes.emplace_back(block.bytes.size());
      BlockRead request;
      request.offset = block.offset;
      request.data = bytes.back();
      request.verify = block.verifier();
      request.birth_txg = block.txg;
      request.mode = rng_() % 2 == 0 ? ReadMode::normal : ReadMode::scrub;
      reads.push_back(std::move(request));
    }
    rig->read(reads);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      ASSERT_TRUE(reads[i].result) << reads[i].result.error().what();
      ASSERT_EQ(bytes[i], blocks[i].bytes);
    }
    for (const std::size_t leaf : leaves) {
      rig.leaf(leaf).fails_reads = false;
    }
    ASSERT_TRUE(rig->clear(0));
    for (const Block& block : blocks) {
      const Outcome got = read(*rig, block, ReadMode::scrub);
      ASSERT_TRUE(got.result && got.right);
      ASSERT_EQ(read(*rig, block, ReadMode::scrub).errors_seen, 0U);
    }
    ASSERT_TRUE(rig->clear(0));
  }
}

}  // namespace
}  // namespace zuse::vdev::test
