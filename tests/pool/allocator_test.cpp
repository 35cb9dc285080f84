#include "fs/pool/allocator.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "fs/format/space_map.h"
#include "tests/support/seed.h"
#include "vdev/base/random.h"

namespace zuse::pool {
namespace {

constexpr unsigned kShift = 20;  // small metaslabs, so that tests fill them

AllocatorTop top_of(unsigned ashift, unsigned children, unsigned parity, std::uint64_t metaslabs) {
  AllocatorTop top;
  top.geometry.ashift = ashift;
  top.geometry.children = children;
  top.geometry.parity = parity;
  top.geometry.asize = metaslabs << kShift;
  top.metaslab_shift = kShift;
  return top;
}

std::unique_ptr<Allocator> empty_allocator(const std::vector<AllocatorTop>& tops) {
  auto allocator = Allocator::create(tops);
  EXPECT_TRUE(allocator.has_value());
  for (unsigned t = 0; t < tops.size(); ++t) {
    for (std::uint64_t m = 0; m < (*allocator)->metaslab_count(t); ++m) {
      EXPECT_TRUE((*allocator)->load(t, m, {}));
    }
  }
  return *std::move(allocator);
}

// What becomes of every sector, kept the simplest way.
class Model {
 public:
  enum State : std::uint8_t { kFree, kUsed, kDeferred };

  explicit Model(const std::vector<AllocatorTop>& tops) {
    for (const AllocatorTop& top : tops) {
      shift_.push_back(top.geometry.ashift);
      state_.emplace_back(top.geometry.asize >> top.geometry.ashift, kFree);
      map_.emplace_back(top.geometry.asize >> top.geometry.ashift, false);
    }
  }
  void set(const format::Dva& dva, State from, State to) {
    for (std::uint64_t i = 0; i < dva.asize >> shift_[dva.vdev]; ++i) {
      State& state = state_[dva.vdev][(dva.offset >> shift_[dva.vdev]) + i];
      ASSERT_EQ(state, from) << "vdev " << dva.vdev << " offset " << dva.offset;
      state = to;
    }
  }
  // Applies changes to the "space map on disk".
  void apply(const MetaslabChanges& changes) {
    for (const bool alloc : {true, false}) {
      for (const Range& range : alloc ? changes.allocated : changes.freed) {
        for (std::uint64_t at = range.offset; at < range.end();
             at += std::uint64_t{1} << shift_[changes.top]) {
          const auto i = static_cast<std::size_t>(at >> shift_[changes.top]);
          ASSERT_NE(map_[changes.top][i], alloc) << "the map says so already";
          map_[changes.top][i] = alloc;
        }
      }
    }
  }
  std::vector<Range> map_ranges(unsigned top, std::uint64_t metaslab) const {
    std::vector<Range> ranges;
    const std::uint64_t sector = std::uint64_t{1} << shift_[top];
    for (std::uint64_t at = metaslab << kShift; at < (metaslab + 1) << kShift; at += sector) {
      if (!map_[top][at / sector]) {
        continue;
      }
      if (!ranges.empty() && ranges.back().end() == at) {
        ranges.back().size += sector;
      } else {
        ranges.push_back({at, sector});
      }
    }
    return ranges;
  }
  std::uint64_t map_bytes() const {
    std::uint64_t bytes = 0;
    for (std::size_t t = 0; t < map_.size(); ++t) {
      for (const bool used : map_[t]) {
        bytes += used ? std::uint64_t{1} << shift_[t] : 0;
      }
    }
    return bytes;
  }

