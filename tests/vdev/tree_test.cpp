// What the tree keeps beside data: states, counters, logs, flushes; and what it refuses.
#include "vdev/tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/support/seed.h"
#include "tests/vdev/rig.h"
#include "vdev/health.h"

namespace zuse::vdev::test {
namespace {

constexpr Shape kRaidz2{VdevType::raidz, 5, 2, 12};
constexpr Shape kMirror{VdevType::mirror, 2, 0, 12};

class Tree : public testing::Test {
 protected:
  std::mt19937_64 rng_{zuse::test::seed()};
  const testing::ScopedTrace trace_{__FILE__, __LINE__, zuse::test::rerun()};
};

TEST_F(Tree, NamesVdevsAsZpoolStatusDoes) {
  Rig rig(root_config({top_config(kRaidz2, 0, 0), top_config(kMirror, 1, 5),
                       top_config({VdevType::file, 1, 0, 9}, 2, 7)}));
  const VdevStatus status = rig->status();
  ASSERT_EQ(status.children.size(), 3U);
  EXPECT_EQ(status.children[0].name, "raidz2-0");
  EXPECT_EQ(status.children[1].name, "mirror-1");
  EXPECT_EQ(status.children[2].name, "leaf7");
  EXPECT_EQ(status.children[0].children[4].name, "leaf4");
  EXPECT_EQ(status.state, VdevState::healthy);
  EXPECT_EQ(rig->top_count(), 3U);
  EXPECT_EQ(rig->leaves().size(), 8U);
  for (std::uint32_t top = 0; top < 3; ++top) {
    Block block(0x1000, 9000, rng_);
    block.top = top;
    EXPECT_TRUE(write(*rig, block));
    EXPECT_TRUE(read(*rig, block).right);
  }
}

// source: format page 03 section 9.
TEST_F(Tree, DerivesStatesFromChildren) {
  using enum VdevState;
  const auto derived = [](VdevType type, unsigned parity, std::vector<VdevState> children) {
    return derive_state(type, parity, children).first;
  };
  EXPECT_EQ(derived(VdevType::mirror, 0, {healthy, healthy}), healthy);
  EXPECT_EQ(derived(VdevType::mirror, 0, {healthy, faulted}), degraded);
  EXPECT_EQ(derived(VdevType::mirror, 0, {offline, faulted}), cant_open);
  EXPECT_EQ(derived(VdevType::raidz, 2, {healthy, faulted, cant_open, healthy}), degraded);
  EXPECT_EQ(derived(VdevType::raidz, 2, {healthy, faulted, cant_open, removed}), cant_open);
  EXPECT_EQ(derived(VdevType::raidz, 1, {healthy, degraded, healthy}), degraded);
  EXPECT_EQ(derived(VdevType::root, 0, {healthy, degraded}), degraded);
  EXPECT_EQ(derived(VdevType::root, 0, {healthy, cant_open}), cant_open);
}

TEST_F(Tree, FaultsALeafAfterTooManyErrorsButNeverTheLastOne) {
  Rig rig(kMirror);
  const Block block(0, 4096, rng_);
  ASSERT_TRUE(write(*rig, block));
  rig.leaf(0).fails_reads = rig.leaf(0).fails_writes = true;
  const std::uint64_t generation = rig->config_generation();
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(rig.leaf_status(0).state, VdevState::healthy);
    ASSERT_TRUE(read(*rig, block, ReadMode::scrub, false).right);
  }
  ASSERT_TRUE(read(*rig, block, ReadMode::scrub, false).right);
  EXPECT_EQ(rig.leaf_status(0).state, VdevState::faulted);
  EXPECT_EQ(rig.leaf_status(0).aux, VdevAux::err_exceeded);
  EXPECT_EQ(rig->status().children[0].state, VdevState::degraded);
  EXPECT_GT(rig->config_generation(), generation);
  EXPECT_TRUE(rig->config().children[0].children[0].faulted);

