// The cache's lists and the rules of who is evicted. Each shard is an ARC of its own; keys are
// spread by a hash, so shards see like traffic and the even split of the limit costs little.
//
// What was read ahead is apart from ARC, in a short list: whoever reads a file from end to end does
// so once, or has the kernel's page cache for the next time. Such a block joins ARC when it is
// asked for again after others of its kind, and otherwise leaves no ghost.
#include "fs/pool/cache.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "vdev/base/units.h"

namespace zuse::pool {
namespace {

enum Where : std::uint8_t { kRecent, kFrequent, kGhostRecent, kGhostFrequent, kAhead, kLists };

constexpr std::uint64_t kShardBytes = 2 * format::kMaxBlockSize;
constexpr std::uint64_t kMaxShards = 16;
constexpr std::uint64_t kAheadBytes = 64 * kMiB;  // of all shards; at most a quarter of the limit
// Pieces of one block are asked for in a row: only after so many others is it another use.
constexpr std::uint64_t kAheadDistance = 8;

// The mixing step of splitmix64: every input bit reaches every output bit.
std::uint64_t mix(std::uint64_t value) noexcept {
  value = (value ^ (value >> 30U)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27U)) * 0x94d049bb133111ebU;
  return value ^ (value >> 31U);
}

struct KeyHash {
  std::size_t operator()(const CacheKey& key) const noexcept {
    return mix(key.offset + mix(key.birth + mix(key.vdev + 1U)));
  }
};

}  // namespace

struct Cache::Shard {
  struct Entry {
    CacheKey key;
    SharedBuffer block;  // null in the ghost lists
    std::uint64_t charge = 0;
    Where where = kRecent;
    bool unused = false;     // read ahead, and not asked for yet
    std::uint64_t used = 0;  // the number of its first use, in kAhead
  };
  using List = std::list<Entry>;

  Shard(std::uint64_t limit_bytes, std::uint64_t ahead_bytes)
      : limit(limit_bytes), ahead_limit(ahead_bytes) {}

  void move_to_front_locked(List::iterator entry, Where to) ZUSE_REQUIRES(mutex) {
    bytes[entry->where] -= entry->charge;
    lists[to].splice(lists[to].begin(), lists[entry->where], entry);
    entry->where = to;
    bytes[to] += entry->charge;
  }
  void erase_locked(List::iterator entry) ZUSE_REQUIRES(mutex) {
    bytes[entry->where] -= entry->charge;
    index.erase(entry->key);
    lists[entry->where].erase(entry);
  }
  // Turns the oldest block of a list into a ghost; its buffer goes to `dropped`.
  void evict_locked(Where from, std::vector<SharedBuffer>& dropped) ZUSE_REQUIRES(mutex) {
    const auto victim = std::prev(lists[from].end());
    dropped.push_back(std::move(victim->block));
    victim->block = nullptr;
    move_to_front_locked(victim, from == kRecent ? kGhostRecent : kGhostFrequent);
    ++evictions;
  }
  void evict_ahead_locked(std::vector<SharedBuffer>& dropped) ZUSE_REQUIRES(mutex) {
    const auto victim = std::prev(lists[kAhead].end());
    dropped.push_back(std::move(victim->block));
    erase_locked(victim);
    ++evictions;
  }
  // Makes room for `incoming` bytes (the paper's REPLACE), then trims the ghosts: recent and its
  // ghosts within one limit, all four lists within two.
  void make_room_locked(std::uint64_t incoming, bool ghost_frequent_hit,
                        std::vector<SharedBuffer>& dropped) ZUSE_REQUIRES(mutex) {
    while (bytes[kRecent] + bytes[kFrequent] + bytes[kAhead] + incoming > limit) {
      if (lists[kRecent].empty() && lists[kFrequent].empty()) {
        evict_ahead_locked(dropped);
        continue;
      }
      const bool recent_is_long =
          bytes[kRecent] > target || (ghost_frequent_hit && bytes[kRecent] == target);
      const bool from_recent =
          !lists[kRecent].empty() && (recent_is_long || lists[kFrequent].empty());
      evict_locked(from_recent ? kRecent : kFrequent, dropped);
    }
    while (!lists[kGhostRecent].empty() && bytes[kRecent] + bytes[kGhostRecent] > limit) {
      erase_locked(std::prev(lists[kGhostRecent].end()));
    }
    while (!lists[kGhostFrequent].empty() &&
           bytes[kRecent] + bytes[kFrequent] + bytes[kGhostRecent] + bytes[kGhostFrequent] >
               2 * limit) {
      erase_locked(std::prev(lists[kGhostFrequent].end()));
    }
  }

  mutable Mutex mutex{LockRank::cache};
  const std::uint64_t limit;
  const std::uint64_t ahead_limit;                      // of `limit`
  std::uint64_t ahead_uses ZUSE_GUARDED_BY(mutex) = 0;  // first uses of blocks that were read ahead
  std::array<List, kLists> lists ZUSE_GUARDED_BY(mutex);
  std::array<std::uint64_t, kLists> bytes ZUSE_GUARDED_BY(mutex){};
  std::unordered_map<CacheKey, List::iterator, KeyHash> index ZUSE_GUARDED_BY(mutex);
  std::uint64_t target ZUSE_GUARDED_BY(mutex) = 0;  // bytes that `recent` should have
  std::uint64_t hits ZUSE_GUARDED_BY(mutex) = 0, misses ZUSE_GUARDED_BY(mutex) = 0;
  std::uint64_t ghost_recent_hits ZUSE_GUARDED_BY(mutex) = 0;
  std::uint64_t ghost_frequent_hits ZUSE_GUARDED_BY(mutex) = 0;
  std::uint64_t evictions ZUSE_GUARDED_BY(mutex) = 0;
};

