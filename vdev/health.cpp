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

std::string name_of(const VdevConfig& config) {
  switch (config.type) {
    case VdevType::root: return "root";
    case VdevType::raidz:
      return "raidz" + std::to_string(config.parity) + "-" + std::to_string(config.id);
    case VdevType::mirror: return "mirror-" + std::to_string(config.id);
    case VdevType::replacing: return "replacing-" + std::to_string(config.id);
    case VdevType::spare: return "spare-" + std::to_string(config.id);
    case VdevType::hole: return "hole-" + std::to_string(config.id);
    case VdevType::missing: return "missing-" + std::to_string(config.id);
    default: return config.path;
  }
}

const char* to_string(VdevState state) noexcept {
  switch (state) {
    case VdevState::healthy: return "ONLINE";
    case VdevState::degraded: return "DEGRADED";
    case VdevState::faulted: return "FAULTED";
    case VdevState::offline: return "OFFLINE";
    case VdevState::removed: return "REMOVED";
    case VdevState::unknown:
    case VdevState::closed:
    case VdevState::cant_open: return "UNAVAIL";
  }
  return "UNAVAIL";
}

}  // namespace zuse::vdev