  rig.leaf(1).fails_reads = true;
  for (int i = 0; i < 20; ++i) {
    EXPECT_FALSE(read(*rig, block).result);
  }
  EXPECT_EQ(rig.leaf_status(1).state, VdevState::healthy) << "nothing would be left";
  EXPECT_GT(rig.leaf_status(1).stats.read_errors, 10U);

  // It must answer to be trusted again.
  ASSERT_TRUE(rig->clear(leaf_guid(0)));
  EXPECT_EQ(rig.leaf_status(0).state, VdevState::faulted);
  rig.leaf(0).fails_reads = false;
  ASSERT_TRUE(rig->clear(0));
  EXPECT_EQ(rig.leaf_status(0).state, VdevState::healthy);
  EXPECT_EQ(rig.leaf_status(0).stats.read_errors, 0U);
  EXPECT_EQ(rig->clear(77).error().code(), Errc::not_found);
}

TEST_F(Tree, DegradesALeafThatLiesTooOften) {
  Rig rig(kRaidz2);
  const Block block(0, 40960, rng_);
  ASSERT_TRUE(write(*rig, block));
  for (int i = 0; i < 11; ++i) {
    EXPECT_EQ(rig.leaf_status(3).state, VdevState::healthy);
    rig.corrupt(3, 0, 4096);
    ASSERT_TRUE(read(*rig, block, ReadMode::scrub).right);
  }
  EXPECT_EQ(rig.leaf_status(3).state, VdevState::degraded);
  EXPECT_EQ(rig.leaf_status(3).stats.checksum_errors, 11U);
  rig.leaf(3).reads = 0;
  ASSERT_TRUE(read(*rig, block).right);
  EXPECT_EQ(rig.leaf(3).reads, 1U) << "it is still used";
}

TEST_F(Tree, RefusesToLoseTheLastCopy) {
  Rig rig(kRaidz2);
  EXPECT_TRUE(rig->set_leaf_state(leaf_guid(0), VdevState::faulted, VdevAux::external));
  EXPECT_TRUE(rig->set_leaf_state(leaf_guid(1), VdevState::offline, VdevAux::none));
  EXPECT_EQ(rig->set_leaf_state(leaf_guid(2), VdevState::faulted, VdevAux::external).error().code(),
            Errc::busy);
  EXPECT_TRUE(rig->usable(0));
  EXPECT_TRUE(rig->set_leaf_state(leaf_guid(2), VdevState::degraded, VdevAux::external));
  EXPECT_EQ(rig->set_leaf_state(999, VdevState::faulted, VdevAux::external).error().code(),
            Errc::not_found);
  EXPECT_EQ(rig->set_leaf_state(leaf_guid(2), VdevState::closed, VdevAux::external).error().code(),
            Errc::invalid);
}

TEST_F(Tree, CountsALeafThatMissedSomethingAsNoCopy) {
  Rig rig(kMirror);
  ASSERT_TRUE(rig->set_leaf_state(leaf_guid(0), VdevState::offline, VdevAux::none));
  const Block block(0, 4096, rng_, 50);
  ASSERT_TRUE(write(*rig, block));
  ASSERT_TRUE(rig->set_leaf_state(leaf_guid(0), VdevState::healthy, VdevAux::none));
  EXPECT_EQ(rig->set_leaf_state(leaf_guid(1), VdevState::offline, VdevAux::none).error().code(),
            Errc::busy);
  EXPECT_TRUE(rig->set_leaf_state(leaf_guid(0), VdevState::offline, VdevAux::none))
      << "the one that is behind may go";
  ASSERT_TRUE(rig->set_leaf_state(leaf_guid(0), VdevState::healthy, VdevAux::none));
  rig->scan_started();
  ASSERT_TRUE(read(*rig, block, ReadMode::scrub).right);
  rig->scan_finished(100, true);
  EXPECT_TRUE(rig->set_leaf_state(leaf_guid(1), VdevState::offline, VdevAux::none));
  EXPECT_TRUE(read(*rig, block).right);
}

TEST_F(Tree, TellsWhichLogsChangedOnce) {
  Rig rig(kMirror);
  EXPECT_TRUE(rig->dtls(true).empty());
  rig.leaf(0).fails_writes = true;
  ASSERT_TRUE(write(*rig, Block(0, 4096, rng_, 7)));
  const auto changed = rig->dtls(true);
  ASSERT_EQ(changed.size(), 1U);
  EXPECT_EQ(changed[0].guid, leaf_guid(0));
  EXPECT_TRUE(changed[0].missing.contains(7));
  EXPECT_TRUE(rig->dtls(true).empty());
  EXPECT_EQ(rig->dtls(false).size(), 1U);
  Dtl loaded;
  loaded.add(1, 5);
  rig->load_dtl(leaf_guid(1), loaded);
  EXPECT_TRUE(rig->dtls(true).empty()) << "it came from disk";
  EXPECT_EQ(rig->dtls(false).size(), 2U);
}

TEST_F(Tree, AScanWithErrorsOrWithoutTheLeafLeavesItsLog) {
  Rig rig(kMirror);
  const Block block(0, 4096, rng_, 7);
  rig.leaf(0).fails_writes = true;
  ASSERT_TRUE(write(*rig, block));
  rig->scan_started();
  rig->scan_finished(100, false);
  EXPECT_TRUE(rig.dtl(0).contains(7));

  // The leaf is away during a part of the scan.
  ASSERT_TRUE(rig->set_leaf_state(leaf_guid(0), VdevState::offline, VdevAux::none));
  rig->scan_started();
  ASSERT_TRUE(read(*rig, block, ReadMode::scrub).right);
  ASSERT_TRUE(rig->set_leaf_state(leaf_guid(0), VdevState::healthy, VdevAux::none));
  rig->scan_finished(100, true);
  EXPECT_TRUE(rig.dtl(0).contains(7));

  // The repair fails.
  rig->scan_started();
  ASSERT_TRUE(read(*rig, block, ReadMode::scrub).right);
  rig->scan_finished(100, true);
  EXPECT_TRUE(rig.dtl(0).contains(7));

  rig.leaf(0).fails_writes = false;
  rig->scan_started();
  ASSERT_TRUE(read(*rig, block, ReadMode::scrub).right);
  rig->scan_finished(100, true);
  EXPECT_TRUE(rig.dtl(0).empty());
}

TEST_F(Tree, FlushesOnlyWhatWasWritten) {
  Rig rig(kMirror);
  ASSERT_TRUE(rig->flush());
  EXPECT_EQ(rig.leaf(0).flushes, 0U);
  ASSERT_TRUE(write(*rig, Block(0, 4096, rng_)));
  ASSERT_TRUE(rig->flush());
  ASSERT_TRUE(rig->flush());
  EXPECT_EQ(rig.leaf(0).flushes, 1U);
  EXPECT_EQ(rig.leaf(1).flushes, 1U);
}

TEST_F(Tree, AFailedFlushMakesTheLeafMissWhatItMayHaveLost) {
  Rig rig(kMirror);
  ASSERT_TRUE(write(*rig, Block(0, 4096, rng_, 20)));
  ASSERT_TRUE(rig->flush());
  ASSERT_TRUE(write(*rig, Block(4096, 4096, rng_, 21)));
  ASSERT_TRUE(write(*rig, Block(8192, 4096, rng_, 23)));
  rig.leaf(0).fails_flushes = true;
  EXPECT_TRUE(rig->flush()) << "the other leaf has it";
  EXPECT_TRUE(rig.dtl(0).contains(21) && rig.dtl(0).contains(23));
  EXPECT_FALSE(rig.dtl(0).contains(20) || rig.dtl(0).contains(22));
  EXPECT_TRUE(rig.dtl(1).empty());
  ASSERT_TRUE(write(*rig, Block(4096, 4096, rng_, 24)));
  rig.leaf(1).fails_flushes = true;
  const auto lost = rig->flush();
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().code(), Errc::io);
}

