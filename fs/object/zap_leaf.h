// A leaf of a fat ZAP: the entries whose hashes share a prefix, in a hash table with chains. All
// pieces are chunks of 24 bytes - an entry, a piece of a name or value, or free - linked by 16-bit
// indexes. Pure functions over the block's bytes, which are hostile until checked: every index is
// tested before use, every chain bounded by the number of chunks.
//
//     0   type, prefix, magic, counts, free list           (48 bytes)
//     48  hash table: 2^(bs-5) chunk indexes
//     ..  chunks, exactly to the end of the block
//
// source: format page 06 section 4.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fs/object/zap_key.h"
#include "vdev/base/byte_order.h"
#include "vdev/base/result.h"

namespace zuse::object::zap {

inline constexpr std::size_t kChunkSize = 24;
inline constexpr std::size_t kArrayBytes = 21;  // of a name or value in one chunk
inline constexpr std::uint16_t kChainEnd = 0xffff;
inline constexpr unsigned kLeafShiftMin = 9;
inline constexpr unsigned kLeafShiftMax = 20;  // chunk indexes have 16 bits
inline constexpr unsigned kPrefixMax = 46;

// Chunks of a leaf of 2^shift bytes.
constexpr std::size_t leaf_chunks(unsigned shift) {
  return ((std::size_t{1} << shift) - 2 * (std::size_t{1} << (shift - 5))) / kChunkSize - 2;
}
static_assert(leaf_chunks(14) == 638 && leaf_chunks(15) == 1278 && leaf_chunks(12) == 158 &&
              leaf_chunks(17) == 5118);

// Chunks that an entry takes.
constexpr std::size_t chunks_needed(std::size_t name_bytes, std::size_t value_bytes) {
  return 1 + (name_bytes + kArrayBytes - 1) / kArrayBytes +
         (value_bytes + kArrayBytes - 1) / kArrayBytes;
}

struct LeafEntry {
  std::uint16_t chunk = kChainEnd;
  std::uint8_t integer_size = 8;
  std::uint16_t next = kChainEnd;
  std::uint16_t name_chunk = kChainEnd;
  std::uint16_t name_elements = 0;
  std::uint16_t value_chunk = kChainEnd;
  std::uint16_t value_elements = 0;
  std::uint32_t cd = 0;
  std::uint64_t hash = 0;

  Position position() const noexcept { return {hash, cd}; }
  std::size_t value_bytes() const noexcept { return std::size_t{integer_size} * value_elements; }
};

// A leaf's block, read only.
class Leaf {
 public:
  // errors: corrupt (not a leaf, or a header that cannot be).
  static Result<Leaf> open(std::span<const std::byte> block);

  ByteOrder order() const noexcept { return order_; }
  unsigned shift() const noexcept { return shift_; }
  std::uint64_t prefix() const noexcept { return prefix_; }
  unsigned prefix_length() const noexcept { return prefix_length_; }
  std::size_t chunks() const noexcept { return leaf_chunks(shift_); }
  unsigned free_chunks() const noexcept { return free_chunks_; }
  unsigned entry_count() const noexcept { return entry_count_; }
  // Does the leaf hold entries of this hash?
  bool covers(std::uint64_t hash) const noexcept {
    return prefix_length_ == 0 || hash >> (64 - prefix_length_) == prefix_;
  }

  // errors: corrupt, for each of these: an index or a chain that cannot be.
  Result<std::optional<LeafEntry>> find(const Key& key) const;
  Result<std::vector<LeafEntry>> entries() const;  // in order of (hash, cd)
  // The lowest cd that no entry of this hash has.
  Result<std::uint64_t> free_cd(std::uint64_t hash) const;
  // The name's bytes without the NUL (with `words`: as they are).
  Result<std::string> name(const LeafEntry& entry, bool words) const;
  Result<std::string> value(const LeafEntry& entry) const;  // big-endian elements
  // The name as its chunks hold it, filled up to whole chunks: what moves to another leaf.
  Result<std::string> stored_name(const LeafEntry& entry) const;
  // An entry's first element; shape: it has one.
  Result<std::uint64_t> first_integer(const LeafEntry& entry) const;

 private:
  friend class LeafEditor;
  std::size_t chunk_at(std::size_t chunk) const noexcept;
  std::size_t bucket_of(std::uint64_t hash) const noexcept;
  std::uint16_t bucket(std::size_t index) const noexcept;
  Result<LeafEntry> entry(std::uint16_t chunk) const;
  // The chunks of an array of `bytes` bytes, in order.
  Result<std::vector<std::uint16_t>> array_chunks(std::uint16_t first, std::size_t bytes) const;
  Result<std::string> array(std::uint16_t first, std::size_t bytes) const;
  Result<bool> name_is(const LeafEntry& entry, const Key& key) const;

  std::span<const std::byte> block_;
  ByteOrder order_ = kHostOrder;
  unsigned shift_ = 0;
  std::uint64_t prefix_ = 0;
  unsigned prefix_length_ = 0;
  unsigned free_chunks_ = 0;
  unsigned entry_count_ = 0;
};

struct NewLeafEntry {
  std::uint64_t hash = 0;
  std::uint32_t cd = 0;
  std::string_view name;  // as stored: with the NUL, or big-endian words
  std::uint16_t name_elements = 0;
  std::string_view value;  // big-endian elements
  std::uint8_t integer_size = 8;
  std::uint16_t value_elements = 0;
};

// An empty leaf over the whole block, in host order.
void leaf_initialise(std::span<std::byte> block, std::uint64_t prefix, unsigned prefix_length,
                     bool sorted_flag);
// Turns a leaf of foreign order into host order; others stay. errors: corrupt.
Result<void> leaf_to_host(std::span<std::byte> block);
// Host order from here. False: no room, nothing changed. errors: corrupt (nothing changed).
Result<bool> leaf_insert(std::span<std::byte> block, const NewLeafEntry& entry);
Result<bool> leaf_set_value(std::span<std::byte> block, const LeafEntry& entry,
                            std::string_view value, std::uint8_t integer_size,
                            std::uint16_t value_elements);
Result<void> leaf_remove(std::span<std::byte> block, const LeafEntry& entry);
// Makes the prefix of `low` one bit longer; entries whose next bit is 1 go to `high`, a block of
// the same size that becomes the sibling. errors: corrupt (nothing changed).
Result<void> leaf_split(std::span<std::byte> low, std::span<std::byte> high);

}  // namespace zuse::object::zap