CacheKey cache_key(const format::Blkptr& blkptr) noexcept {
  return {blkptr.dva[0].vdev, blkptr.dva[0].offset, blkptr.birth()};
}

Cache::Cache(std::uint64_t limit_bytes) {
  const std::uint64_t count = std::clamp<std::uint64_t>(limit_bytes / kShardBytes, 1, kMaxShards);
  for (std::uint64_t i = 0; i < count; ++i) {
    shards_.push_back(std::make_unique<Shard>(limit_bytes / count,
                                              std::min(limit_bytes / 4, kAheadBytes) / count));
  }
}

Cache::~Cache() = default;

Cache::Shard& Cache::shard_of(const CacheKey& key) const {
  // The high bits choose the shard, the low ones the bucket inside it.
  return *shards_[(KeyHash{}(key) >> 40U) % shards_.size()];
}

std::uint64_t Cache::charge(const Buffer& block) noexcept {
  return std::bit_ceil(std::max<std::uint64_t>(block.size(), 4096));
}

SharedBuffer Cache::get(const CacheKey& key, bool again) {
  Shard& shard = shard_of(key);
  const LockGuard lock(shard.mutex);
  const auto found = shard.index.find(key);
  if (found == shard.index.end() || found->second->block == nullptr) {
    shard.misses += again ? 0U : 1U;
    return nullptr;
  }
  ++shard.hits;
  const auto entry = found->second;
  if (std::exchange(entry->unused, false)) {
    entry->used = ++shard.ahead_uses;
  }
  const bool ahead = entry->where == kAhead && shard.ahead_uses - entry->used < kAheadDistance;
  shard.move_to_front_locked(entry, ahead ? kAhead : kFrequent);
  return entry->block;
}

void Cache::put(const CacheKey& key, SharedBuffer block, bool read_ahead) {
  const std::uint64_t size = charge(*block);
  Shard& shard = shard_of(key);
  std::vector<SharedBuffer> dropped;  // freed after the lock is let go
  const LockGuard lock(shard.mutex);
  const auto found = shard.index.find(key);
  if (size > shard.limit) {
    if (found != shard.index.end()) {
      dropped.push_back(std::move(found->second->block));
      shard.erase_locked(found->second);
    }
    return;
  }
  Where to = read_ahead ? kAhead : kRecent;
  bool ghost_frequent_hit = false;
  if (found != shard.index.end()) {
    const auto entry = found->second;
    const auto ghosts = [&](Where list) { return std::max<std::uint64_t>(shard.bytes[list], 1); };
    switch (entry->where) {
      case kAhead:
      case kRecent:
      case kFrequent: to = entry->where; break;  // read twice at once: new contents, same place
      case kGhostRecent: {
        const std::uint64_t ratio =
            std::max<std::uint64_t>(1, ghosts(kGhostFrequent) / ghosts(kGhostRecent));
        shard.target = std::min(shard.limit, shard.target + ratio * size);
        ++shard.ghost_recent_hits;
        to = kFrequent;
        break;
      }
      case kGhostFrequent: {
        const std::uint64_t ratio =
            std::max<std::uint64_t>(1, ghosts(kGhostRecent) / ghosts(kGhostFrequent));
        shard.target -= std::min(shard.target, ratio * size);
        ++shard.ghost_frequent_hits;
        ghost_frequent_hit = true;
        to = kFrequent;
        break;
      }
      case kLists: break;
    }
    dropped.push_back(std::move(entry->block));
    shard.erase_locked(entry);
  }
  while (to == kAhead && shard.bytes[kAhead] + size > shard.ahead_limit &&
         !shard.lists[kAhead].empty()) {
    shard.evict_ahead_locked(dropped);
  }
  shard.make_room_locked(size, ghost_frequent_hit, dropped);
  shard.lists[to].push_front({key, std::move(block), size, to, read_ahead});
  shard.bytes[to] += size;
  shard.index.emplace(key, shard.lists[to].begin());
}

void Cache::forget(const CacheKey& key) {
  Shard& shard = shard_of(key);
  SharedBuffer dropped;
  const LockGuard lock(shard.mutex);
  if (const auto found = shard.index.find(key); found != shard.index.end()) {
    dropped = std::move(found->second->block);
    shard.erase_locked(found->second);
  }
}

void Cache::drop() {
  for (const auto& shard : shards_) {
    std::array<Shard::List, kLists> dropped;
    const LockGuard lock(shard->mutex);
    dropped.swap(shard->lists);
    shard->index.clear();
    shard->bytes.fill(0);
    shard->target = 0;
  }
}

CacheStats Cache::stats() const {
  CacheStats total;
  for (const auto& shard : shards_) {
    const LockGuard lock(shard->mutex);
    total.hits += shard->hits;
    total.misses += shard->misses;
    total.ghost_recent_hits += shard->ghost_recent_hits;
    total.ghost_frequent_hits += shard->ghost_frequent_hits;
    total.evictions += shard->evictions;
    total.recent_bytes += shard->bytes[kRecent];
    total.frequent_bytes += shard->bytes[kFrequent];
    total.ahead_bytes += shard->bytes[kAhead];
    for (const Where list : {kRecent, kFrequent, kAhead}) {
      total.bytes += shard->bytes[list];
      total.blocks += shard->lists[list].size();
    }
    total.limit += shard->limit;
    total.target_recent += shard->target;
  }
  return total;
}

}  // namespace zuse::pool
