// The few fields of the kernel's messages that libfuse does not show. This is the only file that
// reads the messages themselves; the two headers that describe them do not go together.
#include "fs/fuse/set_id_bits.h"

#include <linux/fuse.h>

#include <cstring>

namespace zuse::fuse {
namespace {

// The argument that follows the header of a request; zeros where the request is shorter.
template <class T>
T argument(std::span<const std::byte> request) noexcept {
  T value{};
  if (request.size() >= sizeof(fuse_in_header) + sizeof value) {
    std::memcpy(&value, request.data() + sizeof(fuse_in_header), sizeof value);
  }
  return value;
}

}  // namespace

RequestMarks marks_of(std::span<const std::byte> request) noexcept {
  RequestMarks marks;
  fuse_in_header header{};
  if (request.size() < sizeof header) {
    return marks;
  }
  std::memcpy(&header, request.data(), sizeof header);
  switch (header.opcode) {
    case FUSE_INIT:
      marks.offers_promise = (argument<fuse_init_in>(request).flags & FUSE_HANDLE_KILLPRIV_V2) != 0;
      break;
    case FUSE_WRITE:
      marks.clears_set_id =
          (argument<fuse_write_in>(request).write_flags & FUSE_WRITE_KILL_SUIDGID) != 0;
      break;
    case FUSE_SETATTR:
      marks.clears_set_id = (argument<fuse_setattr_in>(request).valid & FATTR_KILL_SUIDGID) != 0;
      break;
    // No mark tells who may keep the bits where a range is allocated or punched.
    case FUSE_FALLOCATE: marks.clears_set_id = header.uid != 0; break;
    default: break;
  }
  return marks;
}

bool add_promise(std::span<const iovec> reply) noexcept {
  if (reply.size() < 2 || reply[0].iov_len != sizeof(fuse_out_header) ||
      reply[1].iov_len < sizeof(fuse_init_out)) {
    return false;
  }
  fuse_out_header header{};
  std::memcpy(&header, reply[0].iov_base, sizeof header);
  if (header.error != 0) {
    return false;
  }
  fuse_init_out answer{};
  std::memcpy(&answer, reply[1].iov_base, sizeof answer);
  answer.flags |= FUSE_HANDLE_KILLPRIV_V2;
  std::memcpy(reply[1].iov_base, &answer, sizeof answer);
  return true;
}

}  // namespace zuse::fuse
