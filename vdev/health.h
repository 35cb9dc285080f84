// The state of a vdev, from those of its children. source: format page 03 section 9.
#pragma once

#include <span>
#include <utility>

#include "vdev/tree.h"

namespace zuse::vdev {

// shape: type is not a leaf's; parity matters to raidz only.
std::pair<VdevState, VdevAux> derive_state(VdevType type, unsigned parity,
                                           std::span<const VdevState> children);

}  // namespace zuse::vdev
