// The threads that compress, checksum and compute parity: one a core, shared by a whole pool.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "vdev/base/sync.h"

namespace zuse {

// A fixed set of worker threads. Thread-safe. A task must not wait for another task of the pool.
class CpuPool {
 public:
  explicit CpuPool(unsigned threads = std::thread::hardware_concurrency());
  ~CpuPool();  // runs what is queued, then stops
  CpuPool(const CpuPool&) = delete;
  CpuPool& operator=(const CpuPool&) = delete;

  unsigned size() const noexcept { return static_cast<unsigned>(threads_.size()); }
  void run(std::function<void()> task);
  // Calls body(0) ... body(count - 1), spread over the workers and the calling thread; returns when
  // all have returned. Indices are handed out in order.
  void for_each_index(std::size_t count, const std::function<void(std::size_t)>& body);

 private:
  void work();

  Mutex mutex_{LockRank::leaf};
  CondVar wake_;
  std::deque<std::function<void()>> queue_ ZUSE_GUARDED_BY(mutex_);
  bool stopping_ ZUSE_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace zuse
