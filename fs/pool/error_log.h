// The blocks that could not be read, whatever was tried: what `status -v` lists. A scrub collects
// its own list, which replaces the standing one when it has seen the whole pool.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "fs/pool/block_store.h"
#include "vdev/base/sync.h"

namespace zuse::pool {

struct BlockError {
  Bookmark bookmark;
  std::uint64_t birth = 0;  // txg
  auto operator<=>(const BlockError&) const = default;
};

// Beyond it, errors are still counted where they happen, but not listed.
inline constexpr std::size_t kBlockErrorsMax = 65536;

// Thread-safe.
class ErrorLog {
 public:
  void add(const BlockError& error);
  // An error found by the running scrub.
  void add_scrub(const BlockError& error);
  void begin_scrub();
  // `complete`: every block was looked at, so what the scrub did not find is no longer wrong.
  void end_scrub(bool complete);

  std::vector<BlockError> list() const;              // standing, and found by a running scrub
  std::vector<BlockError> scrub() const;             // found by the running scrub
  void load(const std::vector<BlockError>& errors);  // what was on disk
  void clear();
  // Changes whenever list() may have: the pool then writes its log.
  std::uint64_t generation() const;

 private:
  mutable Mutex mutex_{LockRank::leaf};
  std::set<BlockError> standing_ ZUSE_GUARDED_BY(mutex_);
  std::set<BlockError> scrub_ ZUSE_GUARDED_BY(mutex_);
  std::uint64_t generation_ ZUSE_GUARDED_BY(mutex_) = 0;
};

}  // namespace zuse::pool
