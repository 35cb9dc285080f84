// The vdevs of `zpool create` as words on a command line: "raidz2 a b c d mirror e f".
#pragma once

#include <string>
#include <vector>

#include "fs/dataset/pool.h"

namespace zuse::cli {

// errors: invalid (too few devices, a device twice, vdevs that differ in redundancy without
// `force`), unsupported (log, cache, spare, special, dedup, draid; named), not_found (a path).
// Paths become absolute; a bare name that is no file here is looked for in /dev.
Result<std::vector<dataset::VdevSpec>> parse_vdevs(const std::vector<std::string>& words,
                                                   bool force);

}  // namespace zuse::cli
