#include "vdev/base/block_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "vdev/base/result.h"
#include "vdev/base/units.h"

namespace zuse {

namespace {

constexpr std::size_t kSlabSize = 2 * kMiB;
constexpr unsigned kSmallestShift = 12;
constexpr unsigned kClasses = 9;  // 4 KiB to 1 MiB; larger blocks are mappings of their own
constexpr std::size_t kMostBlocks = kSlabSize >> kSmallestShift;

constexpr unsigned class_of(std::size_t size) noexcept {
  return static_cast<unsigned>(
             std::bit_width(std::max(size, std::size_t{1} << kSmallestShift) - 1)) -
         kSmallestShift;
}

// A set of block numbers of a slab.
class BlockSet {
 public:
  void fill(std::size_t count) noexcept {
    clear();
    for (std::size_t i = 0; i < count; ++i) {
      insert(i);
    }
  }
  void clear() noexcept { words_.fill(0); }
  void insert(std::size_t i) noexcept { words_[i / 64] |= std::uint64_t{1} << (i % 64); }
  void erase(std::size_t i) noexcept { words_[i / 64] &= ~(std::uint64_t{1} << (i % 64)); }
  bool contains(std::size_t i) const noexcept { return (words_[i / 64] >> (i % 64) & 1U) != 0; }
  bool empty() const noexcept {
    return std::ranges::all_of(words_, [](std::uint64_t word) { return word == 0; });
  }
  // The smallest number. shape: not empty.
  std::size_t first() const noexcept {
    std::size_t i = 0;
    while (words_[i] == 0) {
      ++i;
    }
    return i * 64 + static_cast<std::size_t>(std::countr_zero(words_[i]));
  }
  std::size_t count() const noexcept {
    std::size_t sum = 0;
    for (const std::uint64_t word : words_) {
      sum += static_cast<std::size_t>(std::popcount(word));
    }
    return sum;
  }

 private:
  std::array<std::uint64_t, kMostBlocks / 64> words_{};
};

std::byte* map_memory(std::size_t size) {
  // Aligned to a huge page: one more is mapped, and what sticks out at both ends given back.
  const std::size_t more = size + kSlabSize;
  void* const place =
      ::mmap(nullptr, more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (place == MAP_FAILED) {
    throw std::bad_alloc();
  }
  auto* const bytes = static_cast<std::byte*>(place);
  const auto address = reinterpret_cast<std::uintptr_t>(bytes);
  const std::size_t head = round_up(address, kSlabSize) - address;
  if (head != 0) {
    ::munmap(bytes, head);
  }
  if (more - head - size != 0) {
    ::munmap(bytes + head + size, more - head - size);
  }
  ::madvise(bytes + head, size, MADV_HUGEPAGE);  // a kernel without them gives small pages
  return bytes + head;
}

}  // namespace

struct MemorySlab {
  std::byte* base = nullptr;
  unsigned size_class = 0;
  std::size_t taken = 0;
  BlockSet warm;  // free, with memory
  BlockSet cold;  // free, memory given back to the kernel
  MemorySlab* before = nullptr;
  MemorySlab* after = nullptr;
  bool listed = false;
};

namespace {

// Never destroyed: buffers may outlive static destruction.
class Slabs {
 public:
  MemoryBlock take(unsigned index) {
    SizeClass& sizes = classes_[index];
    const std::size_t size = std::size_t{1} << (index + kSmallestShift);
    const std::lock_guard lock(sizes.mutex);
    if (sizes.open == nullptr) {
      open(sizes, index);
    }
    MemorySlab& slab = *sizes.open;
    const bool warm = !slab.warm.empty();
    BlockSet& from = warm ? slab.warm : slab.cold;
    const std::size_t number = from.first();
    from.erase(number);
    ++slab.taken;
    if (slab.taken == kSlabSize / size) {
      unlist(sizes, slab);
    }
    live_ += size;
    if (warm) {
      idle_ -= size;
    }
    return {slab.base + number * size, size, &slab};
  }

