// Transaction groups, moved on by one thread: it closes the open group (whoever comes next enters
// the group after it), waits for those who are still inside, and hands it to the sync. While that
// runs, the next group fills. A group is thus open, then quiescing, then syncing, and there is
// never more than one in each of the last two states.
#include "fs/pool/txg.h"

#include <algorithm>
#include <utility>

#include "vdev/base/log.h"

namespace zuse::pool {
namespace {

spdlog::logger& log() {
  static auto& l = layer_log("pool");
  return l;
}

constexpr unsigned slot_of(std::uint64_t txg) noexcept {
  return static_cast<unsigned>(txg % kTxgSlots);
}

std::uint64_t sum(const std::array<std::uint64_t, kTxgSlots>& values) noexcept {
  std::uint64_t total = 0;
  for (const std::uint64_t value : values) {
    total += value;
  }
  return total;
}

}  // namespace

TxHold::TxHold(TxHold&& other) noexcept
    : manager_(std::exchange(other.manager_, nullptr)), txg_(std::exchange(other.txg_, 0)) {}

TxHold& TxHold::operator=(TxHold&& other) noexcept {
  if (this != &other) {
    TxHold old(std::move(*this));
    manager_ = std::exchange(other.manager_, nullptr);
    txg_ = std::exchange(other.txg_, 0);
  }
  return *this;
}

TxHold::~TxHold() {
  if (manager_ != nullptr) {
    manager_->release(txg_);
  }
}

TxgManager::TxgManager(std::uint64_t last_synced, TxgOptions options, Sync sync)
    : options_(options),
      sync_(std::move(sync)),
      open_(std::max(last_synced + 1, kFirstTxg)),
      synced_(last_synced),
      thread_([this] { run(); }) {}

TxgManager::~TxgManager() {
  {
    const LockGuard lock(mutex_);
    ZUSE_CHECK(sum(holds_) == 0);
  }
  if (auto stopped = stop(); !stopped) {
    log().error("txg_last_sync_failed why={}", stopped.error().what());
  }
}

Result<TxHold> TxgManager::hold() {
  const LockGuard lock(mutex_);
  for (;;) {
    if (!failure_) {
      return std::unexpected(failure_.error());
    }
    if (stopping_) {
      return fail(Errc::stopped, "the pool is closing");
    }
    // Nobody changes anything in a newer group while somebody still does in an older one: what both
    // touch would go to disk with the older, ahead of what it belongs to.
    if (sum(dirty_) <= options_.dirty_limit && holds_[slot_of(open_ - 1)] == 0) {
      break;
    }
    changed_.wait(mutex_);
  }
  TxHold held;
  held.manager_ = this;
  held.txg_ = open_;
  ++holds_[slot_of(open_)];
  return held;
}

void TxgManager::release(std::uint64_t txg) {
  const LockGuard lock(mutex_);
  std::uint64_t& holds = holds_[slot_of(txg)];
  ZUSE_CHECK(holds > 0);
  if (--holds == 0 && txg < open_) {
    changed_.notify_all();
  }
}

std::uint64_t TxgManager::open_txg() const {
  const LockGuard lock(mutex_);
  return open_;
}

std::uint64_t TxgManager::last_synced() const {
  const LockGuard lock(mutex_);
  return synced_;
}

void TxgManager::add_dirty(std::uint64_t txg, std::uint64_t bytes) {
  const LockGuard lock(mutex_);
  if (txg <= synced_) {
    return;
  }
  std::uint64_t& dirty = dirty_[slot_of(txg)];
  const bool was_below = dirty < options_.dirty_sync;
  dirty += bytes;
  if ((was_below && dirty >= options_.dirty_sync) || sum(dirty_) > options_.dirty_limit) {
    changed_.notify_all();
  }
}

std::uint64_t TxgManager::dirty_bytes() const {
  const LockGuard lock(mutex_);
  return sum(dirty_);
}

Result<void> TxgManager::wait_synced(std::uint64_t txg) {
  const LockGuard lock(mutex_);
  const std::uint64_t target = txg != 0 ? txg : open_;
  if (wanted_ < target) {
    wanted_ = target;
    changed_.notify_all();
  }
  while (synced_ < target) {
    if (!failure_) {
      return failure_;
    }
    if (ended_) {
      return fail(Errc::stopped, "the pool is closed");
    }
    changed_.wait(mutex_);
  }
  return {};
}

void TxgManager::kick() {
  const LockGuard lock(mutex_);
  if (wanted_ < open_) {
    wanted_ = open_;
    changed_.notify_all();
  }
}

Result<void> TxgManager::stop() {
  {
    const LockGuard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) {
    thread_.join();
  }
  const LockGuard lock(mutex_);
  return failure_;
}

void TxgManager::run() {
  const LockGuard lock(mutex_);
  auto due = std::chrono::steady_clock::now() + options_.interval;
  const std::uint64_t enough = std::min(options_.dirty_sync, options_.dirty_limit);
  for (bool last = false; !last;) {
    for (;;) {
      const auto now = std::chrono::steady_clock::now();
      if (stopping_ || wanted_ >= open_ || dirty_[slot_of(open_)] >= enough ||
          sum(dirty_) > options_.dirty_limit || now >= due) {
        break;
      }
      changed_.wait_for(mutex_, due - now);
    }
    due = std::chrono::steady_clock::now() + options_.interval;
    last = stopping_;
    const std::uint64_t txg = open_++;
    while (holds_[slot_of(txg)] != 0) {
      changed_.wait(mutex_);
    }
    mutex_.unlock();
    auto result = sync_(txg);
    mutex_.lock();
    if (!result) {
      log().error("txg_sync_failed txg={} why={}", txg, result.error().what());
      failure_ = std::move(result);
      break;
    }
    synced_ = txg;
    dirty_[slot_of(txg)] = 0;
    changed_.notify_all();
  }
  ended_ = true;
  changed_.notify_all();
}

}  // namespace zuse::pool
