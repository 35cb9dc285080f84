#include "vdev/health.h"

namespace zuse::vdev {

std::pair<VdevState, VdevAux> derive_state(VdevType type, unsigned parity,
                                           std::span<const VdevState> children) {
  unsigned lost = 0, hurt = 0;
  for (const VdevState state : children) {
    lost += state < VdevState::degraded ? 1 : 0;
    hurt += state < VdevState::healthy ? 1 : 0;
  }
  const auto count = static_cast<unsigned>(children.size());
  const unsigned tolerated = type == VdevType::raidz                ? parity
                             : type == VdevType::root || count == 0 ? 0
                                                                    : count - 1;
  if (lost > tolerated) {
    return {VdevState::cant_open, VdevAux::no_replicas};
  }
  return {hurt > 0 ? VdevState::degraded : VdevState::healthy, VdevAux::none};
}

}  // namespace zuse::vdev
