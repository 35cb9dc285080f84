// Uberblock: the root of everything. One is written for each transaction group, into a ring in each
// label; the newest that verifies is the pool. On disk 216 bytes of a slot of 1 to 8 KiB, drawn in
// README.md. The slot's checksum is the label's affair (fs/pool/label.h).
// source: format page 01 section 7.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "fs/format/blkptr.h"

namespace zuse::format {

inline constexpr std::uint64_t kUberblockMagic = 0x00bab10c;
inline constexpr std::uint64_t kMmpMagic = 0xa11cea11;
inline constexpr std::size_t kUberblockSize = 216;
inline constexpr std::uint64_t kPoolVersionFeatures = 5000;
inline constexpr std::uint64_t kPoolVersionMaxNumbered = 28;

// Pool versions that exist: 1..28 and 5000.
constexpr bool is_pool_version(std::uint64_t version) noexcept {
  return (version >= 1 && version <= kPoolVersionMaxNumbered) || version == kPoolVersionFeatures;
}

struct Uberblock {
  std::uint64_t version = 0;
  std::uint64_t txg = 0;
  std::uint64_t guid_sum = 0;
  std::uint64_t timestamp = 0;  // Unix seconds
  Blkptr root;                  // the MOS's objset block
  std::uint64_t software_version = 0;
  std::uint64_t mmp_magic = 0, mmp_delay = 0, mmp_config = 0;
  std::uint64_t checkpoint_txg = 0;
  std::uint64_t raidz_reflow = 0;
  ByteOrder order = kHostOrder;  // of its writer

  // Another host may be writing this pool right now, and says so in the ring.
  bool multihost() const noexcept { return mmp_magic == kMmpMagic && mmp_delay != 0; }
  // Sequence number of the multihost heartbeat; 0 where it is not valid.
  std::uint64_t mmp_sequence() const noexcept {
    return multihost() && bits(mmp_config, 1, 1) != 0 ? bits(mmp_config, 32, 16) : 0;
  }
  bool operator==(const Uberblock&) const = default;
};

// The byte order is found by the magic. errors: corrupt (no magic, or the record is cut short).
Result<Uberblock> decode_uberblock(std::span<const std::byte> slot);
// Writes kUberblockSize bytes in uberblock.order; the caller has zeroed the rest of the slot.
void encode_uberblock(const Uberblock& uberblock, std::span<std::byte> slot);

// Which of two uberblocks is newer: txg, then timestamp, then multihost sequence.
bool is_newer(const Uberblock& a, const Uberblock& b) noexcept;

}  // namespace zuse::format
