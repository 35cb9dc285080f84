// Background reading for one object set: two threads, started when first needed, and a short queue
// that drops what does not fit. Internal to fs/object.
#pragma once

#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "vdev/base/sync.h"

namespace zuse::object {

// Thread-safe.
class Prefetcher {
 public:
  Prefetcher() = default;
  ~Prefetcher() { stop(); }
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // Never waits; a task that finds the queue full is dropped.
  void add(std::function<void()> task);
  // Drops what waits, lets what runs finish. Later tasks are dropped.
  void stop();

 private:
  void work();

  Mutex mutex_{LockRank::leaf};
  CondVar wake_;
  std::deque<std::function<void()>> queue_ ZUSE_GUARDED_BY(mutex_);
  bool stopping_ ZUSE_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_ ZUSE_GUARDED_BY(mutex_);
};

}  // namespace zuse::object
