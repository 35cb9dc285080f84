// The state of a vdev, from those of its children, and what vdevs are called. source: format page
// 03 section 9.
#pragma once

#include <span>
#include <string>
#include <utility>

#include "vdev/tree.h"

namespace zuse::vdev {

// shape: type is not a leaf's; parity matters to raidz only.
std::pair<VdevState, VdevAux> derive_state(VdevType type, unsigned parity,
                                           std::span<const VdevState> children);

// "raidz2-0", "mirror-1"; a leaf's path.
std::string name_of(const VdevConfig& config);

}  // namespace zuse::vdev
