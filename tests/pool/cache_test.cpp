#include "fs/pool/cache.h"

#include <gtest/gtest.h>

#include <list>
#include <thread>

#include "tests/support/seed.h"
#include "vdev/base/units.h"

namespace zuse::pool {
namespace {

SharedBuffer block(std::size_t size = 4096, std::uint8_t fill = 0) {
  Buffer buffer(size);
  std::fill_n(buffer.data(), size, std::byte{fill});
  return std::make_shared<const Buffer>(std::move(buffer));
}

CacheKey key(std::uint64_t n) {
  return {0, n * 4096, 7};
}

TEST(Cache, FindsByVdevOffsetAndBirth) {
  Cache cache(kMiB);
  cache.put({1, 2, 3}, block(4096, 9));
  EXPECT_EQ(cache.get({1, 2, 4}), nullptr);
  EXPECT_EQ(cache.get({1, 3, 3}), nullptr);
  EXPECT_EQ(cache.get({0, 2, 3}), nullptr);
  const SharedBuffer found = cache.get({1, 2, 3});
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->data()[0], std::byte{9});
  cache.forget({1, 2, 3});
  EXPECT_EQ(cache.get({1, 2, 3}), nullptr);
  EXPECT_EQ(found->data()[0], std::byte{9}) << "a holder keeps its buffer";
}

TEST(Cache, NeverKeepsMoreThanItsLimit) {
  SCOPED_TRACE(test::rerun());
  std::mt19937_64 rng(test::seed());
  for (const std::uint64_t limit : {64 * kKiB, kMiB, 100 * kMiB}) {
    Cache cache(limit);
    for (int i = 0; i < 3000; ++i) {
      const CacheKey at = key(rng() % 500);
      if (cache.get(at) == nullptr) {
        cache.put(at, block((rng() % 256 + 1) * 512), rng() % 4 == 0);
      }
      if (rng() % 50 == 0) {
        cache.forget(key(rng() % 500));
      }
      const CacheStats stats = cache.stats();
      ASSERT_LE(stats.bytes, limit);
      ASSERT_LE(stats.limit, limit);
      ASSERT_LE(stats.target_recent, limit);
    }
    cache.drop();
    EXPECT_EQ(cache.stats().bytes, 0U);
    EXPECT_EQ(cache.stats().blocks, 0U);
  }
}

TEST(Cache, DoesNotKeepABlockThatIsLargerThanAll) {
  Cache cache(64 * kKiB);
  cache.put(key(1), block(128 * kKiB));
  EXPECT_EQ(cache.get(key(1)), nullptr);
  EXPECT_EQ(cache.stats().bytes, 0U);
}

TEST(Cache, KeepsWhatIsUsedTwiceThroughALongScan) {
  Cache cache(64 * 4096);
  for (std::uint64_t i = 0; i < 32; ++i) {
    cache.put(key(i), block());
    ASSERT_NE(cache.get(key(i)), nullptr);
  }
  for (std::uint64_t i = 1000; i < 3000; ++i) {
    cache.put(key(i), block());
  }
  for (std::uint64_t i = 0; i < 32; ++i) {
    EXPECT_NE(cache.get(key(i)), nullptr) << i;
  }
}

TEST(Cache, ABlockReadAheadIsUsedAgainOnlyAfterOthers) {
  Cache cache(64 * 4096);
  for (std::uint64_t i = 0; i < 10; ++i) {
    cache.put(key(i), block(), true);
  }
  for (int piece = 0; piece < 32; ++piece) {
    ASSERT_NE(cache.get(key(0)), nullptr);
  }
  EXPECT_EQ(cache.stats().frequent_bytes, 0U);
  for (std::uint64_t i = 1; i < 10; ++i) {
    ASSERT_NE(cache.get(key(i)), nullptr);
  }
  EXPECT_EQ(cache.stats().frequent_bytes, 0U);
  ASSERT_NE(cache.get(key(0)), nullptr);
  EXPECT_EQ(cache.stats().frequent_bytes, 4096U);
}

TEST(Cache, ReadingAheadPushesOutNothingElse) {
  Cache cache(64 * 4096);
  for (std::uint64_t i = 0; i < 48; ++i) {
    cache.put(key(i), block());
  }
  for (std::uint64_t i = 1000; i < 2000; ++i) {
    cache.put(key(i), block(), true);
    ASSERT_NE(cache.get(key(i)), nullptr);
    ASSERT_LE(cache.stats().bytes, 64U * 4096);
    ASSERT_LE(cache.stats().ahead_bytes, 16U * 4096);
  }
  for (std::uint64_t i = 0; i < 48; ++i) {
    EXPECT_NE(cache.get(key(i)), nullptr) << i;
  }
}

// ARC as its paper writes it, over lists of numbers and pages of one size.
class Paper {
 public:
  explicit Paper(std::size_t c) : c_(c) {}
  // True: a hit.
  bool request(std::uint64_t x) {
    if (take(t1_, x) || take(t2_, x)) {
      t2_.push_front(x);
      return true;
    }
    if (contains(b1_, x)) {
      const std::size_t step = std::max<std::size_t>(1, b2_.size() / b1_.size());
      p_ = std::min(c_, p_ + step);
      take(b1_, x);
      replace(false);
      t2_.push_front(x);
    } else if (contains(b2_, x)) {
      const std::size_t step = std::max<std::size_t>(1, b1_.size() / b2_.size());
      p_ -= std::min(p_, step);
      take(b2_, x);
      replace(true);
      t2_.push_front(x);
    } else {
      replace(false);
      t1_.push_front(x);
    }
    while (t1_.size() + b1_.size() > c_ + 1 && !b1_.empty()) {
      b1_.pop_back();
    }
    return false;
  }
  std::size_t target() const { return p_; }

