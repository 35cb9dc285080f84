// Mount: one file system served to the kernel. It owns the FUSE connection, the threads that answer
// it, and the file system below.
//
// The end of a mount has one shape however it comes about (stop(), umount(8), the kernel giving
// up): the connection ends, each thread finishes the request that it is working on and leaves, and
// only when all have left is the file system below unmounted. Nothing is torn down under a request.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "fs/posix/file_system.h"
#include "vdev/base/result.h"

namespace zuse::fuse {

struct MountSettings {
  std::string source;  // what /proc/mounts shows as the device: "tank/home"
  bool read_only = false;
  bool devices = true;  // false: nodev, and so on
  bool setuid = true;
  bool exec = true;
  bool atime = true;
  bool posix_acl = false;       // the kernel judges by system.posix_acl_* attributes
  bool over_files = false;      // mount on a directory that is not empty
  unsigned threads = 0;         // 0: by the number of cores
  bool writeback = true;        // the kernel collects writes in its page cache
  std::function<void()> ended;  // called once, on one of our threads, when the connection has ended
};

enum class StopMode : std::uint8_t {
  if_unused,  // errors: busy, while files are open; the mount goes on
  detach,     // gone from the tree of names at once; open files get errors from then on
};

// Thread-safe.
class Mount {
 public:
  // Serving when it returns. On failure the file system has been unmounted and dropped.
  // errors: those of prepare_mount_point(); not_permitted, busy, io, with what mount(2) or
  // fusermount3 said.
  static Result<std::unique_ptr<Mount>> start(std::unique_ptr<posix::FileSystem> file_system,
                                              const std::string& mount_point,
                                              MountSettings settings);
  ~Mount();  // stop(detach)
  Mount(const Mount&) = delete;
  Mount& operator=(const Mount&) = delete;

  const std::string& mount_point() const noexcept;
  bool running() const noexcept;

  // Returns when the connection has ended and the file system is unmounted.
  void wait();
  // Has the kernel write back what it holds, unmounts, and waits as wait() does. Once stopped, more
  // calls do nothing. errors: busy; io (what was written last could not all be kept).
  Result<void> stop(StopMode mode);

  // What changed below the kernel's caches (a rollback, a received stream, a new snapshot).
  void invalidate(posix::Inode inode);
  void invalidate_name(posix::Inode parent, std::string_view name);
  // Everything: what the kernel has of every file is written back and forgotten, so that the next
  // read comes here.
  void invalidate_all();
  // See posix::FileSystem.
  Result<std::string> path_of(std::uint64_t object);

 private:
  struct Impl;
  explicit Mount(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace zuse::fuse
