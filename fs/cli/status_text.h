// The texts of `zpool status` and `zpool import`, from the views that daemons answer.
#pragma once

#include <iosfwd>
#include <string>

#include "fs/control/message.h"

namespace zuse::cli {

using control::Json;

struct StatusOptions {
  bool verbose = false;  // name every damaged file
  bool exact = false;    // all digits
};

// One pool of `zpool status`; `status` is control::status_view().
void print_status(std::ostream& out, const Json& status, const StatusOptions& options);
// True if there is nothing to say about the pool (`zpool status -x`).
bool is_healthy(const Json& status);

// What `zpool import` lists; `candidates` are control::candidate_view()s.
void print_candidates(std::ostream& out, const Json& candidates);

// "scrub repaired 0B in 00:00:01 with 0 errors on Tue Dec  1 01:00:00 2026"; lines after the first
// begin with a tab. `now`: Unix seconds.
std::string scan_text(const Json& scan, std::uint64_t now);

}  // namespace zuse::cli
