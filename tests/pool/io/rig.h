// A pool of memory devices for tests: storage with empty space maps, and a small writer of object
// sets, so that traversal, scan and check have something to walk.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <vector>

#include "fs/format/dnode_phys.h"
#include "fs/format/objset_phys.h"
#include "fs/pool/storage.h"
#include "vdev/memory_device.h"

namespace zuse::pool {

// A top-level vdev of `leaves` memory devices.
struct TopSpec {
  vdev::VdevType type = vdev::VdevType::file;
  unsigned leaves = 1;
  unsigned parity = 0;
  unsigned ashift = 9;
};

// One leaf of 512-byte sectors.
inline const std::vector<TopSpec> kPlain{TopSpec{}};

class Rig {
 public:
  Rig(const Rig&) = delete;
  Rig& operator=(const Rig&) = delete;
  explicit Rig(const std::vector<TopSpec>& tops, std::uint64_t arc_max = 32 * kMiB);

  Storage& storage() { return *storage_; }
  IoPipeline& pipeline() { return storage_->pipeline(); }
  const vdev::VdevConfig& config() const { return config_; }
  vdev::MemoryDevice& leaf(unsigned top, unsigned leaf) { return *devices_.at({top, leaf}); }

  // Writes one block; the pointer. Fails the test if that fails.
  format::Blkptr write(std::span<const std::byte> data, WriteProperties properties,
                       std::uint64_t txg = 4, const Bookmark& bookmark = {},
                       const format::Blkptr& before = {});
  // Turns every byte of a leaf's allocatable area into something else.
  void scribble(unsigned top, unsigned leaf, std::uint64_t seed = 1);
  // Sum over all leaves.
  vdev::VdevStats stats();

 private:
  vdev::VdevConfig config_;
  std::map<std::pair<unsigned, unsigned>, vdev::MemoryDevice*> devices_;
  std::unique_ptr<Storage> storage_;
};

// Bytes of a kind that compresses: half noise, half runs.
std::vector<std::byte> some_data(std::mt19937_64& rng, std::size_t size);

// One block that a tree contains, as traversal should find it.
struct PlacedBlock {
  Bookmark bookmark;
  format::Blkptr blkptr;
};

// An object set with random objects: files of many sizes and depths, with holes, spill blocks,
// large dnodes, embedded blocks.
struct BuiltObjset {
  format::Blkptr root;
  std::vector<PlacedBlock> blocks;  // in the order of traverse.h
  std::uint64_t objects = 0;
};
BuiltObjset build_objset(Rig& rig, std::mt19937_64& rng, std::uint64_t objset, std::uint64_t txg);

}  // namespace zuse::pool
