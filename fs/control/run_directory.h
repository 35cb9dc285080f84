// Where daemons are found: one socket a pool in the run directory (zinject::run_directory()).
#pragma once

#include <string>
#include <vector>

#include "vdev/base/result.h"

namespace zuse::control {

// The run directory, made (mode 0700) where it is missing. errors: not_found (no variable says
// where), not_permitted (it is somebody else's), those of mkdir(2).
Result<std::string> make_run_directory();

// Where a daemon in the background logs.
std::string log_path(const std::string& run_directory, const std::string& pool);

// Whether a daemon answers on this socket.
bool somebody_listens(const std::string& socket_path);
// Pools that have a daemon that answers, sorted.
std::vector<std::string> running_pools();

}  // namespace zuse::control
