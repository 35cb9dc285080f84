// A device in memory, for tests and simulations: MemoryImage, bytes that are cheap to copy, and
// MemoryDevice, a device over one.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "vdev/base/sync.h"
#include "vdev/block_device.h"

namespace zuse::vdev {

// The content of a device. Copies share what neither has changed since, and what was never written
// takes no memory, so keeping a hundred states of a large device is cheap. Not thread-safe.
class MemoryImage {
 public:
  explicit MemoryImage(std::uint64_t size);

  std::uint64_t size() const noexcept { return size_; }
  // shape: the range lies inside size().
  void read(std::uint64_t offset, std::span<std::byte> into) const;
  void write(std::uint64_t offset, std::span<const std::byte> from);
  // The range reads as zeros from here on.
  void discard(std::uint64_t offset, std::uint64_t length);
  // Same size, same bytes.
  bool operator==(const MemoryImage& other) const;

 private:
  static constexpr std::uint64_t kChunk = 64 * 1024;
  using Chunk = std::array<std::byte, kChunk>;
  Chunk& writable(std::size_t index);

  std::uint64_t size_;
  std::vector<std::shared_ptr<Chunk>> chunks_;  // null: zeros
};

// Thread-safe. Requests end as they start.
class MemoryDevice final : public BlockDevice {
 public:
  // A device of zeros. units: bytes.
  explicit MemoryDevice(std::uint64_t size, std::string name = "memory", unsigned sector_shift = 9)
      : MemoryDevice(MemoryImage(size), std::move(name), sector_shift) {}
  explicit MemoryDevice(MemoryImage image, std::string name = "memory", unsigned sector_shift = 9,
                        bool read_only = false);

  const std::string& name() const override { return name_; }
  std::uint64_t size() const override { return size_; }
  unsigned sector_shift() const override { return sector_shift_; }
  bool read_only() const override { return read_only_; }
  void start(IoRequest& request, IoBatch& batch) override;

  // What it holds now; later writes do not show in the copy.
  MemoryImage image() const;
  // Replaces all it holds. shape: the size stays.
  void set_image(MemoryImage image);

 private:
  const std::string name_;
  const std::uint64_t size_;
  const unsigned sector_shift_;
  const bool read_only_;
  mutable Mutex mutex_{LockRank::device};
  MemoryImage image_ ZUSE_GUARDED_BY(mutex_);
};

}  // namespace zuse::vdev
