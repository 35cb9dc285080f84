// The adaptive replacement cache of decompressed, verified blocks.
//
// After Megiddo & Modha, "ARC: A Self-Tuning, Low Overhead Replacement Cache" (FAST 2003), with
// bytes instead of pages. Four lists: *recent* (seen once lately), *frequent* (seen at least
// twice), and the ghosts of both: keys of what was evicted, without the data.
//
//     ghost_recent <- recent | frequent -> ghost_frequent        recent + frequent <= limit
//
// A miss that hits a ghost says that its list was too short: a hit in ghost_recent moves the
// target share towards recent, one in ghost_frequent away from it. A long sequential read thus
// flows through `recent` and leaves `frequent` alone.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <unordered_map>
#include <vector>

#include "fs/format/blkptr.h"
#include "vdev/base/buffer.h"
#include "vdev/base/sync.h"

namespace zuse::pool {

// A block by where its first copy lies and when it was written. Space is reused, but never twice in
// one transaction group while someone could still ask for the older contents.
struct CacheKey {
  std::uint32_t vdev = 0;
  std::uint64_t offset = 0;
  std::uint64_t birth = 0;
  bool operator==(const CacheKey&) const = default;
};
CacheKey cache_key(const format::Blkptr& blkptr) noexcept;

struct CacheStats {
  std::uint64_t hits = 0, misses = 0;
  std::uint64_t ghost_recent_hits = 0, ghost_frequent_hits = 0, evictions = 0;
  std::uint64_t bytes = 0, recent_bytes = 0, frequent_bytes = 0, ahead_bytes = 0, limit = 0;
  std::uint64_t target_recent = 0;  // the share of `bytes` that ARC aims to give to recent blocks
  std::uint64_t blocks = 0;
};

// Thread-safe. Counts what it keeps itself; a buffer that a reader still holds after its eviction
// is the reader's.
class Cache {
 public:
  // Splits the limit evenly among shards, each big enough for a block of the largest size where the
  // limit allows it.
  explicit Cache(std::uint64_t limit_bytes);
  ~Cache();
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  // The block, which counts as used; null if it is not here.
  // `again`: a second look for the same reader, whose miss is counted already.
  SharedBuffer get(const CacheKey& key, bool again = false);
  // Keeps the block, evicting others. One that was read ahead, before anyone asked, is evicted
  // sooner.
  // A block larger than a shard's limit is not kept.
  void put(const CacheKey& key, SharedBuffer block, bool read_ahead = false);
  // Forgets a block and its ghost: its space was freed.
  void forget(const CacheKey& key);
  // Forgets every block and ghost.
  void drop();
  CacheStats stats() const;

  // What keeping a block costs, in bytes: its buffer's size class.
  static std::uint64_t charge(const Buffer& block) noexcept;

 private:
  struct Shard;
  Shard& shard_of(const CacheKey& key) const;

  std::vector<std::unique_ptr<Shard>> shards_;
};

}  // namespace zuse::pool
