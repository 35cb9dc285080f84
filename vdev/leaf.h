// Leaf: one device of a pool, as the tree sees it - whether it can be used, what it has done wrong,
// and which transaction groups it has missed.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "vdev/base/sync.h"
#include "vdev/block_device.h"
#include "vdev/dtl.h"
#include "vdev/tree.h"

namespace zuse::vdev {

// Thread-safe. Devices that were ever used stay open until the leaf dies, since I/O on them may be
// in flight.
class Leaf {
 public:
  // Errors of one kind within kErrorWindow after which a leaf is no longer trusted.
  static constexpr unsigned kErrorsTolerated = 10;
  static constexpr std::chrono::minutes kErrorWindow{10};

  Leaf(VdevConfig config, std::uint32_t top) : config_(std::move(config)), top_(top) {}

  std::uint64_t guid() const noexcept { return config_.guid; }
  std::uint32_t top() const noexcept { return top_; }
  const VdevConfig& config() const noexcept { return config_; }
  std::string path() const;

  void set_device(std::unique_ptr<BlockDevice> device);
  BlockDevice* device() const noexcept { return device_.load(std::memory_order_acquire); }
  VdevState state() const noexcept { return state_.load(std::memory_order_acquire); }
  VdevAux aux() const noexcept { return aux_.load(std::memory_order_relaxed); }
  // True if it changed.
  bool set_state(VdevState state, VdevAux aux);
  // Its device may be read and written.
  bool usable() const noexcept { return device() != nullptr && state() >= VdevState::degraded; }

  // What was missed.
  bool missed(std::uint64_t txg) const;
  bool missed_any() const noexcept { return has_dtl_.load(std::memory_order_acquire); }
  void miss(std::uint64_t txg);
  void set_dtl(Dtl dtl, bool changed);
  // The end of a scan: what was missed before `below` is there now, except what could not be
  // repaired, or all of it if the scan has passed this leaf by.
  void scan_finished(std::uint64_t below);
  void scan_started();
  // During a scan: a block of this group could not be read from it or repaired on it.
  void repair_failed(std::uint64_t txg);
  // During a scan: the leaf could not be used, so the scan says nothing about it.
  void passed_by_scan() noexcept { passed_by_.store(true, std::memory_order_relaxed); }
  Dtl dtl() const;
  // True once after each change.
  bool take_dtl_changed() noexcept { return dtl_changed_.exchange(false); }

  // Counters. The first two answer whether the leaf has now failed too often.
  bool count_io_error(bool write);
  bool count_checksum_error();
  void count_io(bool write, std::uint64_t bytes);
  void count_repaired(std::uint64_t bytes) {
    repaired_.fetch_add(bytes, std::memory_order_relaxed);
  }
  VdevStats stats() const;
  void clear_stats();

  std::atomic<unsigned> in_flight{0};

  // What may still be in the device's cache. A write counts when it has ended; a flush covers what
  // was counted before it began. Whoever finds a flush of another thread under way sends one more:
  // that one may have begun too early.
  void wrote(std::uint64_t txg);
  // The number of writes that a flush begun now covers; none: nothing is to be flushed.
  std::optional<std::uint64_t> begin_flush() const;
  // A failed flush makes the leaf miss all that was to be flushed.
  void end_flush(std::uint64_t covered, bool done);

 private:
  // Times of the latest errors of one kind.
  struct Recent {
    std::array<std::chrono::steady_clock::time_point, kErrorsTolerated> at{};
    unsigned next = 0;
    bool add();
  };

  const VdevConfig config_;
  const std::uint32_t top_;
  std::atomic<BlockDevice*> device_{nullptr};
  std::atomic<VdevState> state_{VdevState::cant_open};
  std::atomic<VdevAux> aux_{VdevAux::open_failed};
  std::atomic<std::uint64_t> read_errors_{0}, write_errors_{0}, checksum_errors_{0};
  std::atomic<std::uint64_t> reads_{0}, writes_{0}, bytes_read_{0}, bytes_written_{0}, repaired_{0};
  std::atomic<bool> has_dtl_{false}, dtl_changed_{false}, passed_by_{false};
  mutable Mutex mutex_{LockRank::dtl};
  Dtl dtl_ ZUSE_GUARDED_BY(mutex_);
  Dtl unrepaired_ ZUSE_GUARDED_BY(mutex_);  // groups of blocks that the current scan leaves wrong
  std::uint64_t written_ ZUSE_GUARDED_BY(mutex_) = 0;  // writes that have ended
  std::uint64_t flushed_ ZUSE_GUARDED_BY(mutex_) = 0;  // of these, how many a flush has covered
  Dtl unflushed_ ZUSE_GUARDED_BY(mutex_);              // groups that the others belong to
  Recent io_errors_ ZUSE_GUARDED_BY(mutex_), bad_checksums_ ZUSE_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<BlockDevice>> devices_ ZUSE_GUARDED_BY(mutex_);
};

}  // namespace zuse::vdev
