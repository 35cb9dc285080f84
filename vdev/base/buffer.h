// Block buffers: page-aligned bytes that O_DIRECT and SIMD can use as they are. Freed buffers are
// kept in size classes and handed out again, so that the hot paths neither allocate nor fault
// pages.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

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

  std::byte* data() noexcept { return data_; }
  const std::byte* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  // The same memory, seen as fewer bytes. shape: size <= size().
  void shrink(std::size_t size) noexcept;

  std::span<std::byte> span() noexcept { return {data_, size_}; }
  std::span<const std::byte> span() const noexcept { return {data_, size_}; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;  // the size class that the memory belongs to
};

// A block that several readers hold at once; nobody changes it.
using SharedBuffer = std::shared_ptr<const Buffer>;

// Bytes that freed buffers hold at most for reuse.
inline constexpr std::size_t kBufferReuseLimit = std::size_t{64} * 1024 * 1024;

}  // namespace zuse
