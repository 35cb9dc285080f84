#include "fs/pool/txg.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <thread>
#include <vector>

#include "tests/support/seed.h"

namespace zuse::pool {
namespace {

using std::chrono::milliseconds;

TxgOptions patient() {
  TxgOptions options;
  options.interval = milliseconds(3'600'000);  // only when asked
  return options;
}

TEST(Txg, SyncsEachGroupOnceAndInOrder) {
  std::vector<std::uint64_t> synced;
  TxgManager txgs(9, patient(), [&](std::uint64_t txg) -> Result<void> {
    synced.push_back(txg);
    return {};
  });
  EXPECT_EQ(txgs.open_txg(), 10U);
  ASSERT_TRUE(txgs.wait_synced());
  EXPECT_EQ(txgs.last_synced(), 10U);
  ASSERT_TRUE(txgs.wait_synced(13));
  ASSERT_TRUE(txgs.stop());
  EXPECT_EQ(synced, (std::vector<std::uint64_t>{10, 11, 12, 13, 14}));
}

TEST(Txg, NobodyEntersTheNextGroupWhileSomebodyIsInsideTheOneBefore) {
  std::atomic<std::uint64_t> synced{0};
  TxgManager txgs(0, patient(), [&](std::uint64_t txg) -> Result<void> {
    synced = txg;
    return {};
  });
  auto first = txgs.hold();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->txg(), kFirstTxg);
  txgs.kick();
  while (txgs.open_txg() == kFirstTxg) {
    std::this_thread::yield();
  }
  std::atomic<bool> left{false};
  std::jthread next([&] {
    auto second = txgs.hold();
    ASSERT_TRUE(second);
    EXPECT_EQ(second->txg(), kFirstTxg + 1);
    EXPECT_TRUE(left);
  });
  EXPECT_EQ(synced, 0U);
  left = true;
  *first = TxHold();
  next.join();
  ASSERT_TRUE(txgs.wait_synced(kFirstTxg));
  ASSERT_TRUE(txgs.stop());
  EXPECT_GE(synced, kFirstTxg);
}

TEST(Txg, NoChangeIsMadeInAGroupThatSyncsAndNoneIsLost) {
  SCOPED_TRACE(test::rerun());
  std::array<std::atomic<int>, kTxgSlots> pending{};
  std::atomic<int> made{0}, kept{0};
  std::atomic<std::uint64_t> syncing{0};
  TxgOptions options;
  options.interval = milliseconds(2);
  options.dirty_limit = 1000;
  options.dirty_sync = 300;
  TxgManager txgs(3, options, [&](std::uint64_t txg) -> Result<void> {
    syncing = txg;
    kept += pending[txg % kTxgSlots].exchange(0);
    return {};
  });
  {
    std::vector<std::jthread> threads;
    for (unsigned t = 0; t < 6; ++t) {
      threads.emplace_back([&, t] {
        std::mt19937_64 rng(test::seed() + t);
        for (int i = 0; i < 2000; ++i) {
          auto hold = txgs.hold();
          ASSERT_TRUE(hold);
          ASSERT_GT(hold->txg(), syncing);
          ++pending[hold->txg() % kTxgSlots];
          ++made;
          txgs.add_dirty(hold->txg(), rng() % 20);
          ASSERT_GT(hold->txg(), syncing);
          if (rng() % 100 == 0) {
            const std::uint64_t mine = hold->txg();
            *hold = TxHold();
            ASSERT_TRUE(txgs.wait_synced(mine));
            ASSERT_GE(txgs.last_synced(), mine);
          }
        }
      });
    }
  }
  ASSERT_TRUE(txgs.stop());
  EXPECT_EQ(made, 12000);
  EXPECT_EQ(kept, 12000);
  EXPECT_EQ(txgs.dirty_bytes(), 0U);
}

TEST(Txg, DirtyDataStartsASyncAndTooMuchHoldsWritersBack) {
  TxgOptions options = patient();
  options.dirty_sync = 100;
  options.dirty_limit = 200;
  std::atomic<bool> go{false};
  TxgManager txgs(3, options, [&](std::uint64_t) -> Result<void> {
    while (!go) {
      std::this_thread::yield();
    }
    return {};
  });
  {
    auto hold = txgs.hold();
    ASSERT_TRUE(hold);
    txgs.add_dirty(hold->txg(), 150);
  }
  while (txgs.open_txg() == 4) {
    std::this_thread::yield();
  }
  {
    auto hold = txgs.hold();
    ASSERT_TRUE(hold);
    txgs.add_dirty(hold->txg(), 60);
  }
  std::atomic<bool> entered{false};
  std::jthread late([&] {
    auto hold = txgs.hold();
    entered = hold.has_value();
  });
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_FALSE(entered);
  go = true;
  late.join();
  EXPECT_TRUE(entered);
  ASSERT_TRUE(txgs.stop());
}

TEST(Txg, AFailedSyncSuspendsEverything) {
  TxgManager txgs(3, patient(), [&](std::uint64_t txg) -> Result<void> {
    return txg == 5 ? fail(Errc::io, "the devices are gone") : Result<void>{};
  });
  ASSERT_TRUE(txgs.wait_synced());
  const auto lost = txgs.wait_synced();
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().what(), "the devices are gone");
  EXPECT_EQ(txgs.hold().error().code(), Errc::io);
  EXPECT_EQ(txgs.wait_synced(6).error().code(), Errc::io);
  EXPECT_EQ(txgs.stop().error().code(), Errc::io);
  EXPECT_EQ(txgs.last_synced(), 4U);
}

TEST(Txg, NobodyEntersAfterStop) {
  TxgManager txgs(3, patient(), [](std::uint64_t) -> Result<void> { return {}; });
  ASSERT_TRUE(txgs.stop());
  EXPECT_EQ(txgs.hold().error().code(), Errc::stopped);
  EXPECT_EQ(txgs.wait_synced().error().code(), Errc::stopped);
  EXPECT_TRUE(txgs.wait_synced(4));
}

}  // namespace
}  // namespace zuse::pool
