// See zap_fat.h.
#include "fs/object/zap_fat.h"

#include <algorithm>
#include <bit>

#include "vdev/base/on_disk.h"
#include "vdev/base/units.h"

namespace zuse::object::zap {

namespace {

constexpr std::uint64_t kFatMagic = 0x2f52ab2ab;
constexpr unsigned kTableShiftMax = 46;
// More blocks than any table could use. It also keeps a block id apart from one read in the wrong
// byte order: below 2^32, the swapped one is above.
constexpr std::uint64_t kBlockIdLimit = std::uint64_t{1} << 32;

// Header words.
enum Word : std::size_t {
  kType,
  kMagic,
  kTableBlock,
  kTableBlocks,
  kTableShift,
  kNextBlock,
  kBlocksCopied,
  kFreeBlock,
  kLeafCount,
  kEntryCount,
  kSalt,
  kNormalization,
  kFlags,
};

std::uint64_t word(std::span<const std::byte> block, std::size_t index, ByteOrder order) noexcept {
  return load_at<std::uint64_t>(block, index * 8, order);
}
void set_word(std::span<std::byte> block, std::size_t index, std::uint64_t value) noexcept {
  store_at<std::uint64_t>(block, index * 8, value, kHostOrder);
}

std::unexpected<Error> corrupt(const std::string& what) {
  return fail(Errc::corrupt, "fat ZAP: " + what);
}

std::optional<ByteOrder> order_of(std::span<const std::byte> block) noexcept {
  if (block.size() < 16) {
    return std::nullopt;
  }
  for (const ByteOrder order : {ByteOrder::little, ByteOrder::big}) {
    if (word(block, kType, order) == kBlockHeader) {
      return order;
    }
  }
  return std::nullopt;
}

void words_to_host(std::span<std::byte> block, ByteOrder order) noexcept {
  if (order != kHostOrder) {
    for (std::size_t i = 0; i < block.size() / 8; ++i) {
      set_word(block, i, word(block, i, order));
    }
  }
}

}  // namespace

bool is_fat(std::span<const std::byte> block) noexcept {
  return order_of(block).has_value();
}

Result<FatHeader> decode_fat_header(std::span<const std::byte> block) {
  const auto order = order_of(block);
  if (!order) {
    return corrupt("not a header block");
  }
  if (!std::has_single_bit(block.size()) || block.size() < pow2(kLeafShiftMin) ||
      block.size() > pow2(kLeafShiftMax)) {
    return corrupt("impossible block size " + std::to_string(block.size()));
  }
  if (word(block, kMagic, *order) != kFatMagic) {
    return corrupt("bad magic");
  }
  FatHeader header;
  header.order = *order;
  header.shift = log2_floor(block.size());
  header.table_block = word(block, kTableBlock, *order);
  header.table_blocks = word(block, kTableBlocks, *order);
  const std::uint64_t table_shift = word(block, kTableShift, *order);
  header.next_block = word(block, kNextBlock, *order);
  header.blocks_copied = word(block, kBlocksCopied, *order);
  header.free_block = word(block, kFreeBlock, *order);
  header.leaf_count = word(block, kLeafCount, *order);
  header.entry_count = word(block, kEntryCount, *order);
  header.rule = {word(block, kSalt, *order), word(block, kNormalization, *order),
                 word(block, kFlags, *order)};
  if ((header.rule.flags & ~kKnownFlags) != 0) {
    return fail(Errc::unsupported, "ZAP with unknown flags " + std::to_string(header.rule.flags));
  }
  if (table_shift > kTableShiftMax) {
    return corrupt("impossible table size");
  }
  header.table_shift = static_cast<unsigned>(table_shift);
  if (header.free_block < 2 || header.free_block >= kBlockIdLimit) {
    return corrupt("impossible number of blocks");
  }
  const auto inside = [&](std::uint64_t first, std::uint64_t count) {
    return first >= 1 && first < header.free_block && count <= header.free_block - first;
  };
  if (header.table_block == 0) {
    if (header.table_blocks != 0 || header.table_shift != header.shift - 4) {
      return corrupt("embedded table of impossible size");
    }
  } else if (header.table_shift < header.shift - 3 ||
             header.table_blocks != pow2(header.table_shift - (header.shift - 3)) ||
             !inside(header.table_block, header.table_blocks)) {
    return corrupt("external table of impossible size");
  }
  if (header.next_block != 0 &&
      (header.table_block == 0 || header.blocks_copied > header.table_blocks ||
       !inside(header.next_block, 2 * header.table_blocks))) {
    return corrupt("impossible growing table");
  }
  return header;
}

void encode_fat_header(const FatHeader& header, std::span<std::byte> block) {
  set_word(block, kType, kBlockHeader);
  set_word(block, kMagic, kFatMagic);
  set_word(block, kTableBlock, header.table_block);
  set_word(block, kTableBlocks, header.table_blocks);
  set_word(block, kTableShift, header.table_shift);
  set_word(block, kNextBlock, header.next_block);
  set_word(block, kBlocksCopied, header.blocks_copied);
  set_word(block, kFreeBlock, header.free_block);
  set_word(block, kLeafCount, header.leaf_count);
  set_word(block, kEntryCount, header.entry_count);
  set_word(block, kSalt, header.rule.salt);
  set_word(block, kNormalization, header.rule.normalization);
  set_word(block, kFlags, header.rule.flags);
}

FatHeader fat_initialise(std::span<std::byte> block, const KeyRule& rule) {
  ZUSE_CHECK(std::has_single_bit(block.size()) && block.size() >= pow2(kLeafShiftMin));
  FatHeader header;
  header.shift = log2_floor(block.size());
  header.table_shift = header.shift - 4;
  header.free_block = 2;
  header.leaf_count = 1;
  header.rule = rule;
  std::ranges::fill(block, std::byte{0});
  encode_fat_header(header, block);
  const std::size_t words = block.size() / 8;
  for (std::size_t i = words / 2; i < words; ++i) {
    set_word(block, i, 1);
  }
  return header;
}

Result<Fat> Fat::open(Dnode& dnode, SharedBuffer header_block) {
  ZUSE_TRY(const FatHeader header, decode_fat_header(header_block->span()));
  return Fat(dnode, std::move(header_block), header);
}

// Table blocks carry no mark of their order, but every pointer is a block id, and those are small:
// read in the wrong order they are not.
ByteOrder Fat::table_order(std::span<const std::byte> words) const noexcept {
  for (std::size_t i = 0; i < words.size() / 8; ++i) {
    const std::uint64_t value = word(words, i, kHostOrder);
    if (value != 0) {
      return value < kBlockIdLimit             ? kHostOrder
             : kHostOrder == ByteOrder::little ? ByteOrder::big
                                               : ByteOrder::little;
    }
  }
  return kHostOrder;
}

Result<std::uint64_t> Fat::pointer(std::uint64_t index) const {
  std::uint64_t leaf = 0;
  if (header_.table_block == 0) {
    leaf = word(block_->span(), block_->size() / 16 + index, header_.order);
  } else {
    ZUSE_TRY(const SharedBuffer table,
             dnode_.read_block(header_.table_block + index / pointers_per_block()));
    if (table->size() != block_->size()) {
      return corrupt("blocks of different sizes");
    }
    const auto at = static_cast<std::size_t>(index % pointers_per_block());
    leaf = word(table->span(), at, kHostOrder);
    leaf = leaf < kBlockIdLimit ? leaf : byteswap(leaf);
  }
  if (leaf == 0 || leaf >= header_.free_block) {
    return corrupt("a pointer to no leaf");
  }
  return leaf;
}

Result<Fat::HeldLeaf> Fat::leaf_at(std::uint64_t block) const {
  HeldLeaf held;
  ZUSE_TRY(held.buffer, dnode_.read_block(block));
  held.block = block;
  if (held.buffer->size() != block_->size()) {
    return corrupt("blocks of different sizes");
  }
  ZUSE_TRY(held.leaf, Leaf::open(held.buffer->span()));
  if (held.leaf.prefix_length() > header_.table_shift) {
    return corrupt("a leaf's prefix is longer than the table's index");
  }
  return held;
}

Result<Fat::HeldLeaf> Fat::leaf_of(std::uint64_t hash) const {
  const std::uint64_t index = header_.table_shift == 0 ? 0 : hash >> (64 - header_.table_shift);
  ZUSE_TRY(const std::uint64_t block, pointer(index));
  ZUSE_TRY(HeldLeaf held, leaf_at(block));
  if (!held.leaf.covers(hash)) {
    return corrupt("a leaf has another prefix than its pointer");
  }
  return held;
}

Result<std::vector<Fat::Found>> Fat::page(Position from, std::size_t limit) const {
  std::vector<Found> found;
  while (found.size() < limit) {
    ZUSE_TRY(const HeldLeaf held, leaf_of(from.hash));
    ZUSE_TRY(const auto entries, held.leaf.entries());
    for (const LeafEntry& entry : entries) {
      if (found.size() == limit) {
        break;
      }
      if (entry.position() >= from && held.leaf.covers(entry.hash)) {
        ZUSE_TRY(std::string name, held.leaf.name(entry, header_.rule.words()));
        ZUSE_TRY(std::string value, held.leaf.value(entry));
        found.push_back({entry, std::move(name), std::move(value)});
      }
    }
    // On to the leaf after this one.
    const unsigned length = held.leaf.prefix_length();
    if (length == 0) {
      break;
    }
    const std::uint64_t next = (held.leaf.prefix() + 1) << (64 - length);
    if (next == 0) {
      break;
    }
    from = {next, 0};
  }
  return found;
}

Result<std::span<std::byte>> Fat::edit_header(Tx& tx) {
  ZUSE_TRY(const auto block, dnode_.edit_block(tx, 0));
  ZUSE_TRY(const FatHeader now, decode_fat_header(block));
  words_to_host(block, now.order);
  return block;
}

Result<std::span<std::byte>> Fat::edit_leaf(Tx& tx, std::uint64_t block) {
  ZUSE_TRY(const auto bytes, dnode_.edit_block(tx, block));
  ZUSE_TRY_VOID(leaf_to_host(bytes));
  return bytes;
}

Result<std::span<std::byte>> Fat::edit_table_block(Tx& tx, std::uint64_t block) {
  ZUSE_TRY(const auto bytes, dnode_.edit_block(tx, block));
  words_to_host(bytes, table_order(bytes));
  return bytes;
}

Result<void> Fat::count_entries(Tx& tx, std::int64_t more) {
  header_.entry_count += static_cast<std::uint64_t>(more);
  ZUSE_TRY(const auto block, edit_header(tx));
  encode_fat_header(header_, block);
  return {};
}

Result<void> Fat::set_pointers(Tx& tx, std::uint64_t first, std::uint64_t count,
                               std::uint64_t leaf) {
  if (header_.table_block == 0) {
    ZUSE_TRY(const auto block, edit_header(tx));
    for (std::uint64_t i = first; i < first + count; ++i) {
      set_word(block, block.size() / 16 + i, leaf);
    }
    return {};
  }
  const std::uint64_t per_block = pointers_per_block();
  while (count != 0) {
    ZUSE_TRY(const auto block, edit_table_block(tx, header_.table_block + first / per_block));
    const std::uint64_t here = std::min(count, per_block - first % per_block);
    for (std::uint64_t i = 0; i < here; ++i) {
      set_word(block, first % per_block + i, leaf);
    }
    first += here;
    count -= here;
  }
  return {};
}

// Doubles the table in one go, so that no other writer ever sees it half done. A doubling that
// another implementation has begun is finished.
Result<void> Fat::grow_table(Tx& tx) {
  if (header_.table_shift + 2 >= header_.rule.hash_bits()) {
    return fail(Errc::no_space, "a ZAP's table cannot grow further");
  }
  const std::uint64_t per_block = pointers_per_block();
  if (header_.table_block == 0) {
    const std::uint64_t table = header_.free_block++;
    ZUSE_TRY(const auto source, edit_header(tx));
    ZUSE_TRY(const auto target, dnode_.edit_block(tx, table));
    for (std::size_t i = 0; i < per_block / 2; ++i) {
      const std::uint64_t leaf = word(source, source.size() / 16 + i, kHostOrder);
      set_word(target, 2 * i, leaf);
      set_word(target, 2 * i + 1, leaf);
    }
    header_.table_block = table;
    header_.table_blocks = 1;
  } else {
    std::uint64_t next = header_.next_block;
    if (next == 0) {
      next = header_.free_block;
      header_.free_block += 2 * header_.table_blocks;
      header_.blocks_copied = 0;
    }
    for (std::uint64_t i = header_.blocks_copied; i < header_.table_blocks; ++i) {
      ZUSE_TRY(const SharedBuffer source, dnode_.read_block(header_.table_block + i));
      if (source->size() != block_->size()) {
        return corrupt("blocks of different sizes");
      }
      const ByteOrder order = table_order(source->span());
      for (std::uint64_t half = 0; half < 2; ++half) {
        ZUSE_TRY(const auto target, dnode_.edit_block(tx, next + 2 * i + half));
        for (std::uint64_t j = 0; j < per_block / 2; ++j) {
          const std::uint64_t leaf = word(source->span(), half * per_block / 2 + j, order);
          set_word(target, 2 * j, leaf);
          set_word(target, 2 * j + 1, leaf);
        }
      }
    }
    ZUSE_TRY_VOID(dnode_.free_range(tx, header_.table_block << header_.shift,
                                    header_.table_blocks << header_.shift));
    header_.table_block = next;
    header_.table_blocks *= 2;
    header_.next_block = 0;
    header_.blocks_copied = 0;
  }
  ++header_.table_shift;
  ZUSE_TRY(const auto block, edit_header(tx));
  encode_fat_header(header_, block);
  return {};
}

// Splits the leaf in `block`, which holds `hash`.
Result<void> Fat::split(Tx& tx, std::uint64_t block, std::uint64_t hash) {
  ZUSE_TRY(const HeldLeaf held, leaf_at(block));
  // A leaf full of one and the same hash never parts; do not grow the table for it.
  ZUSE_TRY(const auto entries, held.leaf.entries());
  if (std::ranges::all_of(entries, [=](const LeafEntry& e) { return e.hash == hash; })) {
    return fail(Errc::no_space, "too many names of a ZAP share one hash");
  }
  if (held.leaf.prefix_length() == header_.table_shift || header_.next_block != 0) {
    ZUSE_TRY_VOID(grow_table(tx));
  }
  const unsigned length = held.leaf.prefix_length() + 1;
  const std::uint64_t sibling = header_.free_block++;
  ZUSE_TRY(const auto low, edit_leaf(tx, block));
  ZUSE_TRY(const auto high, dnode_.edit_block(tx, sibling));
  ZUSE_TRY_VOID(leaf_split(low, high));
  ++header_.leaf_count;
  const unsigned spread = header_.table_shift - length;
  ZUSE_TRY_VOID(set_pointers(tx, (held.leaf.prefix() << 1U | 1U) << spread, pow2(spread), sibling));
  ZUSE_TRY(const auto header_block, edit_header(tx));
  encode_fat_header(header_, header_block);
  // What is read from here on is what has just been written.
  ZUSE_TRY(block_, dnode_.read_block(0));
  header_.order = kHostOrder;
  return {};
}

Result<void> Fat::add(Tx& tx, const Key& key, const Value& value, std::optional<std::uint32_t> cd) {
  std::string name(key.bytes);
  name.resize(key.stored_bytes());  // the NUL, where there is one
  if (chunks_needed(name.size(), value.bytes.size()) > leaf_chunks(header_.shift)) {
    return fail(Errc::too_large, "an entry that no ZAP leaf can hold");
  }
  // Each round splits the leaf by one more bit, until the table is at its limit.
  for (;;) {
    ZUSE_TRY(const HeldLeaf held, leaf_of(key.hash));
    std::uint64_t free_cd = cd.value_or(0);
    if (!cd) {
      ZUSE_TRY(free_cd, held.leaf.free_cd(key.hash));
      if (free_cd >= header_.rule.cd_limit()) {
        return fail(Errc::no_space, "too many names of a ZAP share one hash");
      }
    }
    if (held.leaf.free_chunks() >= chunks_needed(name.size(), value.bytes.size())) {
      ZUSE_TRY(const auto leaf, edit_leaf(tx, held.block));
      ZUSE_TRY(const bool fits,
               leaf_insert(leaf, {key.hash, static_cast<std::uint32_t>(free_cd), name,
                                  static_cast<std::uint16_t>(key.elements()), value.bytes,
                                  value.integer_size, value.elements}));
      if (fits) {
        return count_entries(tx, 1);
      }
    }
    ZUSE_TRY_VOID(split(tx, held.block, key.hash));
  }
}

Result<void> Fat::replace(Tx& tx, const Key& key, const Value& value) {
  if (chunks_needed(key.stored_bytes(), value.bytes.size()) > leaf_chunks(header_.shift)) {
    return fail(Errc::too_large, "an entry that no ZAP leaf can hold");
  }
  for (;;) {
    ZUSE_TRY(const HeldLeaf held, leaf_of(key.hash));
    ZUSE_TRY(const auto entry, held.leaf.find(key));
    if (!entry) {
      return fail(Errc::not_found);
    }
    ZUSE_TRY(const auto leaf, edit_leaf(tx, held.block));
    ZUSE_TRY(const bool fits,
             leaf_set_value(leaf, *entry, value.bytes, value.integer_size, value.elements));
    if (fits) {
      return {};
    }
    ZUSE_TRY_VOID(split(tx, held.block, key.hash));
  }
}

Result<void> Fat::remove(Tx& tx, const Key& key) {
  ZUSE_TRY(const HeldLeaf held, leaf_of(key.hash));
  ZUSE_TRY(const auto entry, held.leaf.find(key));
  if (!entry) {
    return fail(Errc::not_found);
  }
  ZUSE_TRY(const auto leaf, edit_leaf(tx, held.block));
  ZUSE_TRY_VOID(leaf_remove(leaf, *entry));
  return header_.entry_count == 0 ? Result<void>{} : count_entries(tx, -1);
}

}  // namespace zuse::object::zap
