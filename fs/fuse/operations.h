// The table of request handlers, and what they share. Private to fs/fuse.
#pragma once

#define FUSE_USE_VERSION 314
#include <fuse3/fuse_lowlevel.h>

#include <atomic>
#include <cstdint>

#include "fs/fuse/set_id_bits.h"
#include "fs/posix/file_system.h"

namespace zuse::fuse {

inline constexpr std::size_t kRequestSizeMax = std::size_t{1} << 20;  // bytes of one read or write

// What every handler is given (the session's user data).
struct Served {
  posix::FileSystem& file_system;
  const posix::Inode root;  // the kernel calls it FUSE_ROOT_ID
  const bool posix_acl;
  const bool writeback;
  fuse_session* session = nullptr;                // set before the first request
  std::atomic<bool> opens_itself{false};          // the kernel need not be asked to open files
  std::atomic<bool> promised{false};              // set-id bits are ours to clear: set_id_bits.h
  std::atomic<std::uint64_t> failures_silent{0};  // EIO answers not logged since the last line
  std::atomic<std::int64_t> failure_logged{0};    // seconds; when that line was

  posix::Inode inode(fuse_ino_t node) const noexcept {
    return node == FUSE_ROOT_ID ? root : posix::Inode{node};
  }
  fuse_ino_t node(posix::Inode number) const noexcept {
    return number == root ? FUSE_ROOT_ID : fuse_ino_t{number};
  }
};

// Of the request that this thread is working on.
inline thread_local RequestMarks request_marks;

inline Served& served(fuse_req_t request) {
  return *static_cast<Served*>(fuse_req_userdata(request));
}

// Answers with the error's errno. What means lost data is logged, repeats within a second counted.
void reply_error(fuse_req_t request, const char* operation, fuse_ino_t node, const Error& error);

// The handlers of operations_names.cpp (names and attributes) and operations_data.cpp (contents).
void add_name_operations(fuse_lowlevel_ops& table);
void add_data_operations(fuse_lowlevel_ops& table);
fuse_lowlevel_ops operations();

struct stat to_stat(const posix::Attributes& attributes);
double attribute_timeout(const posix::Attributes& attributes);
double entry_timeout(posix::Inode inode);
fuse_entry_param to_entry(const Served& served, const posix::Attributes& attributes);
posix::Caller caller_of(fuse_req_t request);

}  // namespace zuse::fuse
