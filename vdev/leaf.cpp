#include "vdev/leaf.h"

#include <algorithm>
#include <utility>

namespace zuse::vdev {

std::string Leaf::path() const {
  const BlockDevice* const open = device();
  return open != nullptr ? open->name() : config_.path;
}

void Leaf::set_device(std::unique_ptr<BlockDevice> device) {
  const LockGuard lock(mutex_);
  device_.store(device.get(), std::memory_order_release);
  devices_.push_back(std::move(device));
}

bool Leaf::set_state(VdevState state, VdevAux aux) {
  const VdevState before = state_.exchange(state, std::memory_order_acq_rel);
  aux_.store(aux, std::memory_order_relaxed);
  return before != state;
}

bool Leaf::missed(std::uint64_t txg) const {
  if (!missed_any()) {
    return false;
  }
  const LockGuard lock(mutex_);
  return dtl_.contains(txg);
}

void Leaf::miss(std::uint64_t txg) {
  const LockGuard lock(mutex_);
  if (!dtl_.contains(txg)) {
    dtl_.add(txg, txg + 1);
    dtl_changed_.store(true);
    has_dtl_.store(true, std::memory_order_release);
  }
}

void Leaf::set_dtl(Dtl dtl, bool changed) {
  const LockGuard lock(mutex_);
  dtl_ = std::move(dtl);
  has_dtl_.store(!dtl_.empty(), std::memory_order_release);
  if (changed) {
    dtl_changed_.store(true);
  }
}

void Leaf::scan_started() {
  const LockGuard lock(mutex_);
  unrepaired_ = {};
  passed_by_.store(false, std::memory_order_relaxed);
}

// source: format page 03 section 8, how entries appear.
void Leaf::scan_finished(std::uint64_t below) {
  const LockGuard lock(mutex_);
  const Dtl unrepaired = std::exchange(unrepaired_, {});
  Dtl after = dtl_;
  if (!passed_by_.exchange(false, std::memory_order_relaxed)) {
    after.remove(0, below);
  }
  for (const auto& [first, end] : unrepaired.ranges()) {
    after.add(first, end);
  }
  if (after == dtl_) {
    return;
  }
  dtl_ = std::move(after);
  has_dtl_.store(!dtl_.empty(), std::memory_order_release);
  dtl_changed_.store(true);
}

void Leaf::repair_failed(std::uint64_t txg) {
  const LockGuard lock(mutex_);
  unrepaired_.add(txg, txg + 1);
}

void Leaf::wrote(std::uint64_t txg) {
  const LockGuard lock(mutex_);
  ++written_;
  if (!unflushed_.contains(txg)) {
    unflushed_.add(txg, txg + 1);
  }
}

std::optional<std::uint64_t> Leaf::begin_flush() const {
  const LockGuard lock(mutex_);
  return written_ == flushed_ ? std::nullopt : std::optional(written_);
}

void Leaf::end_flush(std::uint64_t covered, bool done) {
  const LockGuard lock(mutex_);
  if (!done) {
    for (const auto& [first, end] : unflushed_.ranges()) {
      dtl_.add(first, end);
    }
    dtl_changed_.store(true);
    has_dtl_.store(!dtl_.empty(), std::memory_order_release);
    return;
  }
  flushed_ = std::max(flushed_, covered);
  if (flushed_ == written_) {
    unflushed_ = {};
  }
}

Dtl Leaf::dtl() const {
  const LockGuard lock(mutex_);
  return dtl_;
}

bool Leaf::Recent::add() {
  const auto now = std::chrono::steady_clock::now();
  const auto oldest = std::exchange(at[next], now);
  next = (next + 1) % kErrorsTolerated;
  return oldest != std::chrono::steady_clock::time_point{} && now - oldest <= kErrorWindow;
}

bool Leaf::count_io_error(bool write) {
  (write ? write_errors_ : read_errors_).fetch_add(1, std::memory_order_relaxed);
  const LockGuard lock(mutex_);
  return io_errors_.add();
}

bool Leaf::count_checksum_error() {
  checksum_errors_.fetch_add(1, std::memory_order_relaxed);
  const LockGuard lock(mutex_);
  return bad_checksums_.add();
}

void Leaf::count_io(bool write, std::uint64_t bytes) {
  (write ? writes_ : reads_).fetch_add(1, std::memory_order_relaxed);
  (write ? bytes_written_ : bytes_read_).fetch_add(bytes, std::memory_order_relaxed);
}

VdevStats Leaf::stats() const {
  return {read_errors_.load(), write_errors_.load(), checksum_errors_.load(), reads_.load(),
          writes_.load(),      bytes_read_.load(),   bytes_written_.load(),   repaired_.load()};
}

void Leaf::clear_stats() {
  read_errors_ = write_errors_ = checksum_errors_ = 0;
  const LockGuard lock(mutex_);
  io_errors_ = {};
  bad_checksums_ = {};
}

}  // namespace zuse::vdev