TEST_F(Tree, OpensWithMissingLeavesAndTakesThemBack) {
  VdevConfig root = root_config({top_config(kRaidz2)});
  Rig source(root);
  const Block block(0x5000, 50000, rng_, 5);
  ASSERT_TRUE(write(*source, block));
  const auto images = source.images();
  bool absent = true;
  const auto open = [&](const VdevConfig& leaf) -> Result<std::unique_ptr<BlockDevice>> {
    const std::size_t i = leaf.guid - leaf_guid(0);
    if (absent && (i == 1 || i == 4)) {
      return fail(Errc::not_found, "no such file");
    }
    return std::make_unique<MemoryDevice>(images[i], leaf.path);
  };
  auto tree = VdevTree::open(root, open, false);
  ASSERT_TRUE(tree) << tree.error().what();
  EXPECT_EQ((*tree)->status().state, VdevState::degraded);
  EXPECT_EQ((*tree)->leaves()[1].device, nullptr);
  EXPECT_EQ((*tree)->leaves()[1].path, "leaf1");
  EXPECT_TRUE(read(**tree, block).right);
  EXPECT_EQ((*tree)->set_leaf_state(leaf_guid(1), VdevState::healthy, VdevAux::none).error().code(),
            Errc::gone);
  const Block later(0x50000, 50000, rng_, 6);
  ASSERT_TRUE(write(**tree, later));
  EXPECT_FALSE((*tree)->reopen_leaf(leaf_guid(1), open)) << "it is still away";
  absent = false;
  ASSERT_TRUE((*tree)->reopen_leaf(leaf_guid(1), open));
  EXPECT_EQ((*tree)->reopen_leaf(leaf_guid(1), open).error().code(), Errc::busy);
  EXPECT_EQ((*tree)->leaves()[1].state, VdevState::healthy);
  EXPECT_EQ((*tree)->dtls(false).size(), 2U);
  EXPECT_TRUE(read(**tree, later).right);
  EXPECT_TRUE(read(**tree, block).right);

  for (auto& child : root.children[0].children) {
    child.path = "gone" + child.path;
  }
  const auto none = VdevTree::open(
      root,
      [&](const VdevConfig& leaf) -> Result<std::unique_ptr<BlockDevice>> {
        if (leaf.guid < leaf_guid(3)) {
          return fail(Errc::not_found, "no such file");
        }
        return std::make_unique<MemoryDevice>(images[0], leaf.path);
      },
      false);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code(), Errc::gone);
  EXPECT_THAT(none.error().what(), testing::HasSubstr("goneleaf2"));
}

