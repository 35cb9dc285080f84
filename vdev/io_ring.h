// Leases of io_uring rings. A batch of I/O borrows a ring for as long as it has something in
// flight, so threads never share one and none needs a thread of its own; returned rings are kept
// for the next batch. Where the kernel refuses io_uring (EPERM in many containers, ENOSYS on old
// kernels), or ZUSE_IO=sync is in the environment, leases come empty and the batch falls back to
// one system call an operation.
#pragma once

#include <liburing.h>

#include <memory>

namespace zuse::vdev {

// Operations that one ring carries at once.
inline constexpr unsigned kRingEntries = 128;
// Rings kept for reuse.
inline constexpr unsigned kRingsKept = 32;

class RingLease {
 public:
  RingLease() noexcept = default;
  RingLease(RingLease&&) noexcept = default;
  RingLease& operator=(RingLease&& other) noexcept;
  ~RingLease();

  // A ring with nothing in flight; empty where io_uring cannot be had. Thread-safe.
  static RingLease take();
  // Whether batches run on plain system calls in this process.
  static bool refused() noexcept;

  explicit operator bool() const noexcept { return ring_ != nullptr; }
  // shape: not empty.
  io_uring& ring() noexcept { return ring_->ring; }
  // Gives the ring back. shape: nothing is in flight on it.
  void release() noexcept;

  struct Ring {
    Ring() noexcept;
    ~Ring();
    Ring(const Ring&) = delete;
    Ring& operator=(const Ring&) = delete;
    io_uring ring{};
    int setup_result = 0;  // 0, or a negative errno
  };

 private:
  explicit RingLease(std::unique_ptr<Ring> ring) noexcept : ring_(std::move(ring)) {}
  std::unique_ptr<Ring> ring_;
};

}  // namespace zuse::vdev
