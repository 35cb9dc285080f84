// The fat ZAP: an extendible hash table. The top bits of a hash index a table of pointers to leaf
// blocks; a leaf that is full splits in two by one more bit, and when a leaf's prefix is as long as
// the table's index, the table doubles. The table starts inside the header block and moves out to
// blocks of its own when it has to grow.
//
// The caller holds the ZAP's lock: shared for the const calls, exclusive for the others.
// source: format page 06 sections 2 to 4.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "fs/object/dnode.h"
#include "fs/object/zap_key.h"
#include "fs/object/zap_leaf.h"

namespace zuse::object::zap {

inline constexpr std::uint32_t kFatBlockSize = 16384;

struct FatHeader {
  ByteOrder order = kHostOrder;
  unsigned shift = 0;             // log2 of the block size
  std::uint64_t table_block = 0;  // first block of the external table; 0: embedded
  std::uint64_t table_blocks = 0;
  unsigned table_shift = 0;      // log2 of the number of pointers
  std::uint64_t next_block = 0;  // a table of double size being built
  std::uint64_t blocks_copied = 0;
  std::uint64_t free_block = 0;  // next block id never used
  std::uint64_t leaf_count = 0;
  std::uint64_t entry_count = 0;
  KeyRule rule;
};

bool is_fat(std::span<const std::byte> block) noexcept;
// errors: corrupt, unsupported (flags of a newer format).
Result<FatHeader> decode_fat_header(std::span<const std::byte> block);
// Host order; leaves the embedded table alone.
void encode_fat_header(const FatHeader& header, std::span<std::byte> block);
// Header block of an empty fat ZAP: block 1 is its only leaf.
FatHeader fat_initialise(std::span<std::byte> block, const KeyRule& rule);

// One fat ZAP, for the length of one call.
class Fat {
 public:
  // errors: corrupt, unsupported, those of reading.
  static Result<Fat> open(Dnode& dnode, SharedBuffer header_block);

  const FatHeader& header() const noexcept { return header_; }

  // A leaf that stays readable while this lives.
  struct HeldLeaf {
    SharedBuffer buffer;
    std::uint64_t block = 0;
    Leaf leaf;
  };
  Result<HeldLeaf> leaf_of(std::uint64_t hash) const;

  // Up to `limit` entries from a place on, as (entry, leaf) handed to `take`.
  struct Found {
    LeafEntry entry;
    std::string name, value;
  };
  Result<std::vector<Found>> page(Position from, std::size_t limit) const;

  struct Value {
    std::string_view bytes;  // big-endian elements
    std::uint8_t integer_size = 8;
    std::uint16_t elements = 0;
  };
  // shape: the key is not in the table; `cd` only where an upgrade keeps old ones.
  // errors: too_large, no_space (the table cannot grow), corrupt.
  Result<void> add(Tx& tx, const Key& key, const Value& value,
                   std::optional<std::uint32_t> cd = std::nullopt);
  // shape: the key is in the table.
  Result<void> replace(Tx& tx, const Key& key, const Value& value);
  Result<void> remove(Tx& tx, const Key& key);

 private:
  Fat(Dnode& dnode, SharedBuffer block, const FatHeader& header)
      : dnode_(dnode), block_(std::move(block)), header_(header) {}

  Result<std::uint64_t> pointer(std::uint64_t index) const;
  Result<HeldLeaf> leaf_at(std::uint64_t block) const;
  Result<std::span<std::byte>> edit_leaf(Tx& tx, std::uint64_t block);
  Result<std::span<std::byte>> edit_header(Tx& tx);
  Result<std::span<std::byte>> edit_table_block(Tx& tx, std::uint64_t block);
  Result<void> set_pointers(Tx& tx, std::uint64_t first, std::uint64_t count, std::uint64_t leaf);
  Result<void> split(Tx& tx, std::uint64_t block, std::uint64_t hash);
  Result<void> grow_table(Tx& tx);
  Result<void> count_entries(Tx& tx, std::int64_t more);
  std::uint64_t pointers_per_block() const noexcept {
    return std::uint64_t{1} << (header_.shift - 3);
  }
  ByteOrder table_order(std::span<const std::byte> words) const noexcept;

  Dnode& dnode_;
  SharedBuffer block_;  // block 0 as it was opened
  FatHeader header_;
};

}  // namespace zuse::object::zap
