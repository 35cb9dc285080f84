// The offline check of a whole pool: `zuse pool check`.
#pragma once

#include <functional>

#include "fs/dataset/pool.h"
#include "fs/pool/check.h"

namespace zuse::dataset {

struct CheckedPool {
  std::string name;
  pool::CheckReport report;
  // Space numbers of the DSL that do not add up; sentences. Empty: all do.
  std::vector<std::string> accounting;
  // Datasets that cannot be read, and why; while there are any, space maps cannot be compared.
  std::vector<std::string> unchecked;

  bool clean() const noexcept { return report.clean() && accounting.empty(); }
};

// Opens the pool read-only, walks every block pointer, verifies every checksum, copy and parity
// column, compares the space maps with what is referenced, and the space numbers with what was
// counted. Writes nothing. `progress` (may be empty) gets bytes examined and bytes allocated;
// answering false ends the check. errors: those of Pool::import; stopped.
Result<CheckedPool> check_pool(
    const ImportOptions& options, const DeviceFactory& devices,
    const std::function<bool(std::uint64_t, std::uint64_t)>& progress = {});

}  // namespace zuse::dataset
