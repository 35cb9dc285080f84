// The records of the dataset layer, as they lie in bonus areas: DslDirPhys (256 bytes; a place in
// the tree of names), DslDatasetPhys (320 bytes; one object set, live or snapshot) and
// DeadlistHeader (320 bytes). Drawn in README.md. source: format page 07 sections 1, 2, 6.2.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "fs/format/blkptr.h"

namespace zuse::format {

inline constexpr std::size_t kDslDirSize = 256;
inline constexpr std::size_t kDslDatasetSize = 320;
inline constexpr std::size_t kDeadlistHeaderSize = 320;

inline constexpr std::uint64_t kDslDirUsedBreakdown = 1;

// Indices into DslDirPhys::used_breakdown.
enum class UsedPart : std::uint8_t { head = 0, snap = 1, child = 2, child_rsrv = 3, refrsrv = 4 };

struct DslDirPhys {
  std::uint64_t creation_time = 0;  // Unix seconds
  std::uint64_t head_dataset = 0;   // object; 0: a directory without data ($MOS, $FREE, $LEAK)
  std::uint64_t parent = 0;         // object; 0: the root
  std::uint64_t origin = 0;         // snapshot object
  std::uint64_t child_zap = 0;
  std::uint64_t used = 0, compressed = 0, uncompressed = 0;  // bytes
  std::uint64_t quota = 0, reserved = 0;                     // bytes; 0: none
  std::uint64_t props_zap = 0;
  std::uint64_t deleg_zap = 0;  // 0: none
  std::uint64_t flags = 0;
  std::array<std::uint64_t, 5> used_breakdown{};  // bytes, by UsedPart
  std::uint64_t clones_zap = 0;                   // 0: none

  std::uint64_t& part(UsedPart which) noexcept {
    return used_breakdown[static_cast<std::size_t>(which)];
  }
  std::uint64_t part(UsedPart which) const noexcept {
    return used_breakdown[static_cast<std::size_t>(which)];
  }
  bool operator==(const DslDirPhys&) const = default;
};

inline constexpr std::uint64_t kDatasetInconsistent = 0x1;  // half received: not to be mounted
inline constexpr std::uint64_t kDatasetNoPromote = 0x2;
inline constexpr std::uint64_t kDatasetUniqueAccurate = 0x4;
inline constexpr std::uint64_t kDatasetDeferDestroy = 0x8;
inline constexpr std::uint64_t kDatasetCaseInsensitive = 0x10000;

struct DslDatasetPhys {
  std::uint64_t dir = 0;  // object
  std::uint64_t prev_snap = 0, prev_snap_txg = 0;
  std::uint64_t next_snap = 0;
  std::uint64_t snapnames_zap = 0;
  std::uint64_t num_children = 0;
  std::uint64_t creation_time = 0;  // Unix seconds
  std::uint64_t creation_txg = 0;
  std::uint64_t deadlist = 0;
  std::uint64_t referenced = 0, compressed = 0, uncompressed = 0, unique = 0;  // bytes
  std::uint64_t fsid_guid = 0;
  std::uint64_t guid = 0;
  std::uint64_t flags = 0;
  Blkptr bp;  // the objset block
  std::uint64_t next_clones_zap = 0;
  std::uint64_t props_zap = 0;
  std::uint64_t userrefs_zap = 0;

  bool is_snapshot() const noexcept { return num_children != 0; }
  bool operator==(const DslDatasetPhys&) const = default;
};

// Totals of a deadlist.
struct DeadlistHeader {
  std::uint64_t used = 0, compressed = 0, uncompressed = 0;  // bytes
  bool operator==(const DeadlistHeader&) const = default;
};

// errors: corrupt, if the bonus area is too short. A longer one is accepted, the rest ignored.
Result<DslDirPhys> decode_dsl_dir(std::span<const std::byte> bonus, ByteOrder order);
Result<DslDatasetPhys> decode_dsl_dataset(std::span<const std::byte> bonus, ByteOrder order);
Result<DeadlistHeader> decode_deadlist_header(std::span<const std::byte> bonus, ByteOrder order);
// shape: bonus is exactly the record's size, and all of it is written (padding as zeros).
void encode_dsl_dir(const DslDirPhys& dir, std::span<std::byte> bonus, ByteOrder order);
void encode_dsl_dataset(const DslDatasetPhys& dataset, std::span<std::byte> bonus, ByteOrder order);
void encode_deadlist_header(const DeadlistHeader& header, std::span<std::byte> bonus,
                            ByteOrder order);

}  // namespace zuse::format
