// What every device shares: one request carried out and waited for, and the words for messages.
// Batches live in io_batch.cpp.
#include "vdev/block_device.h"

#include <fmt/format.h>

namespace zuse::vdev {
namespace {

Result<void> carry_out(BlockDevice& device, IoRequest& request) {
  {
    IoBatch batch;
    batch.add(device, request);
    batch.wait();
  }
  switch (request.status) {
    case IoStatus::ok: return {};
    case IoStatus::gone:
      return fail(Errc::gone, fmt::format("{}: the device is gone", device.name()));
    case IoStatus::pending:
    case IoStatus::io_error: break;
  }
  if (request.op == IoOp::flush) {
    return fail(Errc::io, fmt::format("{}: flush failed", device.name()));
  }
  return fail(Errc::io, fmt::format("{}: {} of {} bytes at {} failed", device.name(),
                                    to_string(request.op), request.size(), request.offset));
}

}  // namespace

const char* to_string(IoOp op) noexcept {
  switch (op) {
    case IoOp::read: return "read";
    case IoOp::write: return "write";
    case IoOp::flush: return "flush";
    case IoOp::discard: return "discard";
  }
  return "unknown";
}

Result<void> BlockDevice::read(std::uint64_t offset, std::span<std::byte> into, IoPurpose purpose) {
  IoRequest request;
  request.op = IoOp::read;
  request.purpose = purpose;
  request.offset = offset;
  request.data = into;
  return carry_out(*this, request);
}

Result<void> BlockDevice::write(std::uint64_t offset, std::span<const std::byte> from,
                                IoPurpose purpose) {
  IoRequest request;
  request.op = IoOp::write;
  request.purpose = purpose;
  request.offset = offset;
  // A write's bytes are only read; the request has one field for both directions.
  request.data = {const_cast<std::byte*>(from.data()), from.size()};
  return carry_out(*this, request);
}

Result<void> BlockDevice::flush() {
  IoRequest request;
  request.op = IoOp::flush;
  return carry_out(*this, request);
}

}  // namespace zuse::vdev
