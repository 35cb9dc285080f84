// Kinds of errors as the numbers that system calls return. This is the only place above the devices
// that knows errno.
#pragma once

#include "vdev/base/result.h"

namespace zuse::fuse {

// The positive errno(3) that a system call which failed with `code` returns. Never 0. What was lost
// on disk (io, gone, checksum, corrupt) is EIO: programs know what to make of that.
int to_errno(Errc code) noexcept;

// The kind that an errno of a system call of ours belongs to, for messages. Unknown ones: io.
Errc from_errno(int number) noexcept;

// "mounting on '/mnt/x': No such file or directory", with the kind that fits.
Error system_error(int number, const std::string& context);

}  // namespace zuse::fuse