TEST_F(Tree, RefusesShapesThatItCannotServe) {
  const auto open = [](VdevConfig top) {
    const auto tree = VdevTree::open(
        root_config({std::move(top)}),
        [](const VdevConfig& leaf) -> Result<std::unique_ptr<BlockDevice>> {
          return std::make_unique<MemoryDevice>(kLeafSize, leaf.path);
        },
        true);
    return tree ? Errc::stopped : tree.error().code();
  };
  VdevConfig top = top_config(kRaidz2);
  top.parity = 0;
  EXPECT_EQ(open(top), Errc::invalid);
  top.parity = 4;
  EXPECT_EQ(open(top), Errc::invalid);
  top = top_config(kRaidz2);
  top.parity = 3;
  top.children.resize(3);
  EXPECT_EQ(open(top), Errc::invalid) << "no data column";
  top = top_config(kRaidz2);
  top.ashift = 8;
  EXPECT_EQ(open(top), Errc::invalid);
  top.ashift = 17;
  EXPECT_EQ(open(top), Errc::invalid);
  top = top_config(kRaidz2);
  top.children[0] = top_config(kMirror);
  EXPECT_EQ(open(top), Errc::unsupported) << "a mirror below raidz";
  top = {};
  top.type = VdevType::missing;
  EXPECT_EQ(open(top), Errc::gone);
  top = top_config(kMirror);
  top.children.clear();
  EXPECT_EQ(open(top), Errc::invalid);
  top = top_config(kRaidz2);
  top.asize *= 2;
  EXPECT_EQ(open(top), Errc::gone) << "leaves are smaller than they were";
}

