// IoBatch: many requests, few system calls.
//
// What is queued is sorted by file and offset; neighbours become one operation with a list of
// buffers. Operations go to a leased io_uring, or one by one through preadv and pwritev where there
// is none. Either way the answer comes to complete(), which continues short transfers, and takes a
// failed merged operation apart, so that one bad sector fails only the request that covers it.
//
// Files opened for direct I/O want aligned addresses, offsets and lengths. A read that is not
// aligned reads the aligned range around it into a bounce buffer. A write whose memory is not
// aligned goes out from a bounce buffer; a write of part of a sector is refused, since completing
// the sector from disk could undo a neighbouring write that is in flight.
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "vdev/base/buffer.h"
#include "vdev/base/log.h"
#include "vdev/base/units.h"
#include "vdev/block_device.h"
#include "vdev/io_ring.h"

namespace zuse::vdev {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kMergeLimit = kMiB;
constexpr std::size_t kMergeBuffers = 256;  // of the kernel's 1024 in one call
constexpr unsigned kRetryLimit = 1000;      // of interrupted or postponed operations
constexpr std::size_t kImplsKept = 4;       // a thread

spdlog::logger& log() {
  static spdlog::logger& logger = layer_log("vdev");
  return logger;
}

bool is_aligned(std::uint64_t value, std::uint32_t alignment) noexcept {
  return (value & (alignment - 1)) == 0;
}

bool is_aligned(const void* address, std::uint32_t alignment) noexcept {
  return is_aligned(reinterpret_cast<std::uintptr_t>(address), alignment);
}

IoStatus status_of(int error) noexcept {
  return error == ENODEV || error == ENXIO || error == ENOMEDIUM || error == EBADF
             ? IoStatus::gone
             : IoStatus::io_error;
}

// One operation for the kernel: the work of one request, or of several adjacent ones.
struct FileOp {
  FileAccess file;
  IoOp op = IoOp::read;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t done = 0;
  unsigned retries = 0;
  std::vector<IoRequest*> requests;
  std::vector<iovec> pieces;  // all of the operation's memory
  std::vector<iovec> rest;    // what is left of it: what the kernel is given
  Buffer bounce;
};

struct Queued {
  FileAccess file;
  IoRequest* request;
};

struct Timer {
  Clock::time_point due;
  std::uint64_t order;
  std::function<void()> then;
};
// Puts the timer that is due first at the top of a heap.
bool later(const Timer& left, const Timer& right) noexcept {
  return std::pair(left.due, left.order) > std::pair(right.due, right.order);
}

}  // namespace

struct IoBatch::Impl {
  std::vector<Queued> queued;                  // added, not yet made into operations
  std::vector<std::unique_ptr<FileOp>> held;   // flushes that wait for what was queued before
  std::deque<std::unique_ptr<FileOp>> ready;   // to be given to the kernel
  std::vector<std::unique_ptr<FileOp>> spare;  // for reuse
  std::vector<Timer> timers;                   // a heap
  std::vector<std::pair<int, std::size_t>> unfinished;  // operations but flushes, by file
  std::vector<std::pair<FileOp*, int>> answers;
  std::uint64_t next_order = 0;
  unsigned in_flight = 0;
  RingLease lease;

  bool idle() const noexcept {
    return queued.empty() && held.empty() && ready.empty() && in_flight == 0;
  }

  std::unique_ptr<FileOp> new_op(const FileAccess& file, IoOp op, std::uint64_t offset) {
    std::unique_ptr<FileOp> made;
    if (spare.empty()) {
      made = std::make_unique<FileOp>();
    } else {
      made = std::move(spare.back());
      spare.pop_back();
    }
    made->file = file;
    made->op = op;
    made->offset = offset;
    made->bytes = 0;
    made->done = 0;
    made->retries = 0;
    made->requests.clear();
    made->pieces.clear();
    made->rest.clear();
    return made;
  }
  void recycle(std::unique_ptr<FileOp> op) {
    op->bounce = Buffer();
    if (spare.size() < kRingEntries) {
      spare.push_back(std::move(op));
    }
  }

  std::size_t& unfinished_of(int fd) {
    for (auto& [file, count] : unfinished) {
      if (file == fd) {
        return count;
      }
    }
    return unfinished.emplace_back(fd, 0).second;
  }
  void make_ready(std::unique_ptr<FileOp> op) {
    ++unfinished_of(op->file.fd);
    ready.push_back(std::move(op));
  }

