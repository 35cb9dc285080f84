// Scan: the scrub. A thread walks every object set of the last synced group and reads every copy
// and parity column of every block, repairing what is wrong. It works in slices of about two
// seconds: while a slice lasts, nothing that the tree refers to is overwritten (frees are pinned);
// between slices it takes up the newest tree and goes on from its bookmark. The layer above
// persists state() and hands it back at the next import. source: format page 04 section 8.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <thread>
#include <vector>

#include "fs/format/scan_phys.h"
#include "fs/pool/block_store.h"
#include "fs/pool/io_pipeline.h"
#include "vdev/base/sync.h"

namespace zuse::pool {

// One object set to walk: the MOS, a head, a snapshot.
struct ScanRoot {
  std::uint64_t objset = 0;  // dataset object; 0: the MOS
  format::Blkptr root;
  // Txg of the snapshot before it: what was born up to then is walked with that one.
  std::uint64_t min_birth = 0;
};

struct ScanHooks {
  // Every object set as of the last synced group, in any order. Called on the scan thread.
  std::function<Result<std::vector<ScanRoot>>()> roots;
  // state() has changed in a way that should reach the disk soon. Must not wait. May be empty.
  std::function<void()> changed;
  // Unix seconds. Empty: the system's clock.
  std::function<std::uint64_t()> now;
};

struct ScanOptions {
  std::chrono::milliseconds slice{2000};
  std::uint64_t batch_bytes = std::uint64_t{4} << 20;  // on-disk bytes in flight a worker
  unsigned workers = 2;
};

// Thread-safe.
class Scan {
 public:
  Scan(IoPipeline& pipeline, ScanHooks hooks, ScanOptions options = {});
  ~Scan();  // as shut_down()
  Scan(const Scan&) = delete;
  Scan& operator=(const Scan&) = delete;

  // The state found on disk; a scan that was running goes on, unless it is paused.
  void load(const format::ScanPhys& state);
  // Starts from the beginning, over blocks born before `max_txg` (exclusive); `to_examine`: bytes
  // allocated now. A paused scan goes on instead. errors: busy (one is running).
  Result<void> start(format::ScanFunction function, std::uint64_t max_txg,
                     std::uint64_t to_examine);
  // errors: not_found (none is running, or it is paused already).
  Result<void> pause();
  // Ends it as canceled. errors: not_found (none is running or paused).
  Result<void> stop();
  // Waits until none is running, or it is paused.
  Result<void> wait();
  // Ends the thread; a running scan stays "scanning", to be taken up by the next import.
  void shut_down();

  // As of the last slice. `queue` is always 0.
  format::ScanPhys state() const;
  bool running() const;  // and not paused
  // Bytes a second, since it was started or taken up.
  double speed() const;
  // Changes whenever state() did.
  std::uint64_t generation() const noexcept { return generation_.load(); }

 private:
  class Slice;

  void run();
  // Walks for a slice's time. True: the whole pool has been walked.
  Result<bool> walk(std::uint64_t epoch);
  void finish(format::ScanState how);
  bool wants_to_run_locked() const ZUSE_REQUIRES(mutex_);
  void tell() const;

  IoPipeline& pipeline_;
  const ScanHooks hooks_;
  const ScanOptions options_;
  mutable Mutex mutex_{LockRank::scan};
  CondVar wake_;
  format::ScanPhys state_ ZUSE_GUARDED_BY(mutex_);
  bool ending_ ZUSE_GUARDED_BY(mutex_) = false;
  std::chrono::steady_clock::time_point since_ ZUSE_GUARDED_BY(mutex_);
  std::uint64_t examined_before_ ZUSE_GUARDED_BY(mutex_) = 0;
  // Some block was lost or passed by: what leaves have missed is not known to be repaired.
  bool incomplete_ ZUSE_GUARDED_BY(mutex_) = false;
  std::atomic<std::uint64_t> epoch_{
      0};  // counts starts, pauses and stops: a slice ends with its own
  std::atomic<std::uint64_t> generation_{0};
  // Object sets that were walked to their end, with the min_birth they had. They are walked again
  // if it sinks: a snapshot went away, and what only it held before is theirs now.
  std::map<std::uint64_t, std::uint64_t> walked_ ZUSE_GUARDED_BY(mutex_);
  bool position_known_ ZUSE_GUARDED_BY(mutex_) = false;  // walked_ agrees with the bookmark
  std::thread thread_;
};

}  // namespace zuse::pool
