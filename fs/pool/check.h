// The checker: walks everything, verifies every checksum, every copy and all parity, and compares
// what is referenced with what the space maps say is allocated. Nothing is changed on disk.
// source: format page 04 section 9.3.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "fs/pool/io_pipeline.h"
#include "fs/pool/range_set.h"
#include "fs/pool/scan.h"

namespace zuse::pool {

enum class CheckProblem : std::uint8_t {
  unreadable,     // no copy of a block verifies
  damaged_copy,   // a copy, a mirror child or a column is wrong although the block can be read
  bad_pointer,    // a pointer or a dnode that makes no sense
  not_allocated,  // referenced, but free according to the space maps
  claimed_twice,  // referenced by two pointers
  leaked,         // allocated, but nothing refers to it
};
const char* to_string(CheckProblem problem) noexcept;

struct CheckFinding {
  CheckProblem problem = CheckProblem::unreadable;
  Bookmark bookmark;  // where it was found; leaks: none
  format::Dva range;  // the bytes concerned, where there are any
  std::string what;   // the sentence
};

// Blocks of one object type and level 0, or indirect blocks, all object sets together.
struct CheckTotals {
  std::uint64_t blocks = 0, lsize = 0, psize = 0, asize = 0;  // bytes
};

struct CheckReport {
  std::map<CheckProblem, std::uint64_t> counts;       // by kind; absent: none
  std::vector<CheckFinding> findings;                 // the first kCheckFindingsMax
  std::map<format::ObjectType, CheckTotals> by_type;  // level 0
  CheckTotals indirect, all;
  std::uint64_t objects = 0;
  std::uint64_t allocated = 0;   // according to the space maps, raw bytes
  std::uint64_t claimed = 0;     // by pointers, each byte once
  std::uint64_t examined = 0;    // bytes read and compared
  std::uint64_t unverified = 0;  // blocks with a checksum that we lack; not counted as problems

  bool clean() const noexcept { return counts.empty(); }
  std::uint64_t count(CheckProblem problem) const {
    const auto found = counts.find(problem);
    return found == counts.end() ? 0 : found->second;
  }
};

inline constexpr std::size_t kCheckFindingsMax = 1000;

struct CheckOptions {
  bool space = true;        // compare with the space maps
  bool contents = true;     // read every copy of every block, not only what the walk needs
  bool intent_logs = true;  // follow the intent logs of heads (not of snapshots)
};

// What is claimed besides the trees: bpobjs that hold blocks waiting to be freed.
struct CheckExtra {
  format::Blkptr blkptr;
  Bookmark bookmark;
};

// One object set to check.
struct CheckRoot {
  ScanRoot root;          // min_birth prunes what an earlier snapshot holds
  bool snapshot = false;  // its intent log header is a copy: not followed
};

// `maps`: for each top-level vdev, the allocated ranges of all its space maps. The pool must not
// change meanwhile: pin frees, or have it open read-only. `progress` (may be empty) gets bytes
// examined; answering false ends the check. errors: stopped.
Result<CheckReport> check_pool(IoPipeline& pipeline, const std::vector<CheckRoot>& roots,
                               const std::vector<CheckExtra>& extras,
                               const std::vector<RangeSet>& maps, const CheckOptions& options,
                               const std::function<bool(std::uint64_t)>& progress = {});

}  // namespace zuse::pool
