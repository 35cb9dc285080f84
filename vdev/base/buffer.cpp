#include "vdev/base/buffer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "vdev/base/result.h"

namespace zuse {
namespace {

constexpr std::size_t kAlignment = 4096;
constexpr unsigned kSmallestClass = 12;  // 4 KiB
constexpr unsigned kClasses = 13;        // up to 16 MiB

// Freed buffers by size class. Never destroyed: buffers may outlive static destruction.
class FreeLists {
 public:
  std::byte* take(unsigned index) noexcept {
    List& list = lists_[index];
    const std::lock_guard lock(list.mutex);
    if (list.free.empty()) {
      return nullptr;
    }
    std::byte* const data = list.free.back();
    list.free.pop_back();
    return data;
  }
  bool give(unsigned index, std::byte* data) noexcept {
    List& list = lists_[index];
    const std::size_t limit = kBufferReuseLimit / kClasses >> (index + kSmallestClass);
    const std::lock_guard lock(list.mutex);
    if (list.free.size() >= std::max<std::size_t>(limit, 4)) {
      return false;
    }
    list.free.push_back(data);
    return true;
  }

 private:
  struct List {
    std::mutex mutex;
    std::vector<std::byte*> free;
  };
  std::array<List, kClasses> lists_;
};

FreeLists& free_lists() {
  static FreeLists* const lists = new FreeLists;
  return *lists;
}

// Classes are powers of two; a size between two of them up to 3/4 would waste half, so large odd
// sizes beyond the last class are allocated exactly.
unsigned class_of(std::size_t size) noexcept {
  const auto width = static_cast<unsigned>(std::bit_width(std::max(size, kAlignment) - 1));
  return width - kSmallestClass;
}

}  // namespace

Buffer::Buffer(std::size_t size) : size_(size) {
  if (size == 0) {
    return;
  }
  const unsigned index = class_of(size);
  const bool pooled = index < kClasses;
  capacity_ = pooled ? std::size_t{1} << (index + kSmallestClass)
                     : (size + kAlignment - 1) / kAlignment * kAlignment;
  if (pooled) {
    data_ = free_lists().take(index);
  }
  if (data_ == nullptr) {
    data_ = static_cast<std::byte*>(std::aligned_alloc(kAlignment, capacity_));
    if (data_ == nullptr) {
      throw std::bad_alloc();
    }
  }
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      capacity_(std::exchange(other.capacity_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    Buffer old(std::move(*this));
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
    capacity_ = std::exchange(other.capacity_, 0);
  }
  return *this;
}

Buffer::~Buffer() {
  if (data_ == nullptr) {
    return;
  }
  const unsigned index = class_of(capacity_);
  if (index >= kClasses || !free_lists().give(index, data_)) {
    std::free(data_);
  }
}

Buffer Buffer::zeroed(std::size_t size) {
  Buffer buffer(size);
  if (size != 0) {
    std::memset(buffer.data(), 0, size);
  }
  return buffer;
}

Buffer Buffer::copy_of(std::span<const std::byte> bytes) {
  Buffer buffer(bytes.size());
  if (!bytes.empty()) {
    std::memcpy(buffer.data(), bytes.data(), bytes.size());
  }
  return buffer;
}

void Buffer::shrink(std::size_t size) noexcept {
  ZUSE_CHECK(size <= size_);
  size_ = size;
}

}  // namespace zuse
