// Where block buffers live: blocks of 2^n bytes, cut from slabs of 2 MiB that the kernel is asked
// to back with huge pages. A device takes one contiguous run of memory several times faster than as
// many bytes in scattered pages, and pinning it costs one step instead of one a page.
#pragma once

#include <cstddef>
#include <cstdint>

namespace zuse {

struct MemorySlab;

struct MemoryBlock {
  std::byte* data = nullptr;
  std::size_t capacity = 0;    // bytes; >= what was asked for
  MemorySlab* slab = nullptr;  // null: a mapping of its own
};

struct MemoryUsage {
  std::uint64_t live = 0;    // bytes in blocks that are taken
  std::uint64_t idle = 0;    // bytes in free blocks of slabs in use that hold memory
  std::uint64_t spare = 0;   // bytes in slabs that nobody uses, kept for the next
  std::uint64_t mapped = 0;  // address space of all slabs and mappings
};

// Free blocks and spare slabs hold at most this many bytes each; what is freed beyond goes back to
// the kernel at once.
inline constexpr std::uint64_t kIdleMemoryLimit = std::uint64_t{32} * 1024 * 1024;

// A block of at least `size` bytes, aligned to 4096, contents undefined. Thread-safe. Throws
// std::bad_alloc where the kernel has no memory. shape: size > 0.
MemoryBlock take_memory(std::size_t size);
void give_memory(const MemoryBlock& block) noexcept;
MemoryUsage memory_usage() noexcept;

}  // namespace zuse
