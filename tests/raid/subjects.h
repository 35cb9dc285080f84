// Which implementations the parity tests run on: those of this CPU, or in another program those
// that it lacks, emulated.
#pragma once

#include <vector>

#include "raid/kernels.h"

namespace zuse::raid {
std::vector<const Kernels*> subjects();
}  // namespace zuse::raid
