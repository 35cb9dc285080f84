// Mirrors, and leaves that replace each other below raidz.
#include <gtest/gtest.h>

#include "tests/support/seed.h"
#include "tests/vdev/rig.h"

namespace zuse::vdev::test {
namespace {

class MirrorTree : public testing::Test {
 protected:
  static constexpr unsigned kWidth = 3;
  Rig rig_{Shape{VdevType::mirror, kWidth, 0, 12}};
  std::mt19937_64 rng_{zuse::test::seed()};
  const testing::ScopedTrace trace_{__FILE__, __LINE__, zuse::test::rerun()};
};

TEST_F(MirrorTree, PutsTheSameBytesOnEveryLeaf) {
  const Block block(0x3000, 10000, rng_);
  ASSERT_TRUE(write(*rig_, block));
  const auto images = rig_.images();
  EXPECT_TRUE(images[0] == images[1] && images[1] == images[2]);
  EXPECT_FALSE(images[0] == MemoryImage(kLeafSize));
  std::vector<std::byte> stored(12288);
  images[0].read(0x400000 + 0x3000, stored);
  EXPECT_TRUE(std::equal(block.bytes.begin(), block.bytes.end(), stored.begin()));
  EXPECT_TRUE(std::all_of(stored.begin() + 10000, stored.end(), [](std::byte byte) {
    return byte == std::byte{0};
  })) << "the rest of the sector is zero";
}

TEST_F(MirrorTree, SpreadsReadsOverItsLeaves) {
  const Block block(0, 4096, rng_);
  ASSERT_TRUE(write(*rig_, block));
  for (int i = 0; i < 600; ++i) {
    ASSERT_TRUE(read(*rig_, block).right);
  }
  for (unsigned i = 0; i < kWidth; ++i) {
    EXPECT_GT(rig_.leaf(i).reads, 120U) << "leaf " << i;
  }
  EXPECT_EQ(rig_.leaf(0).reads + rig_.leaf(1).reads + rig_.leaf(2).reads, 600U);
}

TEST_F(MirrorTree, ReadsOfOneCallGoToTheLeafWithTheLeastToDo) {
  const Block block(0, 4096, rng_);
  ASSERT_TRUE(write(*rig_, block));
  std::vector<std::vector<std::byte>> bytes(30, std::vector<std::byte>(4096));
  std::vector<BlockRead> reads(30);
  for (std::size_t i = 0; i < reads.size(); ++i) {
    reads[i].data = bytes[i];
  }
  rig_->read(reads);
  for (unsigned i = 0; i < kWidth; ++i) {
    EXPECT_EQ(rig_.leaf(i).reads, 10U) << "leaf " << i;
  }
}

TEST_F(MirrorTree, HealsALyingLeafFromAnHonestOne) {
  const Block block(0, 8192, rng_);
  ASSERT_TRUE(write(*rig_, block));
  const auto pristine = rig_.images();
  rig_.corrupt(0, 0, 8192);
  rig_.corrupt(2, 4096, 4096);
  const Outcome got = read(*rig_, block, ReadMode::scrub);
  EXPECT_TRUE(got.result && got.right);
  EXPECT_EQ(got.errors_seen, 2U);
  EXPECT_EQ(got.bytes_repaired, 2 * 8192U);
  EXPECT_TRUE(rig_.images() == pristine);
  EXPECT_EQ(rig_.leaf_status(0).stats.checksum_errors, 1U);
  EXPECT_EQ(rig_.leaf_status(1).stats.checksum_errors, 0U);
  EXPECT_EQ(rig_.leaf_status(2).stats.checksum_errors, 1U);
}

TEST_F(MirrorTree, NormalReadsHealWhatTheyMeet) {
  const Block block(0, 8192, rng_);
  ASSERT_TRUE(write(*rig_, block));
  const auto pristine = rig_.images();
  rig_.corrupt(0, 0, 8192);
  rig_.leaf(1).fails_reads = true;
  for (int i = 0; i < 100 && rig_.images() != pristine; ++i) {
    const Outcome got = read(*rig_, block);
    ASSERT_TRUE(got.result && got.right);
  }
  EXPECT_TRUE(rig_.images() == pristine);
  EXPECT_EQ(rig_.leaf_status(0).stats.checksum_errors, 1U);
  EXPECT_EQ(rig_.leaf_status(0).stats.bytes_repaired, 8192U);
}

TEST_F(MirrorTree, SaysSoWhenNoCopyIsRight) {
  const Block block(0, 8192, rng_);
  ASSERT_TRUE(write(*rig_, block));
  for (unsigned i = 0; i < kWidth; ++i) {
    rig_.corrupt(i, 512 * i, 512);
  }
  const auto before = rig_.images();
  for (const ReadMode mode : {ReadMode::normal, ReadMode::scrub}) {
    const Outcome got = read(*rig_, block, mode);
    ASSERT_FALSE(got.result);
    EXPECT_EQ(got.result.error().code(), Errc::checksum);
    EXPECT_EQ(got.errors_seen, kWidth);
  }
  EXPECT_TRUE(rig_.images() == before);
  for (unsigned i = 0; i < kWidth; ++i) {
    rig_.leaf(i).fails_reads = true;
  }
  EXPECT_EQ(read(*rig_, block).result.error().code(), Errc::io);
}

TEST_F(MirrorTree, ScrubWithoutAVerifierBelievesTheFirstLeafThatMissedNothing) {
  const Block block(0, 4096, rng_, 30);
  ASSERT_TRUE(rig_->set_leaf_state(leaf_guid(0), VdevState::offline, VdevAux::none));
  ASSERT_TRUE(write(*rig_, block));
  ASSERT_TRUE(rig_->set_leaf_state(leaf_guid(0), VdevState::healthy, VdevAux::none));
  std::vector<std::byte> bytes(4096);
  BlockRead request;
  request.data = bytes;
  request.birth_txg = 30;
  request.mode = ReadMode::scrub;
  rig_->read({&request, 1});
  ASSERT_TRUE(request.result);
  EXPECT_EQ(bytes, block.bytes);
  EXPECT_EQ(request.errors_seen, 0U);
  const auto images = rig_.images();
  EXPECT_TRUE(images[0] == images[1]);
}

TEST_F(MirrorTree, WritesSucceedWhileOneLeafTakesThem) {
  const Block block(0, 4096, rng_, 33);
  rig_.leaf(0).fails_writes = true;
  rig_.leaf(1).is_gone = true;
  ASSERT_TRUE(write(*rig_, block));
  EXPECT_TRUE(rig_.dtl(0).contains(33));
  EXPECT_TRUE(rig_.dtl(1).contains(33));
  EXPECT_TRUE(rig_.dtl(2).empty());
  EXPECT_EQ(rig_.leaf_status(1).state, VdevState::cant_open);
  rig_.leaf(2).fails_writes = true;
  EXPECT_FALSE(write(*rig_, block));
}

TEST_F(MirrorTree, AsksALeafThatMissedTheBlockOnlyWhenNobodyElseHasIt) {
  const Block block(0, 4096, rng_, 33);
  ASSERT_TRUE(write(*rig_, block));
  Dtl missed;
  missed.add(30, 40);
  rig_->load_dtl(leaf_guid(1), missed);
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(read(*rig_, block).right);
  }
  EXPECT_EQ(rig_.leaf(1).reads, 0U);
  rig_.leaf(0).fails_reads = rig_.leaf(2).fails_reads = true;
  const Outcome got = read(*rig_, block);
  EXPECT_TRUE(got.result && got.right) << "its bytes verify: the log is only a hint";
}

// One leaf replaces another below raidz: children 0, (1 -> 4), 2, 3.
class ReplacingTree : public testing::Test {
 protected:
  static VdevConfig config() {
    VdevConfig top = top_config({VdevType::raidz, 4, 1, 9});
    VdevConfig replacing;
    replacing.type = VdevType::replacing;
    replacing.guid = 2000;
    replacing.id = 1;
    replacing.children = {top.children[1], leaf_config(4)};
    top.children[1] = replacing;
    return root_config({top});
  }
  Rig rig_{config()};
  std::mt19937_64 rng_{zuse::test::seed()};
  const testing::ScopedTrace trace_{__FILE__, __LINE__, zuse::test::rerun()};
};

TEST_F(ReplacingTree, ScrubFillsTheNewLeaf) {
  rig_.leaf(4).fails_writes = true;  // what it would hold, had it been there all the time
  const Block block(0x600, 20000, rng_, 15);
  ASSERT_TRUE(write(*rig_, block));
  EXPECT_TRUE(rig_.dtl(4).contains(15));
  EXPECT_FALSE(rig_.dtl(1).contains(15));
  rig_.leaf(4).fails_writes = false;
  rig_->scan_started();
  const Outcome got = read(*rig_, block, ReadMode::scrub);
  EXPECT_TRUE(got.result && got.right);
  EXPECT_EQ(got.errors_seen, 0U);
  EXPECT_GT(got.bytes_repaired, 0U);
  rig_->scan_finished(100, true);
  EXPECT_TRUE(rig_.dtl(4).empty());
  const auto images = rig_.images();
  EXPECT_TRUE(images[1] == images[4]);
  rig_.corrupt(4, 1024, 512);
  EXPECT_EQ(read(*rig_, block, ReadMode::scrub).errors_seen, 1U) << "both are checked";
  EXPECT_TRUE(rig_.images() == images);
}

TEST_F(ReplacingTree, CountsAsOneFailureHoweverManyOfItsLeavesFail) {
  const Block block(0, 20000, rng_, 15);
  rig_.leaf(1).fails_writes = rig_.leaf(4).fails_writes = true;
  ASSERT_TRUE(write(*rig_, block)) << "parity covers one child";
  rig_.leaf(2).fails_writes = true;
  EXPECT_FALSE(write(*rig_, block)) << "and no more";
  rig_.leaf(4).fails_writes = false;
  EXPECT_TRUE(write(*rig_, block)) << "one leaf of the pair is enough";
}

}  // namespace
}  // namespace zuse::vdev::test
