// Where a mounted file system finds its snapshots. The pool is the usual source; tests have others.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fs/dataset/dataset.h"
#include "fs/posix/file_system.h"

namespace zuse::posix {

struct SnapshotSource {
  std::function<Result<std::vector<std::string>>()> list;  // names without the dataset's
  std::function<Result<std::shared_ptr<dataset::Dataset>>(const std::string& name)> open;
};

// FileSystem::mount with another source of snapshots. An empty source: there is no `.zfs`.
Result<std::unique_ptr<FileSystem>> mount_with_snapshots(std::shared_ptr<dataset::Dataset> dataset,
                                                         const MountOptions& options,
                                                         SnapshotSource snapshots);

}  // namespace zuse::posix