  void give(const MemoryBlock& block) noexcept {
    MemorySlab& slab = *block.slab;
    SizeClass& sizes = classes_[slab.size_class];
    const auto number = static_cast<std::size_t>(block.data - slab.base) / block.capacity;
    live_ -= block.capacity;
    std::unique_ptr<MemorySlab> empty;
    {
      const std::lock_guard lock(sizes.mutex);
      ZUSE_CHECK(!slab.warm.contains(number) && !slab.cold.contains(number));
      if (idle_.load(std::memory_order_relaxed) + block.capacity > kIdleMemoryLimit &&
          ::madvise(block.data, block.capacity, MADV_DONTNEED) == 0) {
        slab.cold.insert(number);
      } else {
        slab.warm.insert(number);
        idle_ += block.capacity;
      }
      if (--slab.taken == 0) {
        unlist(sizes, slab);
        idle_ -= slab.warm.count() * block.capacity;
        empty.reset(&slab);
      } else if (!slab.listed) {
        list(sizes, slab);
      }
    }
    if (empty != nullptr) {
      retire(std::move(empty));
    }
  }

  MemoryBlock map(std::size_t size) {
    const std::size_t capacity = round_up(size, kSlabSize);
    std::byte* const data = map_memory(capacity);
    live_ += capacity;
    mapped_ += capacity;
    return {data, capacity, nullptr};
  }
  void unmap(const MemoryBlock& block) noexcept {
    ::munmap(block.data, block.capacity);
    live_ -= block.capacity;
    mapped_ -= block.capacity;
  }

  MemoryUsage usage() noexcept {
    std::uint64_t spare = 0;
    {
      const std::lock_guard lock(spare_mutex_);
      spare = spare_.size() * kSlabSize;
    }
    return {live_.load(), idle_.load(), spare, mapped_.load()};
  }

 private:
  struct SizeClass {
    std::mutex mutex;
    MemorySlab* open = nullptr;  // slabs with a free block, newest first
  };

  static void list(SizeClass& sizes, MemorySlab& slab) noexcept {
    slab.before = nullptr;
    slab.after = sizes.open;
    if (sizes.open != nullptr) {
      sizes.open->before = &slab;
    }
    sizes.open = &slab;
    slab.listed = true;
  }
  static void unlist(SizeClass& sizes, MemorySlab& slab) noexcept {
    if (!slab.listed) {
      return;
    }
    (slab.before != nullptr ? slab.before->after : sizes.open) = slab.after;
    if (slab.after != nullptr) {
      slab.after->before = slab.before;
    }
    slab.listed = false;
  }

  void open(SizeClass& sizes, unsigned index) {
    auto slab = std::make_unique<MemorySlab>();
    {
      const std::lock_guard lock(spare_mutex_);
      if (!spare_.empty()) {
        slab->base = spare_.back();
        spare_.pop_back();
      }
    }
    if (slab->base == nullptr) {
      slab->base = map_memory(kSlabSize);
      mapped_ += kSlabSize;
    }
    slab->size_class = index;
    slab->warm.fill(kSlabSize >> (index + kSmallestShift));
    idle_ += kSlabSize;
    list(sizes, *slab.release());
  }

  void retire(std::unique_ptr<MemorySlab> slab) noexcept {
    // A slab with holes has lost its huge page: a new one gets a whole one.
    if (slab->cold.empty()) {
      const std::lock_guard lock(spare_mutex_);
      if (spare_.size() < kIdleMemoryLimit / kSlabSize) {
        spare_.push_back(slab->base);
        return;
      }
    }
    ::munmap(slab->base, kSlabSize);
    mapped_ -= kSlabSize;
  }

  std::array<SizeClass, kClasses> classes_;
  std::mutex spare_mutex_;
  std::vector<std::byte*> spare_;
  std::atomic<std::uint64_t> live_{0}, idle_{0}, mapped_{0};
};

Slabs& slabs() {
  static Slabs* const all = new Slabs;
  return *all;
}

}  // namespace

// The address sanitizer sees only what is past the end of an allocation: each block is one then.
#if defined(__SANITIZE_ADDRESS__)
MemoryBlock take_memory(std::size_t size) {
  const std::size_t capacity = round_up(size, std::size_t{1} << kSmallestShift);
  auto* const data =
      static_cast<std::byte*>(std::aligned_alloc(std::size_t{1} << kSmallestShift, capacity));
  if (data == nullptr) {
    throw std::bad_alloc();
  }
  return {data, capacity, nullptr};
}

void give_memory(const MemoryBlock& block) noexcept {
  std::free(block.data);
}
#else
MemoryBlock take_memory(std::size_t size) {
  const unsigned index = class_of(size);
  return index < kClasses ? slabs().take(index) : slabs().map(size);
}

void give_memory(const MemoryBlock& block) noexcept {
  block.slab != nullptr ? slabs().give(block) : slabs().unmap(block);
}
#endif

MemoryUsage memory_usage() noexcept {
  return slabs().usage();
}

}  // namespace zuse
