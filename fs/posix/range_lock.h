// Locks on byte ranges of files: readers share, a writer has its range alone, and who resizes a
// file takes all of it. Held across I/O, so these are entries in a list and not mutexes.
#pragma once

#include <array>
#include <cstdint>
#include <list>

#include "vdev/base/sync.h"

namespace zuse::posix {

// Thread-safe. Files share a few lists, chosen by object number.
class RangeLocks {
 private:
  struct Stripe;
  struct Held {
    std::uint64_t object = 0, first = 0, last = 0;  // last is included
    bool shared = false;
  };
  struct Stripe {
    Mutex mutex{LockRank::file_range};
    CondVar freed;
    std::list<Held> held ZUSE_GUARDED_BY(mutex);
  };

 public:
  static constexpr std::uint64_t kWholeFile = ~std::uint64_t{0};

  // Gives its range back when it dies. Movable.
  class Guard {
   public:
    Guard() = default;
    Guard(Guard&& other) noexcept : stripe_(other.stripe_), position_(other.position_) {
      other.stripe_ = nullptr;
    }
    Guard& operator=(Guard&& other) noexcept {
      release();
      stripe_ = other.stripe_;
      position_ = other.position_;
      other.stripe_ = nullptr;
      return *this;
    }
    ~Guard() { release(); }
    void release() noexcept;

   private:
    friend class RangeLocks;
    Guard(Stripe& stripe, std::list<Held>::iterator position)
        : stripe_(&stripe), position_(position) {}
    Stripe* stripe_ = nullptr;
    std::list<Held>::iterator position_;
  };

  // Waits until nobody else holds any of [offset, offset + length) in a way that excludes this one.
  // shape: length > 0, or kWholeFile with offset 0. A thread must not ask while it holds a range of
  // the same file, nor inside a transaction.
  Guard lock(std::uint64_t object, std::uint64_t offset, std::uint64_t length, bool shared);

 private:
  std::array<Stripe, 16> stripes_;
};

}  // namespace zuse::posix
