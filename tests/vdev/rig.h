// A vdev tree over devices in memory that fail when told to, and blocks whose bytes are known.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "vdev/memory_device.h"
#include "vdev/tree.h"

namespace zuse::vdev::test {

// Passes requests on, or fails them. Thread-safe.
class FlakyDevice final : public BlockDevice {
 public:
  explicit FlakyDevice(std::unique_ptr<MemoryDevice> inner) : inner_(std::move(inner)) {}

  const std::string& name() const override { return inner_->name(); }
  std::uint64_t size() const override { return inner_->size(); }
  unsigned sector_shift() const override { return inner_->sector_shift(); }
  bool read_only() const override { return false; }
  void start(IoRequest& request, IoBatch& batch) override;

  MemoryDevice& memory() noexcept { return *inner_; }

  std::atomic<bool> fails_reads{false}, fails_writes{false}, fails_flushes{false}, is_gone{false};
  std::atomic<unsigned> reads{0}, writes{0}, flushes{0};

 private:
  const std::unique_ptr<MemoryDevice> inner_;
};

struct Shape {
  VdevType type = VdevType::raidz;
  unsigned children = 1;
  unsigned parity = 0;
  unsigned ashift = 9;
};

inline constexpr std::uint64_t kLeafSize = std::uint64_t{64} << 20;
constexpr std::uint64_t leaf_guid(std::size_t leaf) {
  return 100 + leaf;
}

// The configuration of one top-level vdev. Leaves get guids from `first_leaf` on.
VdevConfig top_config(const Shape& shape, std::uint64_t id = 0, std::size_t first_leaf = 0);
VdevConfig root_config(std::vector<VdevConfig> tops);
VdevConfig leaf_config(std::size_t leaf);

class Rig {
 public:
  explicit Rig(const Shape& shape) : Rig(root_config({top_config(shape)})) {}
  explicit Rig(VdevConfig root, bool read_only = false);

  VdevTree& operator*() { return *tree_; }
  VdevTree* operator->() { return tree_.get(); }
  FlakyDevice& leaf(std::size_t i) { return *leaves_.at(i); }
  std::size_t leaf_count() const { return leaves_.size(); }
  // Changes every 64th of `size` bytes at `offset` of a leaf's allocatable area.
  void corrupt(std::size_t leaf, std::uint64_t offset, std::uint64_t size);
  std::vector<MemoryImage> images();
  VdevStatus leaf_status(std::size_t leaf);
  Dtl dtl(std::size_t leaf);
  // A tree over the same bytes, opened anew.
  void reopen();
  VdevTree::LeafOpener opener();

 private:
  VdevConfig root_;
  bool read_only_;
  std::vector<MemoryImage> images_;
  std::vector<FlakyDevice*> leaves_;
  std::unique_ptr<VdevTree> tree_;
};

// A block with random bytes and a checksum.
struct Block {
  std::uint64_t offset = 0;
  std::vector<std::byte> bytes;
  std::uint64_t txg = 10;
  std::uint32_t top = 0;

  Block(std::uint64_t at, std::size_t size, std::mt19937_64& rng, std::uint64_t born = 10);
  Verifier verifier() const;
};

Result<void> write(VdevTree& tree, const Block& block);
struct Outcome {
  Result<void> result;
  bool right = false;  // the bytes are those of the block
  std::uint64_t bytes_repaired = 0, errors_seen = 0;
};
Outcome read(VdevTree& tree, const Block& block, ReadMode mode = ReadMode::normal,
             bool repair = true);

}  // namespace zuse::vdev::test