 private:
  std::vector<unsigned> shift_;
  std::vector<std::vector<State>> state_;
  std::vector<std::vector<bool>> map_;
};

TEST(Allocator, NeverHandsOutWhatIsInUseOrFreedLessThanThreeGroupsAgo) {
  SCOPED_TRACE(test::rerun());
  std::mt19937_64 rng(test::seed());
  const std::vector<AllocatorTop> tops{top_of(9, 1, 0, 3), top_of(12, 5, 2, 4), top_of(9, 3, 1, 2)};
  const auto allocator = empty_allocator(tops);
  Model model(tops);
  using Dvas = std::array<format::Dva, 3>;
  std::vector<Dvas> live;
  std::map<std::uint64_t, std::vector<Dvas>> freed;  // by txg
  bool was_full = false;
  for (std::uint64_t txg = 4; txg < 80; ++txg) {
    allocator->begin_sync(txg);
    if (const auto due = freed.find(txg - 3); due != freed.end()) {
      for (const Dvas& dvas : due->second) {
        for (const format::Dva& dva : dvas) {
          ASSERT_NO_FATAL_FAILURE(model.set(dva, Model::kDeferred, Model::kFree));
        }
      }
      freed.erase(due);
    }
    std::vector<Dvas> born;  // not yet taken
    for (unsigned pass = 0; pass < 3; ++pass) {
      for (unsigned step = 0; step < 60; ++step) {
        if (rng() % 5 < 3) {
          AllocationRequest request;
          request.psize = (rng() % 64 + 1) * 512;
          request.copies = static_cast<unsigned>(rng() % 3 + 1);
          request.txg = txg;
          request.data = rng() % 2 == 0;
          const auto dvas = allocator->allocate(request);
          if (!dvas) {
            ASSERT_EQ(dvas.error().code(), Errc::no_space);
            was_full = true;
            continue;
          }
          for (unsigned d = 0; d < 3; ++d) {
            const format::Dva& dva = (*dvas)[d];
            ASSERT_EQ(dva.asize != 0, d < request.copies);
            if (dva.asize != 0) {
              ASSERT_EQ(dva.asize, tops[dva.vdev].geometry.psize_to_asize(request.psize));
              ASSERT_EQ(dva.offset >> kShift, (dva.offset + dva.asize - 1) >> kShift);
            }
            ASSERT_NO_FATAL_FAILURE(model.set(dva, Model::kFree, Model::kUsed));
          }
          born.push_back(*dvas);
        } else if (rng() % 4 == 0 && !born.empty()) {
          // Born and freed in one group: free again at once.
          const std::size_t i = rng() % born.size();
          for (const format::Dva& dva : born[i]) {
            if (dva.asize != 0) {
              ASSERT_TRUE(allocator->free(dva, txg));
              ASSERT_NO_FATAL_FAILURE(model.set(dva, Model::kUsed, Model::kFree));
            }
          }
          born.erase(born.begin() + static_cast<std::ptrdiff_t>(i));
        } else if (!live.empty()) {
          const std::size_t i = rng() % live.size();
          for (const format::Dva& dva : live[i]) {
            if (dva.asize != 0) {
              ASSERT_TRUE(allocator->free(dva, txg));
              ASSERT_NO_FATAL_FAILURE(model.set(dva, Model::kUsed, Model::kDeferred));
            }
          }
          freed[txg].push_back(live[i]);
          live.erase(live.begin() + static_cast<std::ptrdiff_t>(i));
        }
      }
      for (const MetaslabChanges& changes : allocator->take_changes(txg)) {
        ASSERT_NO_FATAL_FAILURE(model.apply(changes));
        std::uint64_t total = 0;
        for (const Range& range : model.map_ranges(changes.top, changes.metaslab)) {
          total += range.size;
        }
        ASSERT_EQ(changes.allocated_total, total);
      }
      live.insert(live.end(), born.begin(), born.end());
      born.clear();
      ASSERT_TRUE(allocator->take_changes(txg).empty());
      ASSERT_EQ(allocator->allocated(), model.map_bytes());
    }
    for (unsigned t = 0; t < tops.size(); ++t) {
      for (std::uint64_t m = 0; m < allocator->metaslab_count(t); ++m) {
        ASSERT_EQ(allocator->map_contents(t, m), model.map_ranges(t, m));
      }
    }
  }
  EXPECT_TRUE(was_full) << "the test was to reach the end of the pool";
}

TEST(Allocator, PutsTheCopiesOfABlockOnDifferentVdevsOrElseMetaslabs) {
  const auto many = empty_allocator({top_of(9, 1, 0, 4), top_of(9, 1, 0, 4), top_of(9, 1, 0, 4)});
  const auto one = empty_allocator({top_of(9, 1, 0, 4)});
  for (int i = 0; i < 50; ++i) {
    const auto dvas = many->allocate({4096, 3, 4, false});
    ASSERT_TRUE(dvas);
    EXPECT_EQ((std::set{(*dvas)[0].vdev, (*dvas)[1].vdev, (*dvas)[2].vdev}).size(), 3U);
    const auto close = one->allocate({4096, 3, 4, false});
    ASSERT_TRUE(close);
    EXPECT_EQ((std::set{(*close)[0].offset >> kShift, (*close)[1].offset >> kShift,
                        (*close)[2].offset >> kShift})
                  .size(),
              3U);
  }
}

TEST(Allocator, LaysConsecutiveBlocksSideBySide) {
  const auto allocator = empty_allocator({top_of(12, 6, 2, 16)});
  std::uint64_t expected = 0;
  unsigned jumps = 0;
  for (int i = 0; i < 60; ++i) {
    const auto dvas = allocator->allocate({131072, 1, 4, true});
    ASSERT_TRUE(dvas);
    jumps += i > 0 && (*dvas)[0].offset != expected ? 1U : 0U;
    expected = (*dvas)[0].offset + (*dvas)[0].asize;
  }
  // 60 blocks of 192 KiB in metaslabs of 1 MiB: five a metaslab.
  EXPECT_LE(jumps, 12U);
}

TEST(Allocator, FillsVdevsByTheirFreeSpace) {
  const auto allocator = empty_allocator({top_of(9, 1, 0, 8), top_of(9, 1, 0, 72)});
  std::array<std::uint64_t, 2> bytes{};
  for (int i = 0; i < 400; ++i) {
    const auto dvas = allocator->allocate({131072, 1, 4, true});
    ASSERT_TRUE(dvas);
    bytes[(*dvas)[0].vdev] += (*dvas)[0].asize;
  }
  EXPECT_GT(bytes[0], 0U);
  EXPECT_GT(bytes[1], 5 * bytes[0]);
}

TEST(Allocator, TakesTheSpaceMapAtItsWordAndRefusesOneThatContradictsItself) {
  auto allocator = Allocator::create(std::vector{top_of(9, 1, 0, 2)});
  ASSERT_TRUE(allocator);
  using format::SpaceMapEntry;
  using format::SpaceMapOp;
  const std::vector<SpaceMapEntry> twice{{SpaceMapOp::alloc, 0, 8, {}},
                                         {SpaceMapOp::alloc, 7, 2, {}}};
  const std::vector<SpaceMapEntry> free_free{{SpaceMapOp::free, 0, 8, {}}};
  const std::vector<SpaceMapEntry> outside{{SpaceMapOp::alloc, 2047, 2, {}}};
  const std::vector<SpaceMapEntry> wraps{{SpaceMapOp::alloc, 1, ~std::uint64_t{0}, {}}};
  for (const auto& bad : {twice, free_free, outside, wraps}) {
    const auto loaded = (*allocator)->load(0, 0, bad);
    ASSERT_FALSE(loaded);
    EXPECT_EQ(loaded.error().code(), Errc::corrupt);
  }
  // All but the last sector of metaslab 0, with a detour.
  const std::vector<SpaceMapEntry> good{{SpaceMapOp::alloc, 0, 2048, {}},
                                        {SpaceMapOp::free, 100, 1948, {}},
                                        {SpaceMapOp::alloc, 100, 1947, {}}};
  ASSERT_TRUE((*allocator)->load(0, 0, good));
  EXPECT_EQ((*allocator)->allocated(), 2047U * 512);
  const auto dvas = (*allocator)->allocate({512, 1, 4, true});
  ASSERT_TRUE(dvas);
  EXPECT_EQ((*dvas)[0].offset, 2047U * 512);
  EXPECT_FALSE((*allocator)->allocate({512, 1, 4, true})) << "metaslab 1 is not loaded";
}

TEST(Allocator, RefusesToFreeTwiceAndLeavesTheSpaceAlone) {
  const auto allocator = empty_allocator({top_of(9, 1, 0, 2)});
  const auto dvas = allocator->allocate({4096, 1, 4, true});
  ASSERT_TRUE(dvas);
  ASSERT_FALSE(allocator->take_changes(4).empty());
  ASSERT_TRUE(allocator->free((*dvas)[0], 5));
  for (const std::uint64_t txg : {5U, 6U}) {
    const auto again = allocator->free((*dvas)[0], txg);
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().code(), Errc::corrupt);
    ASSERT_EQ(allocator->take_changes(txg).size(), txg == 5 ? 1U : 0U);
  }
  allocator->begin_sync(8);
  EXPECT_FALSE(allocator->free((*dvas)[0], 8)) << "it is free";
  EXPECT_FALSE(allocator->free({0, 4096, (1U << kShift) - 512, false}, 8)) << "two metaslabs";
  EXPECT_FALSE(allocator->free({3, 512, 0, false}, 8)) << "no such vdev";
}

TEST(Allocator, LetsNothingFreedAfterAPinBeReused) {
  const auto allocator = empty_allocator({top_of(9, 1, 0, 1)});
  const auto old = allocator->allocate({512 << 10, 1, 4, true});
  const auto young = allocator->allocate({512 << 10, 1, 4, true});
  ASSERT_TRUE(old && young);
  (void)allocator->take_changes(4);
  allocator->begin_sync(5);
  ASSERT_TRUE(allocator->free((*old)[0], 5));
  (void)allocator->take_changes(5);
  allocator->begin_sync(6);
  {
    const Allocator::Pin pin = allocator->pin_frees();
    ASSERT_TRUE(allocator->free((*young)[0], 6));
    (void)allocator->take_changes(6);
    for (std::uint64_t txg = 7; txg < 20; ++txg) {
      allocator->begin_sync(txg);
    }
    // What was gone from the tree before the pin is fair game; the rest is not.
    EXPECT_TRUE(allocator->is_free((*old)[0]));
    EXPECT_FALSE(allocator->is_free((*young)[0]));
  }
  allocator->begin_sync(20);
  EXPECT_TRUE(allocator->is_free((*young)[0]));
}

TEST(Allocator, KeepsLogBlocksFreedInTheirOwnGroupUntilItIsOnDisk) {
  const auto allocator = empty_allocator({top_of(9, 1, 0, 1)});
  const auto dvas = allocator->allocate({4096, 1, 7, false});
  ASSERT_TRUE(dvas);
  ASSERT_TRUE(allocator->free((*dvas)[0], 7, true));
  EXPECT_FALSE(allocator->is_free((*dvas)[0]));
  const auto changes = allocator->take_changes(7);
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].allocated, changes[0].freed);
  EXPECT_EQ(changes[0].allocated_total, 0U);
  allocator->begin_sync(9);
  EXPECT_FALSE(allocator->is_free((*dvas)[0]));
  allocator->begin_sync(10);
  EXPECT_TRUE(allocator->is_free((*dvas)[0]));
}

