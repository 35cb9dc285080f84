#include "fs/object/prefetcher.h"

#include <utility>

namespace zuse::object {

namespace {

constexpr std::size_t kQueueMax = 32;
constexpr std::size_t kThreads = 2;

}  // namespace

void Prefetcher::add(std::function<void()> task) {
  {
    const LockGuard lock(mutex_);
    if (stopping_ || queue_.size() >= kQueueMax) {
      return;
    }
    queue_.push_back(std::move(task));
    if (threads_.size() < kThreads) {
      threads_.emplace_back([this] { work(); });
    }
  }
  wake_.notify_one();
}

void Prefetcher::stop() {
  std::vector<std::thread> threads;
  std::deque<std::function<void()>> dropped;
  {
    const LockGuard lock(mutex_);
    stopping_ = true;
    threads.swap(threads_);
    dropped.swap(queue_);
  }
  wake_.notify_all();
  for (std::thread& thread : threads) {
    thread.join();
  }
}

void Prefetcher::work() {
  for (;;) {
    std::function<void()> task;
    {
      const LockGuard lock(mutex_);
      while (queue_.empty() && !stopping_) {
        wake_.wait(mutex_);
      }
      if (stopping_) {
        return;
      }
      task = std::move(queue_.front());
      queue_.pop_front();
    }
    task();
  }
}

}  // namespace zuse::object
