// Where a leaf's labels lie, and where its allocatable bytes begin. What is in a label is the
// pool's affair. source: format page 01 section 1.
#pragma once

#include <cstdint>

#include "vdev/base/units.h"

namespace zuse::vdev {

inline constexpr std::uint64_t kLabelAreaUnit = 256 * kKiB;   // a device counts in whole ones
inline constexpr std::uint64_t kDataStart = 4 * kMiB;         // two labels and the boot area
inline constexpr std::uint64_t kDataEndReserve = 512 * kKiB;  // two labels
inline constexpr std::uint64_t kDeviceSizeMin = 64 * kMiB;

// Where label 0..3 of a device begins. shape: the device holds at least kDeviceSizeMin bytes.
constexpr std::uint64_t label_offset(unsigned label, std::uint64_t device_size) noexcept {
  return label < 2 ? label * kLabelAreaUnit
                   : round_down(device_size, kLabelAreaUnit) - (4 - label) * kLabelAreaUnit;
}

// Allocatable bytes of a device; 0: it is too small.
constexpr std::uint64_t allocatable_size(std::uint64_t device_size) noexcept {
  const std::uint64_t usable = round_down(device_size, kLabelAreaUnit);
  return usable < kDeviceSizeMin ? 0 : usable - kDataStart - kDataEndReserve;
}

}  // namespace zuse::vdev
