// Block buffers: page-aligned bytes that O_DIRECT and SIMD can use as they are. Their memory is
// block_memory's, which keeps what is freed for the next, so that the hot paths neither allocate
// nor fault pages.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "vdev/base/block_memory.h"

namespace zuse {

// Owns `size` bytes aligned to 4096; their content is undefined until written. Movable. Thread-safe
// in that different buffers may be made and dropped on any thread.
class Buffer {
 public:
  Buffer() noexcept = default;
  explicit Buffer(std::size_t size);
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  static Buffer zeroed(std::size_t size);
  static Buffer copy_of(std::span<const std::byte> bytes);

  std::byte* data() noexcept { return memory_.data; }
  const std::byte* data() const noexcept { return memory_.data; }
  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  // The same memory, seen as fewer bytes. shape: size <= size().
  void shrink(std::size_t size) noexcept;

  std::span<std::byte> span() noexcept { return {memory_.data, size_}; }
  std::span<const std::byte> span() const noexcept { return {memory_.data, size_}; }

 private:
  MemoryBlock memory_;
  std::size_t size_ = 0;
};

// A block that several readers hold at once; nobody changes it.
using SharedBuffer = std::shared_ptr<const Buffer>;

}  // namespace zuse
