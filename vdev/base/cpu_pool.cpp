#include "vdev/base/cpu_pool.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

namespace zuse {

CpuPool::CpuPool(unsigned threads) {
  threads = std::max(threads, 1U);
  threads_.reserve(threads);
  for (unsigned i = 0; i < threads; ++i) {
    threads_.emplace_back([this] { work(); });
  }
}

CpuPool::~CpuPool() {
  {
    const LockGuard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

void CpuPool::run(std::function<void()> task) {
  {
    const LockGuard lock(mutex_);
    queue_.push_back(std::move(task));
  }
  wake_.notify_one();
}

void CpuPool::work() {
  for (;;) {
    std::function<void()> task;
    {
      const LockGuard lock(mutex_);
      while (queue_.empty() && !stopping_) {
        wake_.wait(mutex_);
      }
      if (queue_.empty()) {
        return;
      }
      task = std::move(queue_.front());
      queue_.pop_front();
    }
    task();
  }
}

void CpuPool::for_each_index(std::size_t count, const std::function<void(std::size_t)>& body) {
  // Shared by the helpers that start late: they may find nothing left after this call has returned.
  struct Job {
    explicit Job(const std::function<void(std::size_t)>& b, std::size_t n) : body(b), count(n) {}
    const std::function<void(std::size_t)>& body;
    const std::size_t count;
    std::atomic<std::size_t> next{0};
    std::atomic<std::size_t> finished{0};
    Mutex mutex{LockRank::leaf};
    CondVar all_finished;

    void help() {
      for (std::size_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) {
        body(i);
        if (finished.fetch_add(1) + 1 == count) {
          const LockGuard lock(mutex);
          all_finished.notify_all();
        }
      }
    }
  };
  if (count == 0) {
    return;
  }
  const auto job = std::make_shared<Job>(body, count);
  const std::size_t helpers = std::min<std::size_t>(count - 1, size());
  for (std::size_t i = 0; i < helpers; ++i) {
    run([job] { job->help(); });
  }
  job->help();
  const LockGuard lock(job->mutex);
  while (job->finished.load() < count) {
    job->all_finished.wait(job->mutex);
  }
}

}  // namespace zuse
