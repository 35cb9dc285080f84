// The daemon: one process a pool. It creates or imports the pool, mounts its datasets, serves the
// control socket and the signals, and ends by the same orderly way whether it was told to export,
// got SIGTERM, or the root file system was unmounted from outside.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "fs/dataset/pool.h"
#include "vdev/base/result.h"

namespace zuse::control {

struct DaemonOptions {
  std::optional<dataset::CreateOptions> create;  // first; then it is imported
  dataset::ImportOptions import;
  std::string altroot;  // mount points are below it
  bool mount = true;
  bool foreground = false;   // in this process; returns when the pool has been let go
  std::string command_line;  // for the pool's history
};

struct DaemonStarted {
  std::string pool;
  std::vector<std::string> warnings;  // datasets that could not be mounted, a sentence each
};

// In the background (the default): forks, and returns in the calling process when the pool is
// served, or with the sentence that the daemon ended with. The calling process must have no threads
// and no rings yet. In the foreground: returns after the end.
// errors: exists (a daemon has a pool of that name), those of create, import and the socket.
Result<DaemonStarted> run_daemon(const DaemonOptions& options);

// Runs `body` in a forked process and returns its text, or its error. For looking at devices
// without leaving threads or rings behind in this process.
Result<std::string> run_apart(const std::function<Result<std::string>()>& body);

}  // namespace zuse::control
