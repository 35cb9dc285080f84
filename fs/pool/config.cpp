#include "fs/pool/config.h"

#include <algorithm>
#include <array>
#include <set>

#include "fs/format/uberblock.h"

namespace zuse::pool {
namespace {

using codec::NvList;
using vdev::VdevConfig;
using vdev::VdevType;

constexpr unsigned kDepthMax = 6;
constexpr std::uint64_t kChildrenMax = 4096;
constexpr std::uint64_t kMissingParityVersion = 3;  // older pools: raidz means one parity

constexpr std::pair<VdevType, std::string_view> kTypes[] = {
    {VdevType::root, "root"},     {VdevType::file, "file"},   {VdevType::disk, "disk"},
    {VdevType::mirror, "mirror"}, {VdevType::raidz, "raidz"}, {VdevType::replacing, "replacing"},
    {VdevType::spare, "spare"},   {VdevType::hole, "hole"},   {VdevType::missing, "missing"},
};

std::string_view type_name(VdevType type) {
  for (const auto& [known, name] : kTypes) {
    if (known == type) {
      return name;
    }
  }
  return "missing";
}

// Keys that VdevConfig holds, and which are therefore written from it.
const std::set<std::string_view>& vdev_keys() {
  static const std::set<std::string_view> keys = {
      "type",     "id",          "guid",           "create_txg",
      "children", "nparity",     "metaslab_array", "metaslab_shift",
      "ashift",   "asize",       "is_log",         "path",
      "DTL",      "offline",     "faulted",        "degraded",
      "removed",  "not_present", "resilver_txg",   "aux_state",
      "is_hole"};
  return keys;
}
const std::set<std::string_view>& pool_keys() {
  static const std::set<std::string_view> keys = {
      "version",  "name",    "state",         "txg",           "pool_guid",         "hostid",
      "hostname", "comment", "compatibility", "vdev_children", "features_for_read", "vdev_tree",
      "top_guid", "guid",    "is_log",        "hole_array",    "is_spare"};
  return keys;
}

NvList others_of(const NvList& list, const std::set<std::string_view>& known) {
  NvList others;
  for (const codec::NvPair& pair : list.pairs()) {
    if (!known.contains(pair.name)) {
      others.pairs().push_back(pair);
    }
  }
  return others;
}

void append(NvList& list, const NvList& others) {
  for (const codec::NvPair& pair : others.pairs()) {
    list.pairs().push_back(pair);
  }
}

Result<VdevConfig> decode_vdev(const NvList& list, PoolConfig& pool, unsigned depth) {
  if (depth > kDepthMax) {
    return fail(Errc::corrupt, "the vdev tree is nested too deep");
  }
  VdevConfig config;
  ZUSE_TRY(const std::string type, list.string("type"));
  const auto known = std::ranges::find(kTypes, type, [](const auto& pair) { return pair.second; });
  if (known == std::end(kTypes)) {
    return fail(Errc::unsupported, "vdevs of type " + type + " are not supported");
  }
  config.type = known->first;
  ZUSE_TRY(config.id, list.u64("id"));
  ZUSE_TRY(config.guid, list.u64("guid"));
  config.create_txg = list.u64_or("create_txg", 0);
  const auto narrow = [&](std::string_view name, std::uint64_t limit) -> Result<unsigned> {
    const std::uint64_t value = list.u64_or(name, 0);
    if (value > limit) {
      return fail(Errc::corrupt, "'" + std::string(name) + "' is " + std::to_string(value));
    }
    return static_cast<unsigned>(value);
  };
  if (config.type == VdevType::raidz) {
    if (!list.has("nparity") && pool.version >= kMissingParityVersion) {
      return fail(Errc::corrupt, "a raidz vdev does not say its parity");
    }
    ZUSE_TRY(config.parity, narrow("nparity", 3));
    config.parity = std::max(config.parity, 1U);
  }
  for (const std::string_view key :
       {"raidz_expand_txgs", "raidz_expanding", "com.delphix:indirect_object"}) {
    if (list.has(key)) {
      return fail(Errc::unsupported,
                  "a vdev has '" + std::string(key) + "', which is not supported");
    }
  }
  for (const std::string_view key : {"non_allocating", "removing"}) {
    if (list.u64_or(key, 0) != 0) {
      pool.read_only_because = "a vdev is being removed";
    }
  }
  config.metaslab_array = list.u64_or("metaslab_array", 0);
  ZUSE_TRY(config.metaslab_shift, narrow("metaslab_shift", 63));
  ZUSE_TRY(config.ashift, narrow("ashift", 16));
  config.asize = list.u64_or("asize", 0);
  config.is_log = list.u64_or("is_log", 0) != 0;
  config.path = list.string_or("path", "");
  config.dtl_object = list.u64_or("DTL", 0);
  config.offline = list.u64_or("offline", 0) != 0;
  config.faulted = list.u64_or("faulted", 0) != 0;
  config.degraded = list.u64_or("degraded", 0) != 0;
  config.removed = list.u64_or("removed", 0) != 0;
  config.not_present = list.u64_or("not_present", 0) != 0;
  config.resilver_txg = list.u64_or("resilver_txg", 0);
  const auto children = list.lists("children");
  if (children) {
    if (children->size() > kChildrenMax) {
      return fail(Errc::corrupt, "a vdev claims " + std::to_string(children->size()) + " children");
    }
    for (const NvList& below : *children) {
      ZUSE_TRY(VdevConfig child, decode_vdev(below, pool, depth + 1));
      config.children.push_back(std::move(child));
    }
  } else if (children.error().code() != Errc::not_found) {
    return std::unexpected(children.error());
  }
  NvList others = others_of(list, vdev_keys());
  if (!others.empty()) {
    pool.vdev_others[config.guid] = std::move(others);
  }
  return config;
}

// Keys that only the MOS configuration has.
bool mos_only(std::string_view key) {
  return key.starts_with("com.delphix:vdev_zap") || key.starts_with("com.klarasystems:vdev_zap") ||
         key == "com.datto:resilver_defer";
}

NvList encode_vdev(const VdevConfig& config, const PoolConfig& pool, bool top, bool mos) {
  NvList list;
  list.set_string("type", std::string(type_name(config.type)));
  list.set_u64("id", config.id);
  list.set_u64("guid", config.guid);
  if (!config.path.empty()) {
    list.set_string("path", config.path);
  }
  if (config.type == VdevType::raidz) {
    list.set_u64("nparity", config.parity);
  }
  if (config.type == VdevType::hole) {
    list.set_u64("is_hole", 1);
  }
  if (top) {
    list.set_u64("metaslab_array", config.metaslab_array);
    list.set_u64("metaslab_shift", config.metaslab_shift);
    list.set_u64("ashift", config.ashift);
    list.set_u64("asize", config.asize);
    list.set_u64("is_log", config.is_log ? 1 : 0);
  }
  if (config.create_txg != 0) {
    list.set_u64("create_txg", config.create_txg);
  }
  if (config.dtl_object != 0) {
    list.set_u64("DTL", config.dtl_object);
  }
  const std::pair<const char*, bool> flags[] = {{"offline", config.offline},
                                                {"faulted", config.faulted},
                                                {"degraded", config.degraded},
                                                {"removed", config.removed},
                                                {"not_present", config.not_present}};
  for (const auto& [name, set] : flags) {
    if (set) {
      list.set_u64(name, 1);
    }
  }
  if (config.resilver_txg != 0) {
    list.set_u64("resilver_txg", config.resilver_txg);
  }
  if (const auto others = pool.vdev_others.find(config.guid); others != pool.vdev_others.end()) {
    for (const codec::NvPair& pair : others->second.pairs()) {
      if (mos || !mos_only(pair.name)) {
        list.pairs().push_back(pair);
      }
    }
  }
  if (!config.children.empty()) {
    std::vector<NvList> children;
    for (const VdevConfig& child : config.children) {
      children.push_back(encode_vdev(child, pool, config.type == VdevType::root, mos));
    }
    list.set_lists("children", std::move(children));
  }
  return list;
}

Result<PoolConfig> decode_pool(const NvList& list) {
  PoolConfig pool;
  ZUSE_TRY(pool.version, list.u64("version"));
  if (!format::is_pool_version(pool.version)) {
    return fail(Errc::unsupported,
                "pool version " + std::to_string(pool.version) + " is not supported");
  }
  ZUSE_TRY(pool.name, list.string("name"));
  ZUSE_TRY(const std::uint64_t state, list.u64("state"));
  if (state > static_cast<std::uint64_t>(PoolState::destroyed)) {
    return fail(Errc::unsupported,
                "a label in state " + std::to_string(state) + " is not of a pool's device");
  }
  pool.state = static_cast<PoolState>(state);
  ZUSE_TRY(pool.txg, list.u64("txg"));
  ZUSE_TRY(pool.pool_guid, list.u64("pool_guid"));
  pool.hostid = list.u64_or("hostid", 0);
  pool.hostname = list.string_or("hostname", "");
  pool.comment = list.string_or("comment", "");
  pool.compatibility = list.string_or("compatibility", "");
  pool.vdev_children = list.u64_or("vdev_children", 1);
  if (pool.vdev_children == 0 || pool.vdev_children > kChildrenMax) {
    return fail(Errc::corrupt,
                "a pool with " + std::to_string(pool.vdev_children) + " top-level vdevs");
  }
  if (const auto features = list.list("features_for_read")) {
    for (const codec::NvPair& pair : (*features)->pairs()) {
      pool.features_for_read.push_back(pair.name);
    }
  }
  pool.others = others_of(list, pool_keys());
  if (pool.version != format::kPoolVersionFeatures) {
    // Pools without features have the list all the same where newer software wrote them.
    if (const codec::NvPair* const features = list.find("features_for_read")) {
      pool.others.pairs().push_back(*features);
    }
  }
  return pool;
}

void encode_pool(const PoolConfig& pool, NvList& list) {
  list.set_u64("version", pool.version);
  list.set_string("name", pool.name);
  list.set_u64("state", static_cast<std::uint64_t>(pool.state));
  list.set_u64("txg", pool.txg);
  list.set_u64("pool_guid", pool.pool_guid);
  if (!pool.comment.empty()) {
    list.set_string("comment", pool.comment);
  }
  if (!pool.compatibility.empty()) {
    list.set_string("compatibility", pool.compatibility);
  }
  if (pool.hostid != 0) {
    list.set_u64("hostid", pool.hostid);
  }
  if (!pool.hostname.empty()) {
    list.set_string("hostname", pool.hostname);
  }
  list.set_u64("vdev_children", pool.vdev_children);
}

void encode_features(const PoolConfig& pool, NvList& list) {
  if (pool.version == format::kPoolVersionFeatures) {
    NvList features;
    for (const std::string& guid : pool.features_for_read) {
      features.set_boolean(guid);
    }
    list.set_list("features_for_read", std::move(features));
  }
}

}  // namespace

Result<LabelConfig> decode_label_config(const NvList& list) {
  LabelConfig label;
  ZUSE_TRY(label.pool, decode_pool(list));
  ZUSE_TRY(label.guid, list.u64("guid"));
  ZUSE_TRY(label.top_guid, list.u64("top_guid"));
  if (const auto holes = list.u64s("hole_array")) {
    label.holes.assign(holes->begin(), holes->end());
  }
  ZUSE_TRY(const NvList* const tree, list.list("vdev_tree"));
  ZUSE_TRY(VdevConfig top, decode_vdev(*tree, label.pool, 1));
  if (top.id >= label.pool.vdev_children) {
    return fail(Errc::corrupt, "a top-level vdev with id " + std::to_string(top.id) + " of " +
                                   std::to_string(label.pool.vdev_children));
  }
  if (top.guid != label.top_guid) {
    return fail(Errc::corrupt, "a label names another top-level vdev than it holds");
  }
  label.pool.root.type = VdevType::root;
  label.pool.root.guid = label.pool.pool_guid;
  label.pool.root.children.push_back(std::move(top));
  return label;
}

Result<PoolConfig> decode_mos_config(const NvList& list) {
  ZUSE_TRY(PoolConfig pool, decode_pool(list));
  ZUSE_TRY(const NvList* const tree, list.list("vdev_tree"));
  ZUSE_TRY(pool.root, decode_vdev(*tree, pool, 0));
  if (pool.root.type != VdevType::root || pool.root.children.empty()) {
    return fail(Errc::corrupt, "the configuration has no root vdev");
  }
  for (std::size_t i = 0; i < pool.root.children.size(); ++i) {
    if (pool.root.children[i].id != i) {
      return fail(Errc::corrupt, "top-level vdev " + std::to_string(i) +
                                     " says that it is number " +
                                     std::to_string(pool.root.children[i].id));
    }
  }
  pool.vdev_children = pool.root.children.size();
  return pool;
}

NvList encode_label_config(const PoolConfig& config, std::size_t top_index,
                           std::uint64_t leaf_guid) {
  ZUSE_CHECK(top_index < config.root.children.size());
  const VdevConfig& top = config.root.children[top_index];
  NvList list;
  encode_pool(config, list);
  list.set_u64("top_guid", top.guid);
  list.set_u64("guid", leaf_guid);
  if (top.is_log) {
    list.set_u64("is_log", 1);
  }
  std::vector<std::uint64_t> holes;
  for (const VdevConfig& child : config.root.children) {
    if (child.type == VdevType::hole) {
      holes.push_back(child.id);
    }
  }
  if (!holes.empty()) {
    list.set_u64s("hole_array", std::move(holes));
  }
  for (const codec::NvPair& pair : config.others.pairs()) {
    if (pair.name != "com.delphix:has_per_vdev_zaps") {
      list.pairs().push_back(pair);
    }
  }
  list.set_list("vdev_tree", encode_vdev(top, config, true, false));
  encode_features(config, list);
  return list;
}

NvList encode_mos_config(const PoolConfig& config) {
  NvList list;
  encode_pool(config, list);
  append(list, config.others);
  list.set_list("vdev_tree", encode_vdev(config.root, config, false, true));
  encode_features(config, list);
  return list;
}

std::uint64_t guid_sum(const VdevConfig& tree) noexcept {
  std::uint64_t sum = tree.guid;
  for (const VdevConfig& child : tree.children) {
    sum += guid_sum(child);
  }
  return sum;
}

bool is_leaf(VdevType type) noexcept {
  return type == VdevType::file || type == VdevType::disk;
}

std::vector<const VdevConfig*> leaves_of(const VdevConfig& tree) {
  std::vector<const VdevConfig*> leaves;
  if (is_leaf(tree.type)) {
    leaves.push_back(&tree);
  }
  for (const VdevConfig& child : tree.children) {
    const auto below = leaves_of(child);
    leaves.insert(leaves.end(), below.begin(), below.end());
  }
  return leaves;
}

std::size_t top_of_leaf(const VdevConfig& root, std::uint64_t leaf_guid) noexcept {
  for (std::size_t i = 0; i < root.children.size(); ++i) {
    for (const VdevConfig* const leaf : leaves_of(root.children[i])) {
      if (leaf->guid == leaf_guid) {
        return i;
      }
    }
  }
  return root.children.size();
}

}  // namespace zuse::pool
