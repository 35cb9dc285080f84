// Chunks of 64 KiB, shared until one holder writes.
#include "vdev/memory_device.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "vdev/base/units.h"

namespace zuse::vdev {

MemoryImage::MemoryImage(std::uint64_t size) : size_(size), chunks_(div_ceil(size, kChunk)) {}

void MemoryImage::read(std::uint64_t offset, std::span<std::byte> into) const {
  ZUSE_CHECK(into.size() <= size_ && offset <= size_ - into.size());
  while (!into.empty()) {
    const std::uint64_t within = offset % kChunk;
    const std::size_t count = std::min<std::uint64_t>(into.size(), kChunk - within);
    if (const auto& chunk = chunks_[offset / kChunk]) {
      std::memcpy(into.data(), chunk->data() + within, count);
    } else {
      std::memset(into.data(), 0, count);
    }
    into = into.subspan(count);
    offset += count;
  }
}

MemoryImage::Chunk& MemoryImage::writable(std::size_t index) {
  std::shared_ptr<Chunk>& chunk = chunks_[index];
  if (!chunk) {
    chunk = std::make_shared<Chunk>();  // zeros
  } else if (chunk.use_count() > 1) {
    chunk = std::make_shared<Chunk>(*chunk);
  }
  return *chunk;
}

void MemoryImage::write(std::uint64_t offset, std::span<const std::byte> from) {
  ZUSE_CHECK(from.size() <= size_ && offset <= size_ - from.size());
  while (!from.empty()) {
    const std::uint64_t within = offset % kChunk;
    const std::size_t count = std::min<std::uint64_t>(from.size(), kChunk - within);
    std::memcpy(writable(offset / kChunk).data() + within, from.data(), count);
    from = from.subspan(count);
    offset += count;
  }
}

void MemoryImage::discard(std::uint64_t offset, std::uint64_t length) {
  ZUSE_CHECK(length <= size_ && offset <= size_ - length);
  while (length > 0) {
    const std::uint64_t within = offset % kChunk;
    const std::uint64_t count = std::min(length, kChunk - within);
    const std::size_t index = offset / kChunk;
    if (count == kChunk) {
      chunks_[index].reset();
    } else if (chunks_[index]) {
      std::memset(writable(index).data() + within, 0, count);
    }
    offset += count;
    length -= count;
  }
}

bool MemoryImage::operator==(const MemoryImage& other) const {
  static constexpr Chunk kZeros{};
  if (size_ != other.size_) {
    return false;
  }
  for (std::size_t i = 0; i < chunks_.size(); ++i) {
    const Chunk& mine = chunks_[i] ? *chunks_[i] : kZeros;
    const Chunk& theirs = other.chunks_[i] ? *other.chunks_[i] : kZeros;
    if (&mine != &theirs && mine != theirs) {
      return false;
    }
  }
  return true;
}

MemoryDevice::MemoryDevice(MemoryImage image, std::string name, unsigned sector_shift,
                           bool read_only)
    : name_(std::move(name)),
      size_(image.size()),
      sector_shift_(sector_shift),
      read_only_(read_only),
      image_(std::move(image)) {}

void MemoryDevice::start(IoRequest& request, IoBatch& /*batch*/) {
  const std::uint64_t length = request.size();
  const bool writes = request.op == IoOp::write || request.op == IoOp::discard;
  if (length > size_ || request.offset > size_ - length || (writes && read_only_)) {
    request.finish(IoStatus::io_error);
    return;
  }
  {
    const LockGuard guard(mutex_);
    switch (request.op) {
      case IoOp::read: image_.read(request.offset, request.data); break;
      case IoOp::write: image_.write(request.offset, request.data); break;
      case IoOp::discard: image_.discard(request.offset, length); break;
      case IoOp::flush: break;
    }
  }
  request.finish(IoStatus::ok);
}

MemoryImage MemoryDevice::image() const {
  const LockGuard guard(mutex_);
  return image_;
}

void MemoryDevice::set_image(MemoryImage image) {
  ZUSE_CHECK(image.size() == size_);
  const LockGuard guard(mutex_);
  std::swap(image_, image);
}

}  // namespace zuse::vdev
