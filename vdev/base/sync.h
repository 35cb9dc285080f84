// Locks that know their order. Each mutex is made with its rank; a thread may take a lock only
// while every lock it holds has a lower rank. Debug builds abort on an inversion; Clang's
// thread-safety analysis checks who may touch what (libstdc++'s own mutex carries no capability,
// hence the wrapper).
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <shared_mutex>

#if defined(__clang__)
#define ZUSE_TSA(x) __attribute__((x))
#else
#define ZUSE_TSA(x)
#endif
#define ZUSE_CAPABILITY(name) ZUSE_TSA(capability(name))
#define ZUSE_SCOPED_CAPABILITY ZUSE_TSA(scoped_lockable)
#define ZUSE_GUARDED_BY(mutex) ZUSE_TSA(guarded_by(mutex))
#define ZUSE_REQUIRES(...) ZUSE_TSA(requires_capability(__VA_ARGS__))
#define ZUSE_REQUIRES_SHARED(...) ZUSE_TSA(requires_shared_capability(__VA_ARGS__))
#define ZUSE_ACQUIRE(...) ZUSE_TSA(acquire_capability(__VA_ARGS__))
#define ZUSE_ACQUIRE_SHARED(...) ZUSE_TSA(acquire_shared_capability(__VA_ARGS__))
#define ZUSE_RELEASE(...) ZUSE_TSA(release_capability(__VA_ARGS__))
#define ZUSE_RELEASE_SHARED(...) ZUSE_TSA(release_shared_capability(__VA_ARGS__))
#define ZUSE_RELEASE_GENERIC(...) ZUSE_TSA(release_generic_capability(__VA_ARGS__))
#define ZUSE_TRY_ACQUIRE(...) ZUSE_TSA(try_acquire_capability(__VA_ARGS__))
#define ZUSE_EXCLUDES(...) ZUSE_TSA(locks_excluded(__VA_ARGS__))
#define ZUSE_NO_THREAD_SAFETY_ANALYSIS ZUSE_TSA(no_thread_safety_analysis)

namespace zuse {

// The order of locks, outermost first. Two locks of one rank are never held together, except where
// a class says how it orders them (by object number, say).
enum class LockRank : std::uint16_t {
  control = 10,      // the daemon: command in progress
  mounts = 20,       // table of mounted datasets
  file_system = 30,  // posix: whole-file-system state
  znode_table = 35,
  directory = 40,     // posix: names of one directory
  znode = 50,         // posix: attributes of one file
  file_range = 55,    // posix: byte ranges of one file
  dataset_pool = 60,  // dataset: table of open datasets, pool-wide sync state
  dataset = 65,       // dataset: one dataset's counters
  zap = 70,           // object: one ZAP's contents
  objset = 75,        // object: tables of one object set
  dnode = 80,         // object: one object's dirty records
  txg = 100,          // pool: transaction group states
  scan = 105,
  allocator = 110,  // pool: choice of metaslab
  metaslab = 115,
  cache = 120,      // pool: one shard of the cache
  vdev_tree = 130,  // vdev: states and counters
  dtl = 135,
  fault_engine = 140,
  device = 150,
  io_ring = 160,
  leaf = 1000,  // held for a few instructions, calls nothing
};

#ifdef NDEBUG
inline void lock_rank_acquire(LockRank) noexcept {}
inline void lock_rank_release(LockRank) noexcept {}
#else
void lock_rank_acquire(LockRank rank) noexcept;
void lock_rank_release(LockRank rank) noexcept;
#endif

class ZUSE_CAPABILITY("mutex") Mutex {
 public:
  explicit Mutex(LockRank rank) noexcept : rank_(rank) {}
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() ZUSE_ACQUIRE() {
    lock_rank_acquire(rank_);
    mutex_.lock();
  }
  bool try_lock() ZUSE_TRY_ACQUIRE(true) {
    if (!mutex_.try_lock()) {
      return false;
    }
    lock_rank_acquire(rank_);
    return true;
  }
  void unlock() ZUSE_RELEASE() {
    mutex_.unlock();
    lock_rank_release(rank_);
  }

 private:
  std::mutex mutex_;
  [[maybe_unused]] LockRank rank_;
};

class ZUSE_CAPABILITY("shared_mutex") SharedMutex {
 public:
  explicit SharedMutex(LockRank rank) noexcept : rank_(rank) {}
  SharedMutex(const SharedMutex&) = delete;
  SharedMutex& operator=(const SharedMutex&) = delete;

  void lock() ZUSE_ACQUIRE() {
    lock_rank_acquire(rank_);
    mutex_.lock();
  }
  void unlock() ZUSE_RELEASE() {
    mutex_.unlock();
    lock_rank_release(rank_);
  }
  void lock_shared() ZUSE_ACQUIRE_SHARED() {
    lock_rank_acquire(rank_);
    mutex_.lock_shared();
  }
  void unlock_shared() ZUSE_RELEASE_SHARED() {
    mutex_.unlock_shared();
    lock_rank_release(rank_);
  }

 private:
  std::shared_mutex mutex_;
  [[maybe_unused]] LockRank rank_;
};

class ZUSE_SCOPED_CAPABILITY LockGuard {
 public:
  explicit LockGuard(Mutex& mutex) ZUSE_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~LockGuard() ZUSE_RELEASE() { mutex_.unlock(); }
  LockGuard(const LockGuard&) = delete;
  LockGuard& operator=(const LockGuard&) = delete;

 private:
  Mutex& mutex_;
};

class ZUSE_SCOPED_CAPABILITY ExclusiveGuard {
 public:
  explicit ExclusiveGuard(SharedMutex& mutex) ZUSE_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~ExclusiveGuard() ZUSE_RELEASE() { mutex_.unlock(); }
  ExclusiveGuard(const ExclusiveGuard&) = delete;
  ExclusiveGuard& operator=(const ExclusiveGuard&) = delete;

 private:
  SharedMutex& mutex_;
};

class ZUSE_SCOPED_CAPABILITY SharedGuard {
 public:
  explicit SharedGuard(SharedMutex& mutex) ZUSE_ACQUIRE_SHARED(mutex) : mutex_(mutex) {
    mutex_.lock_shared();
  }
  ~SharedGuard() ZUSE_RELEASE_GENERIC() { mutex_.unlock_shared(); }
  SharedGuard(const SharedGuard&) = delete;
  SharedGuard& operator=(const SharedGuard&) = delete;

 private:
  SharedMutex& mutex_;
};

// A condition variable over Mutex. Waits may wake without cause: loop on the condition.
class CondVar {
 public:
  void wait(Mutex& mutex) ZUSE_REQUIRES(mutex) { condition_.wait(mutex); }
  template <class Duration>
  bool wait_for(Mutex& mutex, Duration duration) ZUSE_REQUIRES(mutex) {
    return condition_.wait_for(mutex, duration) == std::cv_status::no_timeout;
  }
  void notify_one() noexcept { condition_.notify_one(); }
  void notify_all() noexcept { condition_.notify_all(); }

 private:
  std::condition_variable_any condition_;
};

}  // namespace zuse
