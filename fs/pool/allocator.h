// The allocator: which bytes of which top-level vdev a new block gets, and when freed ones may be
// used again.
//
// Top-level vdevs take turns, those with more free space longer ones. In a vdev, allocations of one
// kind (data, each metadata copy) that come from one thread continue in one metaslab, so that
// blocks written together lie together and leaf I/O merges; the copies of a block go to different
// vdevs, or at least different metaslabs.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "fs/format/blkptr.h"
#include "fs/pool/metaslab.h"
#include "vdev/base/sync.h"
#include "vdev/tree.h"

namespace zuse::pool {

// A top-level vdev as the allocator sees it.
struct AllocatorTop {
  vdev::TopGeometry geometry;
  unsigned metaslab_shift = 0;
  bool allocatable = true;  // false: log vdevs, holes, missing ones
};

struct AllocationRequest {
  std::uint64_t psize = 0;  // bytes
  unsigned copies = 1;      // 1..3
  std::uint64_t txg = 0;
  bool data = false;  // data and metadata are laid out apart
};

// Thread-safe.
class Allocator {
 public:
  // Keeps what is freed from now on from being allocated again, until it dies: whoever walks the
  // tree of the last synced group holds one. Take the pin first, then look up the tree's root.
  class Pin {
   public:
    Pin() = default;
    Pin(Pin&& other) noexcept;
    Pin& operator=(Pin&& other) noexcept;
    ~Pin();

   private:
    friend class Allocator;
    Allocator* allocator_ = nullptr;
    std::uint64_t txg_ = 0;
  };

  // `deflate`: space is counted deflated (pools of version >= 3). errors: invalid (a metaslab shift
  // that cannot be).
  static Result<std::unique_ptr<Allocator>> create(std::span<const AllocatorTop> tops,
                                                   bool deflate = true);
  ~Allocator();
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;

  unsigned top_count() const noexcept { return static_cast<unsigned>(tops_.size()); }
  std::uint64_t metaslab_count(unsigned top) const;
  const vdev::TopGeometry& geometry(unsigned top) const;
  bool is_allocatable(unsigned top) const;

  // Tells what is allocated, as read from the metaslab's space map: its entries in order (none: all
  // is free). Until then nothing is allocated there. errors: corrupt, exists, invalid.
  Result<void> load(unsigned top, std::uint64_t metaslab,
                    std::span<const format::SpaceMapEntry> entries);
  // For the totals, where a map is not loaded: what its header says is allocated.
  void set_unloaded(unsigned top, std::uint64_t metaslab, std::uint64_t allocated_bytes);

  // `copies` places of psize_to_asize(psize) bytes that do not overlap. errors: no_space (nothing
  // is allocated then), invalid.
  Result<std::array<format::Dva, 3>> allocate(const AllocationRequest& request);
  // Takes exactly these bytes: intent log blocks of before a crash. errors: exists (allocated
  // already), invalid.
  Result<void> claim(const format::Dva& dva, std::uint64_t txg);
  // Lets `dva.asize` bytes go in the syncing `txg` (gang headers: the caller says the header's
  // size). `wait`: not even a block of this group may be reused before it is on disk.
  // errors: corrupt, invalid; the space leaks then.
  Result<void> free(const format::Dva& dva, std::uint64_t txg, bool wait = false);

  // A group starts to sync: what was freed three groups ago, and is not pinned, may be allocated.
  void begin_sync(std::uint64_t txg);
  // What changed in `txg` and was not taken yet; call once a pass, write it to the space maps, and
  // call again until nothing is left.
  std::vector<MetaslabChanges> take_changes(std::uint64_t txg);
  // All that a metaslab's space map must say after what was taken: to write it anew (condense).
  // shape: loaded(top, metaslab).
  std::vector<Range> map_contents(unsigned top, std::uint64_t metaslab) const;
  bool loaded(unsigned top, std::uint64_t metaslab) const;
  // True if some byte of the range could be handed out: nothing live may lie there.
  bool is_free(const format::Dva& dva) const;

  Pin pin_frees();

  // Raw bytes over all allocatable vdevs: asize units, parity included.
  std::uint64_t total() const noexcept { return total_; }
  std::uint64_t allocated() const;
  std::uint64_t free_bytes() const { return total() - std::min(total(), allocated()); }
  // Deflated, as datasets count. source: format page 04 section 4.2.
  std::uint64_t dspace() const noexcept { return dspace_; }
  std::uint64_t deflated_allocated() const;
  std::uint64_t slop() const noexcept;
  // Deflated size of `asize` bytes on a vdev.
  std::uint64_t deflate(unsigned top, std::uint64_t asize) const;
  // 0: every free byte lies in a range of 16 MiB or more; 100: all in single sectors. Percent.
  unsigned fragmentation() const;

 private:
  struct Top;
  struct Rotor;

  Allocator(std::span<const AllocatorTop> tops, bool deflate);
  void unpin(std::uint64_t txg);
  unsigned next_top(std::uint64_t asize);
  Result<format::Dva> allocate_copy(const AllocationRequest& request, unsigned copy,
                                    std::span<const format::Dva> others);
  bool allocate_in(Top& top, const AllocationRequest& request, unsigned copy, std::uint64_t asize,
                   std::span<const format::Dva> others, bool anywhere, format::Dva& dva);
  Metaslab* find(const format::Dva& dva) const;

  std::vector<std::unique_ptr<Top>> tops_;
  const bool deflate_;
  std::uint64_t total_ = 0, dspace_ = 0;

  mutable Mutex mutex_{LockRank::allocator};
  std::uint64_t syncing_ ZUSE_GUARDED_BY(mutex_) = 0;
  std::vector<std::uint64_t> pins_ ZUSE_GUARDED_BY(mutex_);
  std::unique_ptr<std::array<Rotor, 8>> rotors_;  // by thread
};

}  // namespace zuse::pool
