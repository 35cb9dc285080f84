// Mount points before and after: is this directory fit to be mounted on, is a dead mount in the
// way, and how to take a mount down again - by umount2(2) where we are root, else by libfuse's
// set-uid helper fusermount3.
#pragma once

#include <string>

#include "vdev/base/result.h"

namespace zuse::fuse {

// Whether something can be mounted at `path`. A mount there whose daemon has died ("transport
// endpoint is not connected") is detached first.
// errors: not_found, not_directory, not_empty (unless `over_files`), gone (no FUSE here), access.
Result<void> prepare_mount_point(const std::string& path, bool over_files);

// Takes down the topmost mount at `path`. `detach`: at once from the tree of names, and for good
// when its last open file is closed. errors: busy (files are open below), not_found, invalid (not a
// mount point).
Result<void> unmount(const std::string& path, bool detach);

// Whether mounts of this process's user may be used by others: root's always, else if
// /etc/fuse.conf has user_allow_other.
bool may_allow_other();

// The device number (major, minor) of what is mounted at `path`; for finding its backing-device
// settings. errors: those of stat(2).
struct DeviceNumber {
  unsigned major = 0, minor = 0;
};
Result<DeviceNumber> device_number(const std::string& path);

}  // namespace zuse::fuse