 private:
  static bool contains(const std::list<std::uint64_t>& list, std::uint64_t x) {
    return std::find(list.begin(), list.end(), x) != list.end();
  }
  static bool take(std::list<std::uint64_t>& list, std::uint64_t x) {
    const auto at = std::find(list.begin(), list.end(), x);
    if (at == list.end()) {
      return false;
    }
    list.erase(at);
    return true;
  }
  void replace(bool in_b2) {
    if (t1_.size() + t2_.size() < c_) {
      return;
    }
    if (!t1_.empty() && (t1_.size() > p_ || (in_b2 && t1_.size() == p_) || t2_.empty())) {
      b1_.push_front(t1_.back());
      t1_.pop_back();
    } else {
      b2_.push_front(t2_.back());
      t2_.pop_back();
    }
    while (t1_.size() + b1_.size() > c_ && !b1_.empty()) {
      b1_.pop_back();
    }
    while (t1_.size() + t2_.size() + b1_.size() + b2_.size() > 2 * c_ && !b2_.empty()) {
      b2_.pop_back();
    }
  }

  std::size_t c_, p_ = 0;
  std::list<std::uint64_t> t1_, t2_, b1_, b2_;
};

TEST(Cache, HitsAsOftenAsTheAlgorithmOfThePaper) {
  SCOPED_TRACE(test::rerun());
  std::mt19937_64 rng(test::seed());
  constexpr std::size_t kPages = 64;
  Cache cache(kPages * 4096);
  Paper paper(kPages);
  std::uint64_t hits = 0, paper_hits = 0, scan = 100000;
  for (int i = 0; i < 40000; ++i) {
    // A hot set that shifts, a cold one, and bursts of scans.
    const bool burst = i % 4000 > 3000;
    const std::uint64_t x = burst && rng() % 2 == 0 ? scan++
                            : rng() % 10 < 7 ? rng() % 40 + static_cast<unsigned>(i) / 8000 * 40
                                             : 500 + rng() % 400;
    const bool hit = cache.get(key(x)) != nullptr;
    if (!hit) {
      cache.put(key(x), block());
    }
    hits += hit ? 1U : 0U;
    paper_hits += paper.request(x) ? 1U : 0U;
  }
  EXPECT_NEAR(static_cast<double>(hits), static_cast<double>(paper_hits),
              static_cast<double>(paper_hits) * 0.03);
  EXPECT_GT(hits, 10000U);
}

TEST(Cache, IsSafeAmongThreads) {
  Cache cache(8 * kMiB);
  std::vector<std::jthread> threads;
  for (unsigned t = 0; t < 6; ++t) {
    threads.emplace_back([&cache, t] {
      std::mt19937_64 rng(t);
      for (int i = 0; i < 3000; ++i) {
        const std::uint64_t n = rng() % 300;
        if (const SharedBuffer found = cache.get(key(n))) {
          ASSERT_EQ(found->data()[17], static_cast<std::byte>(n));
        } else {
          cache.put(key(n), block(32 * kKiB, static_cast<std::uint8_t>(n)));
        }
        if (i % 100 == 0) {
          cache.forget(key(rng() % 300));
        }
        if (i % 1000 == 999) {
          cache.drop();
        }
      }
    });
  }
}

}  // namespace
}  // namespace zuse::pool
