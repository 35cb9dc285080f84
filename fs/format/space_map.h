// Space maps: the log of what was allocated and freed in one metaslab, as 64-bit words, and the
// header in its bonus area. A replay of the log from "all is free" gives what is allocated. Dirty
// time logs use the same words for ranges of transaction groups. Drawn in README.md.
// source: format page 04 section 3.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "vdev/base/on_disk.h"
#include "vdev/base/result.h"
#include "vdev/base/units.h"

namespace zuse::format {

inline constexpr std::size_t kSpaceMapHeaderSizeV0 = 24;
inline constexpr std::size_t kSpaceMapHeaderSizeHistogram = 320;
inline constexpr std::size_t kSpaceMapHistogramBuckets = 32;

struct SpaceMapHeader {
  std::uint64_t object = 0;    // its own number
  std::uint64_t length = 0;    // bytes of words, a multiple of 8
  std::int64_t allocated = 0;  // bytes: sum of ALLOC minus sum of FREE
  // Bucket i counts free segments of 2^(i + unit shift) bytes up to twice that.
  std::array<std::uint64_t, kSpaceMapHistogramBuckets> histogram{};
  bool operator==(const SpaceMapHeader&) const = default;
};

// errors: corrupt (shorter than 24 bytes, or a length that is not whole words). A bonus area
// without the histogram gives zeros.
Result<SpaceMapHeader> decode_space_map_header(std::span<const std::byte> bonus, ByteOrder order);
// shape: bonus is 24 or 320 bytes, all of it is written.
void encode_space_map_header(const SpaceMapHeader& header, std::span<std::byte> bonus,
                             ByteOrder order);

enum class SpaceMapOp : std::uint8_t { alloc = 0, free = 1 };

// One range. units: of the map (1 << ashift bytes for a metaslab, 512 bytes in a log space map, one
// txg in a dirty time log), from the map's start.
struct SpaceMapEntry {
  SpaceMapOp op = SpaceMapOp::alloc;
  std::uint64_t offset = 0;
  std::uint64_t run = 0;              // > 0
  std::optional<std::uint32_t> vdev;  // two-word entries only; meaningful in log space maps
  bool operator==(const SpaceMapEntry&) const = default;
};

// Turns words into entries. It carries the first half of a two-word entry from one block to the
// next, so that maps may be fed block by block.
class SpaceMapDecoder {
 public:
  // Calls visit(const SpaceMapEntry&) -> Result<void> for each range; debug words are skipped.
  // shape: words is a multiple of 8 bytes. errors: corrupt; what visit answers.
  template <class Visit>
  Result<void> feed(std::span<const std::byte> words, ByteOrder order, Visit&& visit) {
    if (words.size() % sizeof(std::uint64_t) != 0) {
      return fail(Errc::corrupt, "space map: not whole words");
    }
    for (std::size_t at = 0; at < words.size(); at += sizeof(std::uint64_t)) {
      SpaceMapEntry entry;
      if (step(load_at<std::uint64_t>(words, at, order), entry)) {
        ZUSE_TRY_VOID(visit(static_cast<const SpaceMapEntry&>(entry)));
      }
    }
    return {};
  }
  // At the end of the map. errors: corrupt, if it ends within an entry.
  Result<void> finish() const;

 private:
  // Takes one word; true: `entry` is complete.
  bool step(std::uint64_t word, SpaceMapEntry& entry) noexcept;

  std::optional<std::uint64_t> first_half_;
};

// Turns ranges into words.
class SpaceMapEncoder {
 public:
  // `position`: bytes of words already in the map, `block_size`: of the map's data blocks (a
  // two-word entry never straddles two). `two_words`: feature spacemap_v2 is active.
  SpaceMapEncoder(std::uint64_t position, std::size_t block_size, bool two_words)
      : position_(position / sizeof(std::uint64_t)),
        block_words_(block_size / sizeof(std::uint64_t)),
        two_words_(two_words) {}

  // shape: run > 0; a vdev, or an offset past 2^47 units, needs two-word entries; offset + run <=
  // 2^63. errors: invalid (a range that these words cannot say).
  Result<void> add(const SpaceMapEntry& entry);
  // A mark "what follows happened in this txg and pass", for people who read maps.
  void add_debug(SpaceMapOp op, std::uint64_t txg, unsigned pass);

  const std::vector<std::uint64_t>& words() const noexcept { return words_; }
  // The words as bytes, appended to `out`.
  void append_to(std::vector<std::byte>& out, ByteOrder order) const;

 private:
  void pad_for_two_words();

  std::uint64_t position_;
  std::size_t block_words_;
  bool two_words_;
  std::vector<std::uint64_t> words_;
};

}  // namespace zuse::format
