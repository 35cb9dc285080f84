#include "fs/pool/import.h"

#include <boost/filesystem.hpp>

#include <algorithm>
#include <fstream>
#include <set>

#include "fs/format/feature.h"
#include "fs/pool/label.h"
#include "vdev/base/log.h"

namespace zuse::pool {
namespace {

namespace fs = boost::filesystem;

spdlog::logger& log() {
  static auto& logger = layer_log("pool");
  return logger;
}

// One device with a label.
struct Image {
  std::string path;
  std::unique_ptr<vdev::BlockDevice> device;
  LabelSet labels;
  LabelConfig label;  // decoded: the newest, then the one that goes with the pool's uberblock
  std::string note;
};

// A label that verifies, of a pool that we cannot take apart.
struct Refused {
  std::string name;
  std::uint64_t pool_guid = 0;
  std::string why;
};

bool is_candidate(const fs::path& path) {
  boost::system::error_code error;
  const fs::file_status status = fs::status(path, error);
  return !error && (status.type() == fs::regular_file || status.type() == fs::block_file);
}

struct Place {
  std::string path;
  bool named = false;  // by the caller; else found in a directory
};

// The files to look at, each once: a directory of links may show one device under many names.
Result<std::vector<Place>> files_of(std::span<const std::string> places) {
  std::vector<Place> files;
  std::set<std::string> seen;
  const auto add = [&](std::string path, bool named) {
    boost::system::error_code error;
    const fs::path real = fs::canonical(path, error);
    if (seen.insert(error ? path : real.string()).second) {
      files.push_back({std::move(path), named});
    }
  };
  for (const std::string& place : places) {
    boost::system::error_code error;
    const fs::file_status status = fs::status(place, error);
    if (status.type() != fs::directory_file) {
      add(place, true);  // the opener knows what it is, or says that it is not there
      continue;
    }
    std::vector<std::string> found;
    for (fs::directory_iterator it(place, error), end; !error && it != end; it.increment(error)) {
      if (is_candidate(it->path())) {
        found.push_back(it->path().lexically_normal().string());
      }
    }
    if (error) {
      return fail(Errc::access, "cannot read directory " + place + ": " + error.message());
    }
    std::ranges::sort(found);
    for (std::string& path : found) {
      add(std::move(path), false);
    }
  }
  return files;
}

// `refused` is filled where the labels verify and yet say what we do not support.
Result<Image> read_image(const std::string& path, const DeviceOpener& open,
                         std::optional<Refused>& refused) {
  Image image;
  image.path = path;
  ZUSE_TRY(image.device, open(path, true));
  if (image.device->size() < kLeafSizeMin) {
    return fail(Errc::corrupt, path + " is too small to be part of a pool");
  }
  ZUSE_TRY(image.labels, read_labels(*image.device));
  const codec::NvList& list = image.labels.config();
  auto decoded = decode_label_config(list);
  if (!decoded) {
    Error why = std::move(decoded).error().within(path);
    if (const auto guid = list.u64("pool_guid"); guid && why.code() == Errc::unsupported) {
      refused = Refused{list.string_or("name", ""), *guid, why.what()};
    }
    return std::unexpected(std::move(why));
  }
  image.label = *std::move(decoded);
  if (image.label.pool.txg == 0) {
    return fail(Errc::corrupt, path + " was never completely added to a pool");
  }
  const auto damaged = std::ranges::count_if(image.labels.bad, &std::optional<Error>::has_value);
  if (damaged != 0) {
    image.note = path + ": " + std::to_string(damaged) + " of 4 labels are damaged";
  }
  return image;
}

// The configuration that goes with an uberblock is the newest that is not newer than it: a power
// cut between the two leaves labels of a transaction group that never was.
void use_labels_of(std::vector<Image>& images, std::uint64_t txg) {
  for (Image& image : images) {
    const codec::NvList* const list = image.labels.config_at(txg);
    if (list == nullptr) {
      continue;
    }
    if (auto decoded = decode_label_config(*list); decoded && decoded->pool.txg != 0) {
      image.label = *std::move(decoded);
    }
  }
}

// Allocatable bytes that each leaf of a top-level vdev must have. What lies beyond the last whole
// metaslab is never used. source: format page 03 section 2.
std::uint64_t leaf_minimum(const vdev::VdevConfig& top) {
  const std::uint64_t used =
      top.metaslab_shift == 0 ? top.asize : round_down(top.asize, pow2(top.metaslab_shift));
  return top.type == vdev::VdevType::raidz && !top.children.empty()
             ? div_ceil(used, top.children.size())
             : used;
}

// Marks leaves that were found with the path where they were found.
void place_leaves(vdev::VdevConfig& config, const std::map<std::uint64_t, std::string>& found) {
  if (const auto it = found.find(config.guid); it != found.end() && is_leaf(config.type)) {
    config.path = it->second;
  }
  for (vdev::VdevConfig& child : config.children) {
    place_leaves(child, found);
  }
}

// Says which images are unfit: those that are there twice, and those that were cut short.
void sort_out_images(const std::vector<Image>& images, PoolCandidate& pool) {
  for (const Image& image : images) {
    if (!image.note.empty()) {
      pool.notes.push_back(image.note);
    }
    const std::uint64_t needed = leaf_minimum(image.label.pool.root.children[0]);
    if (leaf_asize(image.device->size()) < needed) {
      pool.notes.push_back(image.path + " is truncated: it has " +
                           std::to_string(image.device->size()) + " bytes, and its vdev needs " +
                           std::to_string(needed + kLeafOverhead));
      continue;
    }
    if (const auto [it, fresh] = pool.found.emplace(image.label.guid, image.path); !fresh) {
      pool.notes.push_back(image.path + " and " + it->second + " are the same device of pool '" +
                           pool.config.name + "'");
      pool.problem = pool.notes.back() + ": take one away";
    }
  }
}

// Puts one pool together from its images.
PoolCandidate assemble(std::vector<Image>& images) {
  PoolCandidate pool;
  std::vector<RingSource> rings;
  for (const Image& image : images) {
    rings.push_back({image.device.get(), image.label.pool.root.children[0].ashift});
  }
  if (auto best = best_uberblock(rings)) {
    pool.uberblock = *std::move(best);
    use_labels_of(images, pool.uberblock->txg);
  }
  const auto newest =
      std::ranges::max_element(images, {}, [](const Image& image) { return image.label.pool.txg; });
  pool.config = newest->label.pool;
  const std::set<std::uint64_t> holes(newest->label.holes.begin(), newest->label.holes.end());

  // The newest label of each top-level vdev tells its shape.
  std::map<std::uint64_t, const Image*> tops;
  for (const Image& image : images) {
    const Image*& best = tops[image.label.pool.root.children[0].id];
    if (best == nullptr || best->label.pool.txg < image.label.pool.txg) {
      best = &image;
    }
    if (pool.config.read_only_because.empty()) {
      pool.config.read_only_because = image.label.pool.read_only_because;
    }
  }
  pool.config.root.children.clear();
  for (std::uint64_t id = 0; id < pool.config.vdev_children; ++id) {
    vdev::VdevConfig top;
    if (const auto it = tops.find(id); it != tops.end()) {
      top = it->second->label.pool.root.children[0];
      for (const auto& [guid, others] : it->second->label.pool.vdev_others) {
        pool.config.vdev_others[guid] = others;
      }
    } else {
      top.id = id;
      top.type = holes.contains(id) ? vdev::VdevType::hole : vdev::VdevType::missing;
      if (top.type == vdev::VdevType::missing) {
        pool.missing_tops.push_back(id);
      }
    }
    pool.config.root.children.push_back(std::move(top));
  }
  sort_out_images(images, pool);
  // Leaves of this pool that its tree no longer has were replaced or detached.
  std::set<std::uint64_t> known;
  for (const vdev::VdevConfig* const leaf : leaves_of(pool.config.root)) {
    known.insert(leaf->guid);
    if (!pool.found.contains(leaf->guid)) {
      pool.missing.push_back({leaf->guid, leaf->path});
    }
  }
  std::erase_if(pool.found, [&](const auto& pair) { return !known.contains(pair.first); });
  place_leaves(pool.config.root, pool.found);

  if (!pool.uberblock && pool.problem.empty()) {
    pool.problem = "no uberblock of pool '" + pool.config.name + "' verifies";
  }
  for (const std::string& guid : pool.config.features_for_read) {
    if (!format::pool_may_read(guid, false)) {
      pool.unsupported_features.push_back(guid);
    }
  }
  if (pool.problem.empty() && pool.uberblock && pool.uberblock->order != kHostOrder) {
    pool.problem = "pool '" + pool.config.name +
                   "' was written by a big-endian machine, which is not supported";
  } else if (pool.problem.empty() && !pool.unsupported_features.empty()) {
    pool.problem = "pool '" + pool.config.name + "' uses features that are not supported: ";
    for (std::size_t i = 0; i < pool.unsupported_features.size(); ++i) {
      pool.problem += (i == 0 ? "" : ", ") + pool.unsupported_features[i];
    }
  } else if (pool.problem.empty() && !pool.missing_tops.empty()) {
    pool.problem = "no device of top-level vdev " + std::to_string(pool.missing_tops.front()) +
                   " of pool '" + pool.config.name + "' was found";
  } else if (pool.problem.empty() && pool.uberblock && pool.uberblock->raidz_reflow != 0) {
    pool.problem = "pool '" + pool.config.name +
                   "' is in the middle of a raidz expansion, which is not supported";
  }
  return pool;
}

}  // namespace

Result<std::vector<PoolCandidate>> find_pools(std::span<const std::string> places,
                                              const DeviceOpener& open) {
  ZUSE_TRY(const auto files, files_of(places));
  std::map<std::uint64_t, std::vector<Image>> by_pool;
  std::map<std::uint64_t, Refused> refused_pools;
  std::vector<Error> passed;  // what was named, and is no image
  for (const Place& place : files) {
    std::optional<Refused> refused;
    auto image = read_image(place.path, open, refused);
    if (image) {
      by_pool[image->label.pool.pool_guid].push_back(*std::move(image));
      continue;
    }
    log().debug("image_passed path={} why=\"{}\"", place.path, image.error().what());
    if (refused) {
      refused_pools.emplace(refused->pool_guid, *std::move(refused));
    } else if (place.named) {
      passed.push_back(std::move(image).error());
    }
  }
  if (by_pool.empty() && refused_pools.empty() && !passed.empty()) {
    return std::unexpected(std::move(passed.front()));
  }
  std::vector<PoolCandidate> pools;
  for (auto& [guid, images] : by_pool) {
    pools.push_back(assemble(images));
    for (const Error& error : passed) {
      pools.back().notes.push_back(error.what());
    }
    refused_pools.erase(guid);
  }
  for (auto& [guid, refused] : refused_pools) {
    PoolCandidate& pool = pools.emplace_back();
    pool.config.name = std::move(refused.name);
    pool.config.pool_guid = pool.config.root.guid = guid;
    pool.config.root.type = vdev::VdevType::root;
    pool.problem = std::move(refused.why);
  }
  std::ranges::sort(pools, [](const PoolCandidate& a, const PoolCandidate& b) {
    return std::pair(a.config.name, a.config.pool_guid) <
           std::pair(b.config.name, b.config.pool_guid);
  });
  return pools;
}

Result<const PoolCandidate*> choose_pool(std::span<const PoolCandidate> pools,
                                         const std::string& wanted) {
  const PoolCandidate* chosen = nullptr;
  for (const PoolCandidate& pool : pools) {
    if (pool.config.state == PoolState::destroyed ||
        (pool.config.name != wanted && std::to_string(pool.config.pool_guid) != wanted)) {
      continue;
    }
    if (chosen != nullptr) {
      return fail(Errc::exists, "there are several pools named '" + wanted +
                                    "': give the numeric identifier instead");
    }
    chosen = &pool;
  }
  if (chosen == nullptr) {
    return fail(Errc::not_found, "no such pool available: '" + wanted + "'");
  }
  return chosen;
}

Result<void> check_import(const PoolCandidate& pool, std::uint64_t hostid, bool read_only,
                          bool force) {
  if (!pool.problem.empty()) {
    return fail(Errc::unsupported, pool.problem);
  }
  if (read_only) {
    return {};
  }
  if (!pool.config.read_only_because.empty()) {
    return fail(Errc::read_only,
                "pool '" + pool.config.name +
                    "' can only be imported with -o readonly=on: " + pool.config.read_only_because);
  }
  if (pool.uberblock && pool.uberblock->multihost() && pool.config.state != PoolState::exported) {
    return fail(Errc::busy,
                "pool '" + pool.config.name + "' has multihost on and may be in use by host '" +
                    pool.config.hostname + "': export it there, or import it with -o readonly=on");
  }
  if (pool.uberblock && pool.uberblock->checkpoint_txg != 0) {
    return fail(Errc::unsupported, "pool '" + pool.config.name + "' was rewound to a checkpoint");
  }
  if (!force && pool.config.state != PoolState::exported && pool.config.hostid != 0 &&
      pool.config.hostid != hostid) {
    return fail(Errc::busy, "pool '" + pool.config.name +
                                "' was last accessed by another system ('" + pool.config.hostname +
                                "'): use -f to import it anyway");
  }
  return {};
}

std::uint64_t local_hostid() {
  std::ifstream file("/etc/hostid", std::ios::binary);
  std::array<char, 4> bytes{};
  if (!file.read(bytes.data(), bytes.size())) {
    return 0;
  }
  return load_at<std::uint32_t>(std::as_bytes(std::span(bytes)), 0, kHostOrder);
}

}  // namespace zuse::pool
