// Who clears the set-user-id and set-group-id bits of a file that somebody writes to.
//
// Left to itself, the kernel asks for security.capability before every single write(2): one request
// a write, whatever the cache holds. It asks only once a file when the file system promises to
// clear the bits itself (FUSE_HANDLE_KILLPRIV_V2). libfuse before 3.17 knows nothing of that
// promise, so it is put into the answer to the first request on its way out, and the marks that the
// kernel then sets are read from the requests on their way in. A new owner sets the mark always, a
// write or truncation where the caller lacks CAP_FSETID; while a file has such bits, the kernel
// passes each write on at once, past its cache. The capability itself stays the kernel's affair.
// source: the kernel's interface, linux/fuse.h (7.33).
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <span>

namespace zuse::fuse {

// What a raw request says beside what libfuse passes on.
struct RequestMarks {
  bool offers_promise = false;  // the first request, of a kernel that would take the promise
  bool clears_set_id = false;   // it takes set-id bits away
};
RequestMarks marks_of(std::span<const std::byte> request) noexcept;

// Puts the promise into the answer to the first request. False if it is no such answer.
bool add_promise(std::span<const iovec> reply) noexcept;

}  // namespace zuse::fuse