  void make_op(const FileAccess& file, IoRequest& request);
  void make_operations();
  void release_flushes();
  void pump(bool send);
  void pump_sync();
  void reap(bool block);
  void complete(std::unique_ptr<FileOp> op, int result);
  void requeue(std::unique_ptr<FileOp> op);
  void end(std::unique_ptr<FileOp> op, IoStatus status);
  void run_timers();
};

// An operation of this request alone, with a bounce buffer where it needs one.
void IoBatch::Impl::make_op(const FileAccess& file, IoRequest& request) {
  auto op = new_op(file, request.op, request.offset);
  op->requests.push_back(&request);
  op->bytes = request.size();
  if (request.op == IoOp::discard) {
    make_ready(std::move(op));
    return;
  }
  const std::uint32_t unit = file.offset_alignment;
  const bool whole = is_aligned(request.offset, unit) && is_aligned(request.data.size(), unit);
  if (whole && is_aligned(request.data.data(), file.memory_alignment)) {
    op->pieces.push_back({request.data.data(), request.data.size()});
    make_ready(std::move(op));
    return;
  }
  if (request.op == IoOp::write && !whole) {
    log().error("partial_sector_write_refused offset={} length={} sector={}", request.offset,
                request.data.size(), unit);
    recycle(std::move(op));
    request.finish(IoStatus::io_error);
    return;
  }
  op->offset = round_down(request.offset, unit);
  op->bytes = round_up(request.offset + request.data.size(), unit) - op->offset;
  op->bounce = Buffer(op->bytes);
  if (request.op == IoOp::write) {
    std::memcpy(op->bounce.data(), request.data.data(), request.data.size());
  }
  op->pieces.push_back({op->bounce.data(), op->bytes});
  make_ready(std::move(op));
}

void IoBatch::Impl::make_operations() {
  std::vector<Queued> batch;
  batch.swap(queued);
  std::stable_sort(batch.begin(), batch.end(), [](const Queued& left, const Queued& right) {
    const auto key = [](const Queued& q) {
      return std::tuple(q.file.fd, q.request->op, q.request->offset);
    };
    return key(left) < key(right);
  });
  FileOp* last = nullptr;  // the newest operation, while more may join it
  for (const Queued& next : batch) {
    IoRequest& request = *next.request;
    if (request.op == IoOp::flush) {
      auto op = new_op(next.file, IoOp::flush, 0);
      op->requests.push_back(&request);
      held.push_back(std::move(op));
      last = nullptr;
      continue;
    }
    const bool joins = last != nullptr && last->file.fd == next.file.fd && last->op == request.op &&
                       last->offset + last->bytes == request.offset &&
                       last->bytes + request.data.size() <= kMergeLimit &&
                       last->pieces.size() < kMergeBuffers && last->bounce.empty() &&
                       is_aligned(request.data.size(), next.file.offset_alignment) &&
                       is_aligned(request.data.data(), next.file.memory_alignment);
    if (joins) {
      last->requests.push_back(&request);
      last->pieces.push_back({request.data.data(), request.data.size()});
      last->bytes += request.data.size();
      continue;
    }
    const std::size_t before = ready.size();
    make_op(next.file, request);
    last = ready.size() > before && request.op != IoOp::discard ? ready.back().get() : nullptr;
  }
  if (queued.empty()) {
    batch.clear();
    queued.swap(batch);  // keeps its memory
  }
}

