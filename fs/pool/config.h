// PoolConfig: what a pool says about itself, in the label of each leaf (the pool's facts and the
// one top-level vdev that the leaf belongs to) and in the MOS (the facts and the whole tree). Keys
// that we do not interpret are kept, by the vdev's guid, and written back: some name MOS objects
// (the per-vdev ZAPs) that would leak otherwise. source: format page 01 sections 3 to 5.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "fs/codec/nvlist.h"
#include "vdev/base/result.h"
#include "vdev/tree.h"

namespace zuse::pool {

enum class PoolState : std::uint64_t {
  active = 0,
  exported = 1,
  destroyed = 2,
  spare = 3,
  l2cache = 4
};

struct PoolConfig {
  std::uint64_t version = 0;
  std::string name;
  PoolState state = PoolState::active;
  std::uint64_t txg = 0;
  std::uint64_t pool_guid = 0;
  std::uint64_t hostid = 0;  // 0: none
  std::string hostname;
  std::string comment, compatibility;
  std::uint64_t vdev_children = 0;             // top-level slots, holes included
  std::vector<std::string> features_for_read;  // guids, version 5000 only

  // The tree: type root, guid = pool_guid. From one label it has the leaf's top-level vdev only.
  vdev::VdevConfig root;

  codec::NvList others;                                // of the pool
  std::map<std::uint64_t, codec::NvList> vdev_others;  // by vdev guid; the root's under pool_guid
  // Why this pool must not be written, though it can be read; empty: it may be.
  std::string read_only_because;
};

// A label's list: the pool's facts, and who the leaf is.
struct LabelConfig {
  PoolConfig pool;                   // root has one child, with its id as recorded
  std::uint64_t guid = 0;            // of the leaf
  std::uint64_t top_guid = 0;        // of its top-level vdev
  std::vector<std::uint64_t> holes;  // top-level ids that are holes
};

// errors: corrupt (a key missing or of the wrong type; named), unsupported (a version or vdev type
// that we lack; named). Labels of unused spares and cache devices are unsupported: not pools.
Result<LabelConfig> decode_label_config(const codec::NvList& list);
Result<PoolConfig> decode_mos_config(const codec::NvList& list);

// The list for the label of one leaf. shape: the leaf is below root.children[top_index].
codec::NvList encode_label_config(const PoolConfig& config, std::size_t top_index,
                                  std::uint64_t leaf_guid);
codec::NvList encode_mos_config(const PoolConfig& config);

// Sum of the guids of a tree, modulo 2^64: what an uberblock's guid_sum is to equal.
std::uint64_t guid_sum(const vdev::VdevConfig& tree) noexcept;
// The leaves below a vdev (itself, if it is one), in tree order; holes and missing ones left out.
std::vector<const vdev::VdevConfig*> leaves_of(const vdev::VdevConfig& tree);
bool is_leaf(vdev::VdevType type) noexcept;
// The index in root.children of the top-level vdev that a leaf lies below; nullptr-like: size().
std::size_t top_of_leaf(const vdev::VdevConfig& root, std::uint64_t leaf_guid) noexcept;

}  // namespace zuse::pool
