// Metaslab: one slice of a top-level vdev, with its own free space, its own lock and its own space
// map on disk. What happens to a range of bytes:
//
//     free --allocate--> pending alloc --take--> allocated --free--> pending free --take-->
//     deferred
//       ^                     |                                                                 |
//       +----- free (same group, not yet taken) ------+   +----- three groups later ------------+
//
// "Taken" means handed to the layer above, which appends it to the space map. Deferred ranges are
// free on disk but not handed out again, so that the last three uberblocks stay readable.
// source: format page 04 sections 3 and 4.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fs/format/space_map.h"
#include "fs/pool/range_set.h"
#include "fs/pool/txg.h"
#include "vdev/base/result.h"
#include "vdev/base/sync.h"

namespace zuse::pool {

// What of one metaslab changed in a transaction group, for its space map.
struct MetaslabChanges {
  std::uint32_t top = 0;
  std::uint64_t metaslab = 0;
  // Bytes in the vdev's allocatable area, each list merged and in order. The map gets the
  // allocations first: what was allocated and freed within the group stands in both.
  std::vector<Range> allocated, freed;
  std::uint64_t allocated_total = 0;  // bytes in the map once these are applied
};

// Thread-safe.
class Metaslab {
 public:
  Metaslab(std::uint32_t top, std::uint64_t index, Range bounds, unsigned ashift);

  // Everything but what the space map says is allocated becomes free to allocate.
  // errors: corrupt (an entry outside the metaslab, ALLOC of what is allocated, FREE of what is
  // not); exists, if it is loaded already.
  Result<void> load(std::span<const format::SpaceMapEntry> entries);
  // Remembers what the map's header claims is allocated, for the totals of a metaslab that is not
  // loaded. Nothing can be allocated from it until it is.
  void set_unloaded(std::uint64_t allocated_bytes);
  bool loaded() const noexcept { return loaded_.load(std::memory_order_acquire); }

  // A range of `size` bytes: at the cursor, after it, or the tightest that fits. `continued`: it
  // follows the previous allocation here. nullopt: no free range is that large.
  std::optional<std::uint64_t> allocate(std::uint64_t size, std::uint64_t txg, bool& continued);
  // Marks exactly this range allocated. errors: exists (some of it is not free), invalid.
  Result<void> claim(const Range& range, std::uint64_t txg);
  // Lets a range go in `txg`. A range allocated in this very group is free again at once, unless
  // `wait`: the blocks of an intent log are needed until the group is on disk.
  // errors: corrupt (some of it is free already: a damaged pool; nothing is freed then), invalid
  // (out of bounds).
  Result<void> free(const Range& range, std::uint64_t txg, bool wait = false);

  // The changes of `txg` not yet taken; nullopt: none.
  std::optional<MetaslabChanges> take_changes(std::uint64_t txg);
  // Makes what was freed in groups <= txg allocatable.
  void release_deferred(std::uint64_t txg);

  // Every range that the space map on disk has allocated once all that was taken is applied.
  // shape: loaded().
  std::vector<Range> map_contents() const;
  // True if any byte is free to be allocated.
  bool is_free(const Range& range) const;

  std::uint64_t index() const noexcept { return index_; }
  const Range& bounds() const noexcept { return bounds_; }
  // Bytes, as of a moment ago.
  std::uint64_t allocatable() const noexcept { return free_bytes_.load(std::memory_order_relaxed); }
  std::uint64_t largest() const noexcept { return largest_.load(std::memory_order_relaxed); }
  std::uint64_t allocated() const noexcept { return used_bytes_.load(std::memory_order_relaxed); }
  // Free bytes by log2 of the size of the range that they lie in.
  std::array<std::uint64_t, 64> free_by_size() const;

 private:
  struct Deferred {
    std::uint64_t txg = 0;
    RangeSet ranges;
  };

  void publish_locked() ZUSE_REQUIRES(mutex_);
  bool inside(const Range& range) const noexcept;
  std::string where(const Range& range) const;

  const std::uint32_t top_;
  const std::uint64_t index_;
  const Range bounds_;
  const unsigned ashift_;
  mutable Mutex mutex_{LockRank::metaslab};
  FreeSpace free_ ZUSE_GUARDED_BY(mutex_);
  std::array<RangeSet, kTxgSlots> pending_alloc_ ZUSE_GUARDED_BY(mutex_);
  std::array<RangeSet, kTxgSlots> pending_free_ ZUSE_GUARDED_BY(mutex_);
  std::deque<Deferred> deferred_ ZUSE_GUARDED_BY(mutex_);
  std::uint64_t cursor_ ZUSE_GUARDED_BY(mutex_);
  std::uint64_t map_bytes_ ZUSE_GUARDED_BY(mutex_) = 0;  // allocated according to the space map
  std::atomic<bool> loaded_{false};
  std::atomic<std::uint64_t> free_bytes_{0}, largest_{0}, used_bytes_{0};
};

}  // namespace zuse::pool
