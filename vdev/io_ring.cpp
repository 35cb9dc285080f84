// The pool behind ring leases. A ring belongs to the process that made it: after a fork the child
// makes its own, and leaves those that it inherited alone.
#include "vdev/io_ring.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <string_view>
#include <utility>
#include <vector>

#include "vdev/base/log.h"
#include "vdev/base/sync.h"

namespace zuse::vdev {
namespace {

spdlog::logger& log() {
  static spdlog::logger& logger = layer_log("vdev");
  return logger;
}

bool asked_for_sync() {
  const char* const value = std::getenv("ZUSE_IO");
  return value != nullptr && std::string_view(value) == "sync";
}

class RingPool {
 public:
  std::unique_ptr<RingLease::Ring> take() {
    const LockGuard guard(mutex_);
    if (const pid_t now = getpid(); now != owner_) {
      for (auto& inherited : free_) {
        static_cast<void>(inherited.release());
      }
      free_.clear();
      owner_ = now;
    }
    if (free_.empty()) {
      return nullptr;
    }
    auto ring = std::move(free_.back());
    free_.pop_back();
    return ring;
  }
  // The ring comes back if there are enough already, to be closed without the lock.
  std::unique_ptr<RingLease::Ring> give(std::unique_ptr<RingLease::Ring> ring) {
    const LockGuard guard(mutex_);
    if (free_.size() < kRingsKept && owner_ == getpid()) {
      free_.push_back(std::move(ring));
    }
    return ring;
  }

  std::atomic<bool> refused{asked_for_sync()};

 private:
  Mutex mutex_{LockRank::io_ring};
  pid_t owner_ ZUSE_GUARDED_BY(mutex_) = getpid();
  std::vector<std::unique_ptr<RingLease::Ring>> free_ ZUSE_GUARDED_BY(mutex_);
};

RingPool& pool() {
  static RingPool* const instance = new RingPool;  // leases may outlive static destruction
  return *instance;
}

}  // namespace

RingLease::Ring::Ring() noexcept : setup_result(io_uring_queue_init(kRingEntries, &ring, 0)) {}

RingLease::Ring::~Ring() {
  if (setup_result == 0) {
    io_uring_queue_exit(&ring);
  }
}

RingLease& RingLease::operator=(RingLease&& other) noexcept {
  if (this != &other) {
    release();
    ring_ = std::move(other.ring_);
  }
  return *this;
}

RingLease::~RingLease() {
  release();
}

void RingLease::release() noexcept {
  if (ring_) {
    static_cast<void>(pool().give(std::move(ring_)));
    ring_.reset();
  }
}

bool RingLease::refused() noexcept {
  return pool().refused.load(std::memory_order_relaxed);
}

RingLease RingLease::take() {
  if (refused()) {
    return {};
  }
  if (auto ring = pool().take()) {
    return RingLease(std::move(ring));
  }
  auto ring = std::make_unique<Ring>();
  if (ring->setup_result == 0) {
    return RingLease(std::move(ring));
  }
  // Lack of memory or descriptors may pass, so only this batch does without.
  const int error = -ring->setup_result;
  if (error != ENOMEM && error != EMFILE && error != ENFILE && error != EAGAIN) {
    if (!pool().refused.exchange(true)) {
      log().info("io_uring_refused errno={} fallback=system_calls", error);
    }
  }
  return {};
}

}  // namespace zuse::vdev
