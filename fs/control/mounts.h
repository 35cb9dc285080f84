// Mounts: which datasets of a pool are mounted, where, and in which order they come and go (parents
// first, children first).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fs/dataset/pool.h"
#include "fs/fuse/session.h"
#include "vdev/base/sync.h"

namespace zuse::control {

// Where a dataset wants to be, by its mountpoint and canmount properties.
struct MountWish {
  std::string path;     // below the altroot; empty: nowhere
  std::string why_not;  // where path is empty: "legacy mountpoint", "'canmount' property is set to
                        // 'off'"
  bool automatic = false;  // mounted at import and by mount -a
  bool inherited = false;  // the path was not set on this dataset itself
};
MountWish mount_wish(const dataset::DatasetEntry& entry, const std::string& altroot);

// "/a//b/" below "/root" -> "/root/a/b".
std::string join_root(const std::string& altroot, const std::string& path);

// Thread-safe.
class Mounts {
 public:
  // `ended` is called when some mount ended without our doing: on a thread of that mount, so it
  // only leaves a note. The pool outlives this.
  Mounts(dataset::Pool& pool, std::string altroot, std::function<void()> ended);
  ~Mounts();

  // Mounts what is to be mounted and is not yet. The failures, one a dataset.
  std::vector<Error> mount_all();
  // errors: not_found, busy (already mounted), unsupported, invalid (legacy, none, canmount=off),
  // those of mounting. `read_only` beside the property.
  Result<void> mount(const std::string& dataset, bool read_only = false);
  // By dataset name or mount point. errors: not_found (not mounted), busy.
  Result<void> unmount(const std::string& what, bool force);
  // All of them, children first. Where one is busy, those already gone come back.
  // `tidy`: directories whose place was inherited are removed, as at an export.
  Result<void> unmount_all(bool force, bool tidy);

  // Forgets mounts that have ended by themselves. True if the pool's root file system was one.
  bool reap();
  // The kernel forgets what it has cached of every mount.
  void invalidate_all();
  // A path below the mount of a dataset. errors: not_found (not mounted, or no such file).
  Result<std::string> path_of(const std::string& dataset, std::uint64_t object) const;
  std::map<std::string, std::string> table() const;  // dataset -> mount point

 private:
  struct Entry {
    std::unique_ptr<fuse::Mount> mount;
    bool tidy = false;  // its directory goes with an export
  };

  Result<void> mount_locked(const dataset::DatasetEntry& entry, bool read_only)
      ZUSE_REQUIRES(mutex_);
  Result<void> unmount_locked(const std::string& dataset, bool force) ZUSE_REQUIRES(mutex_);
  // `only`: no others than these; null: all.
  std::vector<Error> mount_all_locked(const std::vector<std::string>* only) ZUSE_REQUIRES(mutex_);

  dataset::Pool& pool_;
  const std::string altroot_;
  const std::function<void()> ended_;
  mutable Mutex mutex_{LockRank::mounts};
  std::map<std::string, Entry> mounted_ ZUSE_GUARDED_BY(mutex_);
};

}  // namespace zuse::control
