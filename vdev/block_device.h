// The abstract device: a run of bytes that can be read, written and flushed, and that may fail.
//
// I/O is asynchronous by batch. A caller adds requests for any number of devices to an IoBatch,
// submits it, and waits; completions run on the waiting thread. There is no I/O thread to hand over
// to: the file backend leases an io_uring for the batch, so one submission carries many requests,
// and adjacent ones are merged. Decorators (faults, recording) override start() and hook
// completion.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "vdev/base/result.h"

namespace zuse::vdev {

enum class IoOp : std::uint8_t { read, write, flush, discard };

// Why the I/O is done; a fault rule may exempt or select by it.
enum class IoPurpose : std::uint8_t { normal, scrub, repair, label, probe };

// Who asked: opaque to vdev, matched by fault rules, shown in traces. All ones: not block I/O.
struct IoTag {
  std::uint64_t objset = ~std::uint64_t{0};
  std::uint64_t object = ~std::uint64_t{0};
  std::int32_t level = 0;
  std::uint64_t block = ~std::uint64_t{0};
};

enum class IoStatus : std::uint8_t { pending, ok, io_error, gone };

// One piece of I/O. Lives at its caller until the batch has been waited for.
struct IoRequest {
  IoOp op = IoOp::read;
  IoPurpose purpose = IoPurpose::normal;
  IoStatus status = IoStatus::pending;
  std::uint64_t offset = 0;   // bytes from the device's start; physical, labels included
  std::span<std::byte> data;  // read: filled; write: not changed; flush: empty
  std::uint64_t length = 0;   // discard only
  IoTag tag;
  // Called once, when status is set, on the thread that waits for the batch (or that started the
  // request, for devices that answer at once). The layer that owns the request sets it; a decorator
  // that needs to see the completion wraps it and calls the one it found.
  std::function<void(IoRequest&)> on_done;

  // Bytes that the request covers on the device; 0 for a flush.
  std::uint64_t size() const noexcept { return op == IoOp::discard ? length : data.size(); }

  // May be the end of the request's life: its owner learns of it here.
  void finish(IoStatus result) {
    status = result;
    if (on_done) {
      on_done(*this);
    }
  }
};

class IoBatch;

// "read", "write", "flush", "discard".
const char* to_string(IoOp op) noexcept;

// How one open file wants to be spoken to. Alignments of 1: page-cached, anything goes.
struct FileAccess {
  int fd = -1;
  std::uint32_t memory_alignment = 1;  // bytes, a power of two: of buffer addresses
  std::uint32_t offset_alignment = 1;  // bytes, a power of two: of offsets and lengths
};

// Thread-safe, except that close-like operations need the owner to have stopped all I/O.
class BlockDevice {
 public:
  virtual ~BlockDevice() = default;
  BlockDevice() = default;
  BlockDevice(const BlockDevice&) = delete;
  BlockDevice& operator=(const BlockDevice&) = delete;

  // What messages call it: its path, or "memory:3".
  virtual const std::string& name() const = 0;
  virtual std::uint64_t size() const = 0;     // bytes
  virtual unsigned sector_shift() const = 0;  // log2 of the smallest write, >= 9
  virtual bool read_only() const = 0;
  // What is written goes to the device from memory, and this CPU does not read it again (direct
  // I/O): it need not be left in the caches.
  virtual bool uncached() const { return false; }
  // Begins one request. A request that runs past size(), or a write to a read-only device, ends
  // with io_error. Never blocks on the device where it can be avoided; must end in exactly one
  // request.finish(), now or while the batch is waited for.
  virtual void start(IoRequest& request, IoBatch& batch) = 0;

  // One request, carried out and waited for. errors: io, gone (named after this device).
  Result<void> read(std::uint64_t offset, std::span<std::byte> into,
                    IoPurpose purpose = IoPurpose::normal);
  Result<void> write(std::uint64_t offset, std::span<const std::byte> from,
                     IoPurpose purpose = IoPurpose::normal);
  Result<void> flush();
};

// A set of requests in flight. Used by one thread at a time. Waiting is mandatory before the
// requests die; the destructor does it. Requests of a batch have no order among them, but for one
// rule: a flush begins after the requests of its device that were queued before it have ended.
// Completions may add requests to the batch, and those are waited for too.
class IoBatch {
 public:
  IoBatch();
  ~IoBatch();
  IoBatch(const IoBatch&) = delete;
  IoBatch& operator=(const IoBatch&) = delete;

  // Hands a request to its device. Requests may start at any time from here on.
  void add(BlockDevice& device, IoRequest& request) { device.start(request, *this); }
  // Sends everything added so far to the kernel, adjacent requests of one file merged. Does not
  // wait.
  void submit();
  // Submits, and returns when every request added has been finished.
  void wait();

  // For file devices: queue one operation on an open file. fd stays open until the batch is waited
  // for.
  void queue_file(const FileAccess& file, IoRequest& request);
  void queue_file(int fd, IoRequest& request) { queue_file(FileAccess{.fd = fd}, request); }

  // Calls `then` on the waiting thread once the clock has reached `due`: wait() does not return
  // before. For decorators that hold a completion back.
  void call_at(std::chrono::steady_clock::time_point due, std::function<void()> then);

 private:
  struct Impl;
  Impl* impl_;
};

}  // namespace zuse::vdev
