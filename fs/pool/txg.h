// Txg, transaction group: all changes between two uberblocks. Three groups are alive at a time:
// *open* takes new transactions, *quiescing* waits for those that it took, *syncing* goes to disk.
// A thread of its own moves them on: every few seconds, when enough is dirty, or when asked.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>

#include "vdev/base/result.h"
#include "vdev/base/sync.h"

namespace zuse::pool {

inline constexpr unsigned kTxgSlots = 4;  // per-txg state is kept at index txg % kTxgSlots
inline constexpr std::uint64_t kFirstTxg = 4;

struct TxgOptions {
  std::chrono::milliseconds interval{5000};
  std::uint64_t dirty_limit = std::uint64_t{256} << 20;  // bytes; writers wait above it
  std::uint64_t dirty_sync = std::uint64_t{64} << 20;    // bytes; a sync starts above it
};

class TxgManager;

// A place in the open transaction group. While it lives, that group cannot sync: hold it briefly,
// never across a wait for a sync. Movable.
class TxHold {
 public:
  TxHold() = default;
  TxHold(TxHold&& other) noexcept;
  TxHold& operator=(TxHold&& other) noexcept;
  ~TxHold();
  std::uint64_t txg() const noexcept { return txg_; }

 private:
  friend class TxgManager;
  TxgManager* manager_ = nullptr;
  std::uint64_t txg_ = 0;
};

// Thread-safe.
class TxgManager {
 public:
  // `sync` is called on the manager's thread, once a group, in order. Its failure suspends the
  // pool: every later hold and wait fails with that error.
  using Sync = std::function<Result<void>(std::uint64_t txg)>;
  TxgManager(std::uint64_t last_synced, TxgOptions options, Sync sync);
  ~TxgManager();  // stop() must have been called, or nothing is open

  // Enters the open group; waits while more than dirty_limit is dirty. errors: stopped, io
  // (suspended).
  Result<TxHold> hold();
  // The txg being filled now.
  std::uint64_t open_txg() const;
  std::uint64_t last_synced() const;
  // Counts bytes as dirty in a group until it has synced.
  void add_dirty(std::uint64_t txg, std::uint64_t bytes);
  std::uint64_t dirty_bytes() const;

  // Waits until `txg` (0: the group open now) is on disk, hurrying it. errors: io (suspended).
  Result<void> wait_synced(std::uint64_t txg = 0);
  // Makes the open group sync soon, without waiting.
  void kick();
  // Syncs all that is open, then ends the thread. Later holds fail with stopped.
  Result<void> stop();

 private:
  friend class TxHold;
  void release(std::uint64_t txg);
  void run();

  const TxgOptions options_;
  const Sync sync_;
  mutable Mutex mutex_{LockRank::txg};
  CondVar changed_;
  std::uint64_t open_ ZUSE_GUARDED_BY(mutex_);
  std::uint64_t synced_ ZUSE_GUARDED_BY(mutex_);
  std::uint64_t wanted_ ZUSE_GUARDED_BY(mutex_) = 0;
  std::array<std::uint64_t, kTxgSlots> holds_ ZUSE_GUARDED_BY(mutex_){};
  std::array<std::uint64_t, kTxgSlots> dirty_ ZUSE_GUARDED_BY(mutex_){};
  bool stopping_ ZUSE_GUARDED_BY(mutex_) = false;
  bool ended_ ZUSE_GUARDED_BY(mutex_) = false;
  Result<void> failure_ ZUSE_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace zuse::pool