TEST_F(Tree, HolesHoldNothingAndCannotBeAsked) {
  VdevConfig hole;
  hole.type = VdevType::hole;
  hole.id = 1;
  Rig rig(root_config({top_config(kMirror), hole}));
  EXPECT_EQ(rig->top_count(), 2U);
  EXPECT_TRUE(rig->usable(0));
  EXPECT_FALSE(rig->usable(1));
  EXPECT_FALSE(rig->usable(2));
  Block block(0, 4096, rng_);
  block.top = 1;
  EXPECT_EQ(read(*rig, block).result.error().code(), Errc::corrupt);
  EXPECT_EQ(write(*rig, block).error().code(), Errc::corrupt);
  EXPECT_EQ(rig->status().state, VdevState::healthy);
}

TEST_F(Tree, RefusesPlacesThatNoBlockCanHave) {
  for (const Shape& shape : {kRaidz2, kMirror}) {
    Rig rig(shape);
    const std::uint64_t end = rig->geometry(0).asize;
    for (const std::uint64_t offset :
         {end, end - 512, std::uint64_t{512}, ~std::uint64_t{0} << 12, std::uint64_t{1} << 63}) {
      const Block block(offset, 4096, rng_);
      EXPECT_EQ(read(*rig, block).result.error().code(), Errc::corrupt) << offset;
      EXPECT_EQ(write(*rig, block).error().code(), Errc::corrupt) << offset;
    }
    EXPECT_EQ(read(*rig, Block(0, 0, rng_)).result.error().code(), Errc::corrupt);
    const std::uint64_t asize = rig->geometry(0).psize_to_asize(4096);
    const Block last((end - asize) & ~std::uint64_t{4095}, 4096, rng_);
    EXPECT_TRUE(write(*rig, last));
    EXPECT_TRUE(read(*rig, last).right);
  }
}

TEST_F(Tree, ReadOnlyTreesWriteNothingNotEvenRepairs) {
  Rig rig(root_config({top_config(kRaidz2)}));
  const Block block(0, 30000, rng_);
  ASSERT_TRUE(write(*rig, block));
  rig.corrupt(2, 0, 8192);
  const auto images = rig.images();
  auto tree = VdevTree::open(
      root_config({top_config(kRaidz2)}),
      [&](const VdevConfig& leaf) -> Result<std::unique_ptr<BlockDevice>> {
        return std::make_unique<MemoryDevice>(images[leaf.guid - leaf_guid(0)], leaf.path, 9, true);
      },
      true);
  ASSERT_TRUE(tree);
  const Outcome got = read(**tree, block, ReadMode::scrub);
  EXPECT_TRUE(got.result && got.right);
  EXPECT_EQ(got.errors_seen, 1U);
  EXPECT_EQ(got.bytes_repaired, 0U);
  EXPECT_EQ(write(**tree, block).error().code(), Errc::read_only);
}

TEST_F(Tree, ServesManyThreadsWhileLeavesComeAndGo) {
  Rig rig(kRaidz2);
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  std::atomic<unsigned> wrong{0}, done{0};
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t, seed = rng_()] {
      std::mt19937_64 rng(seed);
      for (std::uint64_t round = 0; !stop || round < 50; ++round) {
        const Block block((t << 22) + (round % 16 << 18), 1 + rng() % 60000, rng, 10 + round);
        const bool written = write(*rig, block).has_value();
        const Outcome got = read(*rig, block, rng() % 4 == 0 ? ReadMode::scrub : ReadMode::normal);
        wrong += written && got.result && got.right ? 0 : 1;
        ++done;
        if (rng() % 8 == 0) {
          wrong += rig->flush() ? 0 : 1;
        }
      }
    });
  }
  for (int i = 0; i < 200 || done < 400; ++i) {
    const std::size_t leaf = static_cast<std::size_t>(i) % 2;
    ASSERT_TRUE(rig->set_leaf_state(leaf_guid(leaf), VdevState::offline, VdevAux::none));
    (void)rig->status();
    (void)rig->dtls(i % 2 == 0);
    ASSERT_TRUE(rig->set_leaf_state(leaf_guid(leaf), VdevState::healthy, VdevAux::none));
    rig->scan_finished(1000000, true);
  }
  stop = true;
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(wrong, 0U);
}

}  // namespace
}  // namespace zuse::vdev::test
