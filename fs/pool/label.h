// Labels: four copies on every leaf, two at its start and two at its end, each with the pool's
// configuration (an nvlist) and a ring of uberblocks. Whatever finds a pool, finds it here.
//
// One label, 256 KiB:
//   0x00000   8 KiB  blank, never ours
//   0x02000   8 KiB  boot environment, sealed
//   0x04000 112 KiB  configuration, sealed
//   0x20000 128 KiB  uberblock ring: slots of 1 to 8 KiB, each sealed
// A seal's verifier is the device offset, so a label copied elsewhere does not verify.
// source: format page 01 sections 1, 7, 8.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "fs/codec/nvlist.h"
#include "fs/format/uberblock.h"
#include "vdev/base/buffer.h"
#include "vdev/base/units.h"
#include "vdev/block_device.h"

namespace zuse::pool {

inline constexpr unsigned kLabels = 4;
inline constexpr std::uint64_t kLabelSize = 256 * kKiB;
inline constexpr std::uint64_t kBootEnvOffset = 0x2000;  // this and those below: within a label
inline constexpr std::uint64_t kBootEnvSize = 0x2000;
inline constexpr std::uint64_t kLabelConfigOffset = 0x4000;
inline constexpr std::uint64_t kLabelConfigSize = 0x1c000;
inline constexpr std::uint64_t kUberblockRingOffset = 0x20000;
inline constexpr std::uint64_t kUberblockRingSize = 0x20000;
inline constexpr std::uint64_t kLeafDataOffset = 4 * kMiB;  // where allocatable bytes begin
inline constexpr std::uint64_t kLeafOverhead = 0x480000;    // labels and boot area
inline constexpr std::uint64_t kLeafSizeMin = 64 * kMiB;

// The part of a device that counts: whole 256 KiB.
constexpr std::uint64_t usable_size(std::uint64_t device_size) noexcept {
  return round_down(device_size, kLabelSize);
}
// Allocatable bytes of a leaf. shape: device_size >= kLeafSizeMin.
constexpr std::uint64_t leaf_asize(std::uint64_t device_size) noexcept {
  return usable_size(device_size) - kLeafOverhead;
}
// Where label `index` begins. shape: device_size >= kLeafSizeMin, index < 4.
constexpr std::uint64_t label_offset(unsigned index, std::uint64_t device_size) noexcept {
  return index < 2 ? index * kLabelSize : usable_size(device_size) - (kLabels - index) * kLabelSize;
}
// log2 of the metaslab size that a new top-level vdev gets. source: format page 01 section 6.
unsigned choose_metaslab_shift(std::uint64_t asize) noexcept;

// log2 of a ring slot's size; `ashift` is the top-level vdev's.
constexpr unsigned uberblock_shift(unsigned ashift) noexcept {
  return ashift < 10 ? 10 : ashift > 13 ? 13 : ashift;
}
constexpr unsigned uberblock_slots(unsigned ashift) noexcept {
  return static_cast<unsigned>(kUberblockRingSize >> uberblock_shift(ashift));
}
// With multihost, the last slot is the heartbeat's.
constexpr unsigned uberblock_slot(std::uint64_t txg, unsigned ashift, bool multihost) noexcept {
  return static_cast<unsigned>(txg % (uberblock_slots(ashift) - (multihost ? 1U : 0U)));
}

// Bytes for one place of a device: what a caller who writes many devices side by side puts into
// IoRequests.
struct LabelWrite {
  std::uint64_t offset = 0;
  Buffer bytes;
};
// errors: too_large (the list does not fit into a label).
Result<LabelWrite> label_write(std::uint64_t device_size, unsigned index,
                               const codec::NvList& config);
// The uberblock in its slot of each of the four labels.
std::array<LabelWrite, kLabels> uberblock_writes(std::uint64_t device_size,
                                                 const format::Uberblock& uberblock,
                                                 unsigned ashift, bool multihost = false);

// Not flushed. errors: io, gone, too_large, invalid (a device below 64 MiB).
Result<void> write_label(vdev::BlockDevice& device, unsigned index, const codec::NvList& config);
// Into all four labels; succeeds if one of them took it. errors: why the last failed.
Result<void> write_uberblock(vdev::BlockDevice& device, const format::Uberblock& uberblock,
                             unsigned ashift, bool multihost = false);
// For a new pool: empties all four labels - rings, configuration - and writes an empty boot
// environment, so that nothing of a former pool is ever a candidate. errors: io, gone, invalid.
Result<void> wipe_labels(vdev::BlockDevice& device);
// For a device that leaves its pool: makes the configurations and rings unreadable.
Result<void> clear_labels(vdev::BlockDevice& device);

// The labels of one device.
struct LabelSet {
  std::array<std::optional<codec::NvList>, kLabels> copy;  // those that verify
  std::array<std::optional<Error>, kLabels> bad;           // why the others do not
  unsigned newest = 0;                                     // index into copy

  const codec::NvList& config() const { return *copy[newest]; }
  // The newest whose txg is not above `txg`: the one that an uberblock of that txg goes with.
  const codec::NvList* config_at(std::uint64_t txg) const noexcept;
};
// errors: invalid (a device below 64 MiB), corrupt (no copy verifies; why, by copy), gone.
Result<LabelSet> read_labels(vdev::BlockDevice& device);

// Every uberblock of the device that verifies, newest first, each once. `ashift`: the top-level
// vdev's, from the label. errors: io, gone (no ring could be read); corrupt (none verifies).
Result<std::vector<format::Uberblock>> read_uberblocks(vdev::BlockDevice& device, unsigned ashift);

// A device whose ring is to be looked at.
struct RingSource {
  vdev::BlockDevice* device = nullptr;
  unsigned ashift = 9;
};
// The newest uberblock of all, with txg <= max_txg. errors: not_found (none verifies).
Result<format::Uberblock> best_uberblock(std::span<const RingSource> sources,
                                         std::uint64_t max_txg = ~std::uint64_t{0});

}  // namespace zuse::pool