void IoBatch::Impl::release_flushes() {
  for (std::size_t i = 0; i < held.size();) {
    if (unfinished_of(held[i]->file.fd) == 0) {
      ready.push_back(std::move(held[i]));
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
}

// Lists what is left of the operation's memory.
namespace {
void list_rest(FileOp& op) {
  op.rest.clear();
  std::uint64_t skip = op.done;
  for (const iovec& piece : op.pieces) {
    if (skip >= piece.iov_len) {
      skip -= piece.iov_len;
      continue;
    }
    op.rest.push_back({static_cast<std::byte*>(piece.iov_base) + skip, piece.iov_len - skip});
    skip = 0;
  }
}

int call_kernel(FileOp& op) {
  const int count = static_cast<int>(op.rest.size());
  const auto at = static_cast<off_t>(op.offset + op.done);
  ssize_t result = 0;
  switch (op.op) {
    case IoOp::read: result = preadv(op.file.fd, op.rest.data(), count, at); break;
    case IoOp::write: result = pwritev(op.file.fd, op.rest.data(), count, at); break;
    case IoOp::flush: result = fdatasync(op.file.fd); break;
    case IoOp::discard:
      result = fallocate(op.file.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at,
                         static_cast<off_t>(op.bytes));
      break;
  }
  return result < 0 ? -errno : static_cast<int>(result);
}

void prepare(io_uring_sqe& sqe, FileOp& op) {
  const auto count = static_cast<unsigned>(op.rest.size());
  const std::uint64_t at = op.offset + op.done;
  switch (op.op) {
    case IoOp::read: io_uring_prep_readv(&sqe, op.file.fd, op.rest.data(), count, at); break;
    case IoOp::write: io_uring_prep_writev(&sqe, op.file.fd, op.rest.data(), count, at); break;
    case IoOp::flush: io_uring_prep_fsync(&sqe, op.file.fd, IORING_FSYNC_DATASYNC); break;
    case IoOp::discard:
      io_uring_prep_fallocate(&sqe, op.file.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                              static_cast<off_t>(at), static_cast<off_t>(op.bytes));
      break;
  }
  io_uring_sqe_set_data(&sqe, &op);
}
}  // namespace

// Fills the ring with what is ready, and with `send` gives it to the kernel; else reap() does both
// in one call. What the ring has no room for stays ready.
void IoBatch::Impl::pump(bool send) {
  release_flushes();
  if (ready.empty()) {
    return;
  }
  if (!lease) {
    lease = RingLease::take();
    if (!lease) {
      return;  // wait() carries them out one by one
    }
  }
  io_uring& ring = lease.ring();
  bool added = false;
  while (!ready.empty() && in_flight < kRingEntries) {
    io_uring_sqe* const sqe = io_uring_get_sqe(&ring);
    if (sqe == nullptr) {
      break;
    }
    FileOp* const op = ready.front().release();  // owned by the kernel until reaped
    ready.pop_front();
    list_rest(*op);
    prepare(*sqe, *op);
    ++in_flight;
    added = true;
  }
  if (added && send) {
    io_uring_submit(&ring);  // what it could not take is taken when reaping
  }
}

void IoBatch::Impl::pump_sync() {
  release_flushes();
  while (!ready.empty()) {
    auto op = std::move(ready.front());
    ready.pop_front();
    list_rest(*op);
    const int result = call_kernel(*op);
    complete(std::move(op), result);
  }
}

// Takes answers off the ring. With `block`, waits for one, or for the next timer.
void IoBatch::Impl::reap(bool block) {
  io_uring& ring = lease.ring();
  io_uring_cqe* first = nullptr;
  if (block) {
    int result = 0;
    if (timers.empty()) {
      result = io_uring_submit_and_wait(&ring, 1);
    } else {
      const auto left = std::max(timers.front().due - Clock::now(), Clock::duration::zero());
      const auto nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(left).count();
      __kernel_timespec timeout{.tv_sec = nanoseconds / 1'000'000'000,
                                .tv_nsec = nanoseconds % 1'000'000'000};
      result = io_uring_submit_and_wait_timeout(&ring, &first, 1, &timeout, nullptr);
    }
    // Interruptions, time-outs and a full queue end by themselves; anything else is a ring that
    // this code has misused.
    ZUSE_CHECK(result >= 0 || result == -EINTR || result == -ETIME || result == -EBUSY ||
               result == -EAGAIN || result == -ENOMEM);
  }
  std::array<io_uring_cqe*, 32> found{};
  answers.clear();
  for (;;) {
    const unsigned count = io_uring_peek_batch_cqe(&ring, found.data(), found.size());
    for (unsigned i = 0; i < count; ++i) {
      // A time-out of older liburing answers for itself, without data.
      if (auto* const op = static_cast<FileOp*>(io_uring_cqe_get_data(found[i]));
          op != nullptr && found[i]->user_data != LIBURING_UDATA_TIMEOUT) {
        answers.emplace_back(op, found[i]->res);
      }
    }
    io_uring_cq_advance(&ring, count);
    if (count < found.size()) {
      break;
    }
  }
  in_flight -= static_cast<unsigned>(answers.size());
  // Completions may use the batch again, but not reap: answers stays ours.
  for (const auto& [op, result] : answers) {
    complete(std::unique_ptr<FileOp>(op), result);
  }
  answers.clear();
}

void IoBatch::Impl::requeue(std::unique_ptr<FileOp> op) {
  ready.push_back(std::move(op));
}

void IoBatch::Impl::complete(std::unique_ptr<FileOp> op, int result) {
  if (result == -EINTR || result == -EAGAIN || result == -ECANCELED) {
    if (++op->retries <= kRetryLimit) {
      requeue(std::move(op));
    } else {
      end(std::move(op), IoStatus::io_error);
    }
    return;
  }
  if (result < 0) {
    if (op->op == IoOp::discard && (result == -EOPNOTSUPP || result == -ENOSYS)) {
      end(std::move(op), IoStatus::ok);  // a hint that the file system does not take
      return;
    }
    log().debug("io_failed op={} offset={} length={} errno={}", to_string(op->op), op->offset,
                op->bytes, -result);
    if (op->requests.size() > 1) {
      const std::vector<IoRequest*> parts = std::move(op->requests);
      const FileAccess file = op->file;
      // The parts are ready before the whole ends, so that no flush slips in between.
      for (IoRequest* const part : parts) {
        make_op(file, *part);
      }
      op->requests.clear();
      end(std::move(op), IoStatus::io_error);
      return;
    }
    end(std::move(op), status_of(-result));
    return;
  }
  if (op->op == IoOp::flush || op->op == IoOp::discard) {
    end(std::move(op), IoStatus::ok);
    return;
  }
  const std::uint64_t before = op->done;
  op->done += static_cast<std::uint64_t>(result);
  if (op->done >= op->bytes) {
    end(std::move(op), IoStatus::ok);
    return;
  }
  op->done = round_down(op->done, op->file.offset_alignment);
  if (op->done == before) {
    end(std::move(op), IoStatus::io_error);  // the file ends here: it has been cut short
    return;
  }
  requeue(std::move(op));
}

// The operation is over: its requests learn of it. With an error, those that were transferred
// before it are good.
void IoBatch::Impl::end(std::unique_ptr<FileOp> op, IoStatus status) {
  if (op->op != IoOp::flush) {
    --unfinished_of(op->file.fd);
  }
  if (status == IoStatus::ok && op->op == IoOp::read && !op->bounce.empty()) {
    const IoRequest& request = *op->requests.front();
    std::memcpy(request.data.data(), op->bounce.data() + (request.offset - op->offset),
                request.data.size());
  }
  std::uint64_t position = 0;
  for (IoRequest* const request : op->requests) {
    position += request->data.size();
    const bool good = status == IoStatus::ok || (op->requests.size() > 1 && position <= op->done);
    request->finish(good ? IoStatus::ok : status);
  }
  recycle(std::move(op));
}

void IoBatch::Impl::run_timers() {
  while (!timers.empty() && timers.front().due <= Clock::now()) {
    std::pop_heap(timers.begin(), timers.end(), later);
    const auto then = std::move(timers.back().then);
    timers.pop_back();
    then();
  }
}

namespace {
// Batches come and go with every read: their vectors are kept by the thread.
template <class Impl>
std::vector<std::unique_ptr<Impl>>& kept_impls() {
  thread_local std::vector<std::unique_ptr<Impl>> kept;
  return kept;
}
}  // namespace

IoBatch::IoBatch() : impl_(nullptr) {
  auto& kept = kept_impls<Impl>();
  if (kept.empty()) {
    impl_ = new Impl;
  } else {
    impl_ = kept.back().release();
    kept.pop_back();
  }
}

IoBatch::~IoBatch() {
  wait();
  std::unique_ptr<Impl> impl(impl_);
  impl->unfinished.clear();
  if (auto& kept = kept_impls<Impl>(); kept.size() < kImplsKept) {
    kept.push_back(std::move(impl));
  }
}

void IoBatch::queue_file(const FileAccess& file, IoRequest& request) {
  if (request.op == IoOp::read || request.op == IoOp::write) {
    if (request.data.empty()) {
      request.finish(IoStatus::ok);
      return;
    }
  }
  impl_->queued.push_back({file, &request});
}

void IoBatch::call_at(Clock::time_point due, std::function<void()> then) {
  impl_->timers.push_back({due, impl_->next_order++, std::move(then)});
  std::push_heap(impl_->timers.begin(), impl_->timers.end(), later);
}

void IoBatch::submit() {
  if (!impl_->queued.empty()) {
    impl_->make_operations();
  }
  impl_->pump(true);
}

void IoBatch::wait() {
  for (;;) {
    impl_->run_timers();
    if (!impl_->queued.empty()) {
      impl_->make_operations();
    }
    impl_->pump(false);
    if (impl_->idle()) {
      impl_->lease.release();
      if (impl_->timers.empty()) {
        return;
      }
      std::this_thread::sleep_until(impl_->timers.front().due);
    } else if (impl_->in_flight > 0) {
      impl_->reap(true);
    } else if (!impl_->lease) {
      impl_->pump_sync();
    }
  }
}

}  // namespace zuse::vdev
