// The sweep: all implementations over many geometries, on all cores.
#pragma once

#include "raid/raidz_test/options.h"

namespace zuse::raidz_test {

// The exit status: 0 all passed (or the time was over), 2 one failed (its options are printed).
int sweep(const Options& options);

}  // namespace zuse::raidz_test
