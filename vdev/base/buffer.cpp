#include "vdev/base/buffer.h"

#include <cstring>
#include <utility>

#include "vdev/base/result.h"

namespace zuse {

Buffer::Buffer(std::size_t size) : size_(size) {
  if (size != 0) {
    memory_ = take_memory(size);
  }
}

Buffer::Buffer(Buffer&& other) noexcept
    : memory_(std::exchange(other.memory_, {})), size_(std::exchange(other.size_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    Buffer old(std::move(*this));
    memory_ = std::exchange(other.memory_, {});
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

Buffer::~Buffer() {
  if (memory_.data != nullptr) {
    give_memory(memory_);
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
