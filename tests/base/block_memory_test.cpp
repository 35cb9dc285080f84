// What block memory promises: blocks are aligned, whole and nobody else's, and what is freed is
// kept only up to a limit, however the sizes in use change.
#include "vdev/base/block_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>
#include <random>
#include <thread>
#include <vector>

#include "tests/support/seed.h"
#include "vdev/base/units.h"

namespace zuse {
namespace {

std::int64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::int64_t pages = 0;
  statm >> pages >> pages;
  return pages * ::sysconf(_SC_PAGESIZE);
}
// What earlier tests have left idle counts as being there before.
constexpr std::int64_t kKept = 2 * kIdleMemoryLimit + 8 * kMiB;

TEST(BlockMemory, BlocksAreAlignedAndHoldWhatWasAskedFor) {
  for (const std::size_t size : {1UL, 512UL, 4096UL, 4097UL, 65536UL, 131072UL, 1UL << 20U,
                                 (1UL << 20U) + 1, 3UL << 20U, 16UL << 20U}) {
    const MemoryBlock block = take_memory(size);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block.data) % 4096, 0U);
    EXPECT_GE(block.capacity, size);
    std::memset(block.data, 0xA5, block.capacity);
    give_memory(block);
  }
}

TEST(BlockMemory, NoBlockIsHandedOutTwice) {
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE(test::rerun());
  std::vector<std::thread> threads;
  std::atomic<int> broken{0};
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(seed + t);
      struct Held {
        MemoryBlock block;
        std::uint64_t mark;
      };
      std::vector<Held> held;
      for (int i = 0; i < 20000; ++i) {
        if (held.size() < 100 && random() % 2 == 0) {
          Held one{take_memory(std::size_t{1} << (random() % 19)), random()};
          std::memcpy(one.block.data, &one.mark, 8);
          std::memcpy(one.block.data + one.block.capacity - 8, &one.mark, 8);
          held.push_back(one);
        } else if (!held.empty()) {
          std::swap(held[random() % held.size()], held.back());
          const Held one = held.back();
          held.pop_back();
          broken += std::memcmp(one.block.data, &one.mark, 8) != 0 ||
                    std::memcmp(one.block.data + one.block.capacity - 8, &one.mark, 8) != 0;
          give_memory(one.block);
        }
      }
      for (const Held& one : held) {
        give_memory(one.block);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(broken, 0);
}

#if !defined(__SANITIZE_ADDRESS__)  // there each block is an allocation of its own
TEST(BlockMemory, FreedBlocksKeepNoMoreThanTheLimit) {
  std::mt19937_64 random(test::seed());
  const std::int64_t before = resident_bytes();
  std::vector<MemoryBlock> small;
  for (std::uint64_t bytes = 0; bytes < 256 * kMiB; bytes += 4096) {
    small.push_back(take_memory(4096));
    std::memset(small.back().data, 1, 4096);
  }
  EXPECT_GE(resident_bytes() - before, static_cast<std::int64_t>(256 * kMiB) - kKept);
  // All but every eighth, in no order: no slab becomes free.
  std::shuffle(small.begin(), small.end(), random);
  while (small.size() > 8192) {
    give_memory(small.back());
    small.pop_back();
  }
  EXPECT_LE(memory_usage().idle, kIdleMemoryLimit);
  EXPECT_LE(memory_usage().spare, kIdleMemoryLimit);
  EXPECT_LE(resident_bytes() - before, static_cast<std::int64_t>(32 * kMiB) + kKept);
  // Blocks that lost their memory are as good as others.
  for (int i = 0; i < 40000; ++i) {
    small.push_back(take_memory(4096));
    std::memset(small.back().data, 2, 4096);
  }
  while (!small.empty()) {
    give_memory(small.back());
    small.pop_back();
  }
  EXPECT_EQ(memory_usage().live, 0U);
  EXPECT_LE(resident_bytes() - before, kKept);
}
#endif

}  // namespace
}  // namespace zuse
