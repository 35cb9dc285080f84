// Finding pools: looks at every file and device it is told of, groups those with labels by pool,
// and puts each pool's tree together again - whatever the files are called now, wherever they lie,
// in any order. Nothing is written.
// source: format page 04 section 9, page 01 sections 3, 5, 7.3.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fs/format/uberblock.h"
#include "fs/pool/config.h"
#include "vdev/block_device.h"

namespace zuse::pool {

using DeviceOpener = std::function<Result<std::unique_ptr<vdev::BlockDevice>>(
    const std::string& path, bool read_only)>;

// A leaf of the tree for which no usable image was found.
struct MissingLeaf {
  std::uint64_t guid = 0;
  std::string recorded_path;
};

// One pool, as its labels tell it.
struct PoolCandidate {
  // The newest label's facts, and the whole tree: root.children has vdev_children slots, those
  // without any leaf as type missing, holes as type hole. The path of each leaf that was found is
  // where it was found.
  PoolConfig config;
  std::map<std::uint64_t, std::string> found;  // leaf guid -> path
  std::vector<MissingLeaf> missing;
  std::vector<std::uint64_t> missing_tops;  // slots of top-level vdevs of which nothing was found
  // The newest over all leaves found; nothing if none verifies.
  std::optional<format::Uberblock> uberblock;
  std::vector<std::string> unsupported_features;  // active, needed to read; guids
  // Sentences about images: damaged labels, duplicates, truncated ones. Each names its image.
  std::vector<std::string> notes;
  // Why the pool cannot be imported at all (not even read-only); empty if it can.
  std::string problem;

  bool importable() const noexcept { return problem.empty(); }
};

// Looks through `places`: each a directory (its regular files and block devices, not those below)
// or a file or device itself; one that shows up under several names counts once. Files that hold no
// label are passed over in silence; one that was named itself is mentioned in the notes of what was
// found. A pool that we cannot take apart (a vdev type or version that we lack) is a candidate with
// a problem and no vdevs. Pools come sorted by name, then guid.
// errors: access (a directory that cannot be read); why the first file that was named is no part of
// a pool, if none is.
Result<std::vector<PoolCandidate>> find_pools(std::span<const std::string> places,
                                              const DeviceOpener& open);

// The one pool that `wanted` (its name, or its guid in decimal) names, destroyed ones left out.
// errors: not_found, exists (several pools of that name; says to use the guid).
Result<const PoolCandidate*> choose_pool(std::span<const PoolCandidate> pools,
                                         const std::string& wanted);

// Whether this host may import it read-write (or read-only: then only what prevents reading).
// errors: unsupported, corrupt (what `problem` says), busy (last used by another host, or exported
// by none: `force` overrides), read_only (may only be imported read-only; says why).
Result<void> check_import(const PoolCandidate& pool, std::uint64_t hostid, bool read_only,
                          bool force);

// This machine's id, as gethostid(3) gives it from /etc/hostid; 0 where there is none.
std::uint64_t local_hostid();

}  // namespace zuse::pool