TEST(Allocator, ClaimsExactlyWhatItIsTold) {
  const auto allocator = empty_allocator({top_of(9, 1, 0, 2)});
  const format::Dva dva{0, 4096, 8192, false};
  ASSERT_TRUE(allocator->claim(dva, 4));
  const auto again = allocator->claim(dva, 4);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code(), Errc::exists);
  const auto changes = allocator->take_changes(4);
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].allocated, (std::vector<Range>{{8192, 4096}}));
}

TEST(Allocator, ManyThreadsNeverGetTheSameBytes) {
  const auto allocator = empty_allocator({top_of(9, 1, 0, 20), top_of(9, 1, 0, 20)});
  std::vector<std::vector<format::Dva>> got(8);
  {
    std::vector<std::jthread> threads;
    for (auto& mine : got) {
      threads.emplace_back([&mine, &allocator] {
        Xorshift128Plus rng(reinterpret_cast<std::uintptr_t>(&mine));
        for (int i = 0; i < 2000; ++i) {
          const auto dvas = allocator->allocate(
              {(rng.bounded(8) + 1) * 512, 1 + static_cast<unsigned>(rng.bounded(2)), 4, true});
          if (!dvas) {
            continue;
          }
          for (const format::Dva& dva : *dvas) {
            if (dva.asize != 0 && rng.bounded(4) == 0) {
              ASSERT_TRUE(allocator->free(dva, 4));
            } else if (dva.asize != 0) {
              mine.push_back(dva);
            }
          }
        }
      });
    }
  }
  std::array<RangeSet, 2> seen;
  std::uint64_t bytes = 0;
  for (const auto& mine : got) {
    for (const format::Dva& dva : mine) {
      ASSERT_EQ(seen[dva.vdev].add_missing({dva.offset, dva.asize}), dva.asize);
      bytes += dva.asize;
    }
  }
  EXPECT_EQ(allocator->allocated(), bytes);
}

TEST(Allocator, CountsSpaceAsTheFormatSays) {
  // 6-wide raidz2 of ashift 12: a deflate ratio of 341 (format page 03 section 2).
  const auto allocator = empty_allocator({top_of(12, 6, 2, 1024)});
  EXPECT_EQ(allocator->total(), std::uint64_t{1} << 30);
  EXPECT_EQ(allocator->dspace(), (std::uint64_t{1} << 21) * 341);
  EXPECT_EQ(allocator->deflate(0, 0x30000), 0x30000U / 512 * 341);
  EXPECT_EQ(allocator->slop(), std::uint64_t{128} << 20);
  EXPECT_LE(allocator->fragmentation(), 100U);
}

}  // namespace
}  // namespace zuse::pool
