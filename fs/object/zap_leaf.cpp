// See zap_leaf.h.
#include "fs/object/zap_leaf.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "vdev/base/buffer.h"
#include "vdev/base/on_disk.h"
#include "vdev/base/units.h"

namespace zuse::object::zap {

namespace {

constexpr std::uint32_t kLeafMagic = 0x2ab1eaf;
constexpr std::uint8_t kEntryChunk = 252;
constexpr std::uint8_t kArrayChunk = 251;
constexpr std::uint8_t kFreeChunk = 253;

// Offsets in the header.
constexpr std::size_t kPrefixAt = 16;
constexpr std::size_t kMagicAt = 24;
constexpr std::size_t kFreeCountAt = 28;
constexpr std::size_t kEntryCountAt = 30;
constexpr std::size_t kPrefixLengthAt = 32;
constexpr std::size_t kFreeListAt = 34;
constexpr std::size_t kFlagsAt = 36;
constexpr std::size_t kTableAt = 48;
// Offsets in an entry chunk; the type is at 0.
constexpr std::size_t kSizeAt = 1;
constexpr std::size_t kNextAt = 2;
constexpr std::size_t kNameAt = 4;
constexpr std::size_t kNameElementsAt = 6;
constexpr std::size_t kValueAt = 8;
constexpr std::size_t kValueElementsAt = 10;
constexpr std::size_t kCdAt = 12;
constexpr std::size_t kHashAt = 16;
// In array and free chunks.
constexpr std::size_t kDataAt = 1;
constexpr std::size_t kLinkAt = 22;

constexpr std::size_t first_chunk_at(unsigned shift) {
  return kTableAt + (std::size_t{1} << (shift - 4));
}

std::unexpected<Error> corrupt(const char* what) {
  return fail(Errc::corrupt, std::string("ZAP leaf: ") + what);
}

}  // namespace

std::size_t Leaf::chunk_at(std::size_t chunk) const noexcept {
  return first_chunk_at(shift_) + chunk * kChunkSize;
}

std::size_t Leaf::bucket_of(std::uint64_t hash) const noexcept {
  return static_cast<std::size_t>(bits(hash, 64 - (shift_ - 5) - prefix_length_, shift_ - 5));
}

std::uint16_t Leaf::bucket(std::size_t index) const noexcept {
  return load_at<std::uint16_t>(block_, kTableAt + 2 * index, order_);
}

Result<Leaf> Leaf::open(std::span<const std::byte> block) {
  Leaf leaf;
  leaf.block_ = block;
  if (!std::has_single_bit(block.size()) || block.size() < pow2(kLeafShiftMin) ||
      block.size() > pow2(kLeafShiftMax)) {
    return corrupt("impossible block size");
  }
  leaf.shift_ = log2_floor(block.size());
  if (load_at<std::uint64_t>(block, 0, ByteOrder::big) == kBlockLeaf) {
    leaf.order_ = ByteOrder::big;
  } else if (load_at<std::uint64_t>(block, 0, ByteOrder::little) == kBlockLeaf) {
    leaf.order_ = ByteOrder::little;
  } else {
    return corrupt("not a leaf block");
  }
  if (load_at<std::uint32_t>(block, kMagicAt, leaf.order_) != kLeafMagic) {
    return corrupt("bad magic");
  }
  leaf.prefix_ = load_at<std::uint64_t>(block, kPrefixAt, leaf.order_);
  leaf.prefix_length_ = load_at<std::uint16_t>(block, kPrefixLengthAt, leaf.order_);
  leaf.free_chunks_ = load_at<std::uint16_t>(block, kFreeCountAt, leaf.order_);
  leaf.entry_count_ = load_at<std::uint16_t>(block, kEntryCountAt, leaf.order_);
  if (leaf.prefix_length_ > kPrefixMax || leaf.prefix_ >= pow2(leaf.prefix_length_)) {
    return corrupt("impossible prefix");
  }
  if (leaf.free_chunks_ > leaf.chunks() || leaf.entry_count_ > leaf.chunks()) {
    return corrupt("impossible counts");
  }
  return leaf;
}

Result<LeafEntry> Leaf::entry(std::uint16_t chunk) const {
  if (chunk >= chunks()) {
    return corrupt("entry index out of range");
  }
  const auto raw = block_.subspan(chunk_at(chunk), kChunkSize);
  if (raw[0] != std::byte{kEntryChunk}) {
    return corrupt("a chain leads to a chunk that is no entry");
  }
  LeafEntry entry;
  entry.chunk = chunk;
  entry.integer_size = static_cast<std::uint8_t>(raw[kSizeAt]);
  entry.next = load_at<std::uint16_t>(raw, kNextAt, order_);
  entry.name_chunk = load_at<std::uint16_t>(raw, kNameAt, order_);
  entry.name_elements = load_at<std::uint16_t>(raw, kNameElementsAt, order_);
  entry.value_chunk = load_at<std::uint16_t>(raw, kValueAt, order_);
  entry.value_elements = load_at<std::uint16_t>(raw, kValueElementsAt, order_);
  entry.cd = load_at<std::uint32_t>(raw, kCdAt, order_);
  entry.hash = load_at<std::uint64_t>(raw, kHashAt, order_);
  if (entry.integer_size > 8 || !std::has_single_bit(entry.integer_size)) {
    return corrupt("impossible integer size");
  }
  return entry;
}

Result<std::vector<std::uint16_t>> Leaf::array_chunks(std::uint16_t first,
                                                      std::size_t bytes) const {
  const std::size_t count = div_ceil(bytes, kArrayBytes);
  if (count > chunks()) {
    return corrupt("array longer than the leaf");
  }
  std::vector<std::uint16_t> list;
  list.reserve(count);
  std::uint16_t at = first;
  for (std::size_t i = 0; i < count; ++i) {
    if (at >= chunks() || block_[chunk_at(at)] != std::byte{kArrayChunk}) {
      return corrupt("an array leads out of itself");
    }
    list.push_back(at);
    at = load_at<std::uint16_t>(block_, chunk_at(at) + kLinkAt, order_);
  }
  return list;
}

Result<std::string> Leaf::array(std::uint16_t first, std::size_t bytes) const {
  ZUSE_TRY(const auto list, array_chunks(first, bytes));
  std::string text;
  text.reserve(list.size() * kArrayBytes);
  for (const std::uint16_t chunk : list) {
    text.append(reinterpret_cast<const char*>(block_.data() + chunk_at(chunk) + kDataAt),
                kArrayBytes);
  }
  text.resize(bytes);
  return text;
}

// Compares in place: a lookup allocates nothing.
Result<bool> Leaf::name_is(const LeafEntry& entry, const Key& key) const {
  if (entry.name_elements != key.elements()) {
    return false;
  }
  std::uint16_t at = entry.name_chunk;
  for (std::size_t done = 0; done < key.stored_bytes(); done += kArrayBytes) {
    if (at >= chunks() || block_[chunk_at(at)] != std::byte{kArrayChunk}) {
      return corrupt("a name leads out of itself");
    }
    const auto* const stored =
        reinterpret_cast<const char*>(block_.data() + chunk_at(at) + kDataAt);
    const std::string_view wanted = key.bytes.substr(std::min(done, key.bytes.size()), kArrayBytes);
    if (!same_name({stored, wanted.size()}, wanted, key.fold)) {
      return false;
    }
    if (!key.words && done + wanted.size() == key.bytes.size() && wanted.size() < kArrayBytes &&
        stored[wanted.size()] != '\0') {
      return false;
    }
    at = load_at<std::uint16_t>(block_, chunk_at(at) + kLinkAt, order_);
  }
  return true;
}

Result<std::optional<LeafEntry>> Leaf::find(const Key& key) const {
  std::uint16_t at = bucket(bucket_of(key.hash));
  for (std::size_t steps = 0; at != kChainEnd; ++steps) {
    if (steps > chunks()) {
      return corrupt("a chain runs in a circle");
    }
    ZUSE_TRY(const LeafEntry found, entry(at));
    if (found.hash == key.hash) {
      ZUSE_TRY(const bool same, name_is(found, key));
      if (same) {
        return found;
      }
    }
    at = found.next;
  }
  return std::nullopt;
}

Result<std::vector<LeafEntry>> Leaf::entries() const {
  std::vector<LeafEntry> all;
  all.reserve(entry_count_);
  const std::size_t buckets = std::size_t{1} << (shift_ - 5);
  for (std::size_t index = 0; index < buckets; ++index) {
    for (std::uint16_t at = bucket(index); at != kChainEnd;) {
      if (all.size() >= chunks()) {
        return corrupt("a chain runs in a circle");
      }
      ZUSE_TRY(const LeafEntry found, entry(at));
      all.push_back(found);
      at = found.next;
    }
  }
  std::ranges::sort(all, {}, [](const LeafEntry& e) { return e.position(); });
  return all;
}

Result<std::uint64_t> Leaf::free_cd(std::uint64_t hash) const {
  std::vector<std::uint64_t> taken;
  std::uint16_t at = bucket(bucket_of(hash));
  for (std::size_t steps = 0; at != kChainEnd; ++steps) {
    if (steps > chunks()) {
      return corrupt("a chain runs in a circle");
    }
    ZUSE_TRY(const LeafEntry found, entry(at));
    if (found.hash == hash) {
      taken.push_back(found.cd);
    }
    at = found.next;
  }
  std::ranges::sort(taken);
  std::uint64_t cd = 0;
  for (const std::uint64_t one : taken) {
    cd = one == cd ? cd + 1 : cd;
  }
  return cd;
}

Result<std::string> Leaf::name(const LeafEntry& entry, bool words) const {
  ZUSE_TRY(std::string bytes,
           array(entry.name_chunk, std::size_t{entry.name_elements} * (words ? 8 : 1)));
  if (!words) {
    bytes.resize(std::min(bytes.size(), bytes.find('\0')));
  }
  return bytes;
}

Result<std::string> Leaf::value(const LeafEntry& entry) const {
  return array(entry.value_chunk, entry.value_bytes());
}

Result<std::string> Leaf::stored_name(const LeafEntry& entry) const {
  std::string bytes;
  std::size_t steps = 0;
  for (std::uint16_t at = entry.name_chunk; at != kChainEnd; ++steps) {
    if (at >= chunks() || steps > chunks() || block_[chunk_at(at)] != std::byte{kArrayChunk}) {
      return corrupt("a name leads out of itself");
    }
    bytes.append(reinterpret_cast<const char*>(block_.data() + chunk_at(at) + kDataAt),
                 kArrayBytes);
    at = load_at<std::uint16_t>(block_, chunk_at(at) + kLinkAt, order_);
  }
  return bytes;
}

Result<std::uint64_t> Leaf::first_integer(const LeafEntry& entry) const {
  if (entry.value_elements == 0) {
    return corrupt("an entry without a value");
  }
  const std::uint16_t at = entry.value_chunk;  // an element of 8 bytes never leaves the first chunk
  if (at >= chunks() || block_[chunk_at(at)] != std::byte{kArrayChunk}) {
    return corrupt("a value leads out of itself");
  }
  std::uint64_t integer = 0;
  for (std::size_t i = 0; i < entry.integer_size; ++i) {
    integer = integer << 8U | std::to_integer<std::uint64_t>(block_[chunk_at(at) + kDataAt + i]);
  }
  return integer;
}

void leaf_initialise(std::span<std::byte> block, std::uint64_t prefix, unsigned prefix_length,
                     bool sorted_flag) {
  ZUSE_CHECK(std::has_single_bit(block.size()) && block.size() >= pow2(kLeafShiftMin) &&
             block.size() <= pow2(kLeafShiftMax));
  const unsigned shift = log2_floor(block.size());
  const std::size_t chunks = leaf_chunks(shift);
  std::ranges::fill(block, std::byte{0});
  store_at<std::uint64_t>(block, 0, kBlockLeaf, kHostOrder);
  store_at<std::uint64_t>(block, kPrefixAt, prefix, kHostOrder);
  store_at<std::uint32_t>(block, kMagicAt, kLeafMagic, kHostOrder);
  store_at<std::uint16_t>(block, kFreeCountAt, static_cast<std::uint16_t>(chunks), kHostOrder);
  store_at<std::uint16_t>(block, kPrefixLengthAt, static_cast<std::uint16_t>(prefix_length),
                          kHostOrder);
  block[kFlagsAt] = std::byte{sorted_flag};
  std::ranges::fill(block.subspan(kTableAt, first_chunk_at(shift) - kTableAt), std::byte{0xff});
  for (std::size_t i = 0; i < chunks; ++i) {
    const auto chunk = block.subspan(first_chunk_at(shift) + i * kChunkSize, kChunkSize);
    chunk[0] = std::byte{kFreeChunk};
    store_at<std::uint16_t>(chunk, kLinkAt,
                            i + 1 == chunks ? kChainEnd : static_cast<std::uint16_t>(i + 1),
                            kHostOrder);
  }
}

Result<void> leaf_to_host(std::span<std::byte> block) {
  ZUSE_TRY(const Leaf leaf, Leaf::open(block));
  const ByteOrder order = leaf.order();
  if (order == kHostOrder) {
    return {};
  }
  const auto swap16 = [&](std::size_t at) {
    store_at<std::uint16_t>(block, at, load_at<std::uint16_t>(block, at, order), kHostOrder);
  };
  const auto swap32 = [&](std::size_t at) {
    store_at<std::uint32_t>(block, at, load_at<std::uint32_t>(block, at, order), kHostOrder);
  };
  const auto swap64 = [&](std::size_t at) {
    store_at<std::uint64_t>(block, at, load_at<std::uint64_t>(block, at, order), kHostOrder);
  };
  swap64(0);
  swap64(8);
  swap64(kPrefixAt);
  swap32(kMagicAt);
  for (const std::size_t at : {kFreeCountAt, kEntryCountAt, kPrefixLengthAt, kFreeListAt}) {
    swap16(at);
  }
  const std::size_t first = first_chunk_at(leaf.shift());
  for (std::size_t at = kTableAt; at < first; at += 2) {
    swap16(at);
  }
  for (std::size_t i = 0; i < leaf.chunks(); ++i) {
    const std::size_t at = first + i * kChunkSize;
    if (block[at] == std::byte{kEntryChunk}) {
      for (const std::size_t field :
           {kNextAt, kNameAt, kNameElementsAt, kValueAt, kValueElementsAt}) {
        swap16(at + field);
      }
      swap32(at + kCdAt);
      swap64(at + kHashAt);
    } else {
      swap16(at + kLinkAt);
    }
  }
  return {};
}

// Changes one leaf. Whatever can go wrong is found before the first byte changes.
class LeafEditor {
 public:
  static Result<LeafEditor> open(std::span<std::byte> block) {
    ZUSE_TRY(const Leaf leaf, Leaf::open(block));
    ZUSE_CHECK(leaf.order() == kHostOrder);
    return LeafEditor(block, leaf);
  }
  const Leaf& leaf() const noexcept { return leaf_; }

  // The first `count` chunks of the free list. errors: corrupt.
  Result<std::vector<std::uint16_t>> first_free(std::size_t count) const {
    std::vector<std::uint16_t> list;
    std::vector<bool> seen(leaf_.chunks());
    std::uint16_t at = load(kFreeListAt);
    for (std::size_t i = 0; i < count; ++i) {
      if (at >= leaf_.chunks() || block_[leaf_.chunk_at(at)] != std::byte{kFreeChunk} || seen[at]) {
        return corrupt("the free list leads out of itself");
      }
      seen[at] = true;
      list.push_back(at);
      at = load(leaf_.chunk_at(at) + kLinkAt);
    }
    return list;
  }
  std::size_t free_chunks() const noexcept { return load(kFreeCountAt); }

  // shape: first_free() just said that there are enough, here and below.
  std::uint16_t take() {
    const std::uint16_t chunk = load(kFreeListAt);
    store(kFreeListAt, load(leaf_.chunk_at(chunk) + kLinkAt));
    store(kFreeCountAt, static_cast<std::uint16_t>(load(kFreeCountAt) - 1));
    return chunk;
  }
  void give(std::uint16_t chunk) {
    const std::size_t at = leaf_.chunk_at(chunk);
    std::ranges::fill(block_.subspan(at, kChunkSize), std::byte{0});
    block_[at] = std::byte{kFreeChunk};
    store(at + kLinkAt, load(kFreeListAt));
    store(kFreeListAt, chunk);
    store(kFreeCountAt, static_cast<std::uint16_t>(load(kFreeCountAt) + 1));
  }
  // The first chunk of a new array; kChainEnd for no bytes.
  std::uint16_t put_array(std::string_view bytes) {
    std::uint16_t first = kChainEnd;
    std::size_t link = 0;  // where the chunk before wants the index of the next
    for (std::size_t done = 0; done < bytes.size(); done += kArrayBytes) {
      const std::uint16_t chunk = take();
      const std::size_t at = leaf_.chunk_at(chunk);
      const std::string_view piece = bytes.substr(done, kArrayBytes);
      std::ranges::fill(block_.subspan(at, kChunkSize), std::byte{0});
      block_[at] = std::byte{kArrayChunk};
      std::memcpy(block_.data() + at + kDataAt, piece.data(), piece.size());
      store(at + kLinkAt, kChainEnd);
      if (link == 0) {
        first = chunk;
      } else {
        store(link, chunk);
      }
      link = at + kLinkAt;
    }
    return first;
  }
  // Where the index of the first entry with a cd above `cd` (or of the chunk `stop`) is kept in the
  // chain of `hash`. errors: corrupt.
  Result<std::size_t> link_before(std::uint64_t hash, std::uint64_t cd,
                                  std::uint16_t stop = kChainEnd) const {
    std::size_t link = kTableAt + 2 * leaf_.bucket_of(hash);
    for (std::size_t steps = 0; load(link) != kChainEnd && load(link) != stop; ++steps) {
      if (steps > leaf_.chunks()) {
        return corrupt("a chain runs in a circle");
      }
      ZUSE_TRY(const LeafEntry here, leaf_.entry(load(link)));
      if (stop == kChainEnd && here.cd > cd) {
        break;
      }
      link = leaf_.chunk_at(here.chunk) + kNextAt;
    }
    return link;
  }
  std::uint16_t load(std::size_t at) const noexcept {
    return load_at<std::uint16_t>(block_, at, kHostOrder);
  }
  void store(std::size_t at, std::uint16_t value) noexcept {
    store_at<std::uint16_t>(block_, at, value, kHostOrder);
  }
  std::span<std::byte> chunk(std::uint16_t index) noexcept {
    return block_.subspan(leaf_.chunk_at(index), kChunkSize);
  }
  Result<std::vector<std::uint16_t>> array_chunks(std::uint16_t first, std::size_t bytes) const {
    return leaf_.array_chunks(first, bytes);
  }
  // The entry as it is now: its links may have changed since the caller looked.
  Result<LeafEntry> entry(std::uint16_t chunk) const { return leaf_.entry(chunk); }

 private:
  LeafEditor(std::span<std::byte> block, const Leaf& leaf) : block_(block), leaf_(leaf) {}
  std::span<std::byte> block_;
  Leaf leaf_;
};

Result<bool> leaf_insert(std::span<std::byte> block, const NewLeafEntry& entry) {
  ZUSE_TRY(LeafEditor editor, LeafEditor::open(block));
  const std::size_t needed = chunks_needed(entry.name.size(), entry.value.size());
  if (editor.free_chunks() < needed) {
    return false;
  }
  ZUSE_TRY_VOID(editor.first_free(needed));
  ZUSE_TRY(const std::size_t link, editor.link_before(entry.hash, entry.cd));
  const std::uint16_t index = editor.take();
  const std::uint16_t name = editor.put_array(entry.name);
  const std::uint16_t value = editor.put_array(entry.value);
  const auto chunk = editor.chunk(index);
  chunk[0] = std::byte{kEntryChunk};
  chunk[kSizeAt] = std::byte{entry.integer_size};
  store_at<std::uint16_t>(chunk, kNextAt, editor.load(link), kHostOrder);
  store_at<std::uint16_t>(chunk, kNameAt, name, kHostOrder);
  store_at<std::uint16_t>(chunk, kNameElementsAt, entry.name_elements, kHostOrder);
  store_at<std::uint16_t>(chunk, kValueAt, value, kHostOrder);
  store_at<std::uint16_t>(chunk, kValueElementsAt, entry.value_elements, kHostOrder);
  store_at<std::uint32_t>(chunk, kCdAt, entry.cd, kHostOrder);
  store_at<std::uint64_t>(chunk, kHashAt, entry.hash, kHostOrder);
  editor.store(link, index);
  editor.store(kEntryCountAt, static_cast<std::uint16_t>(editor.load(kEntryCountAt) + 1));
  return true;
}

Result<bool> leaf_set_value(std::span<std::byte> block, const LeafEntry& stale,
                            std::string_view value, std::uint8_t integer_size,
                            std::uint16_t value_elements) {
  ZUSE_TRY(LeafEditor editor, LeafEditor::open(block));
  ZUSE_TRY(const LeafEntry entry, editor.entry(stale.chunk));
  ZUSE_TRY(const auto old, editor.array_chunks(entry.value_chunk, entry.value_bytes()));
  std::vector<bool> seen(editor.leaf().chunks());
  for (const std::uint16_t chunk : old) {  // given back twice, it would break the free list
    if (seen[chunk]) {
      return corrupt("a value runs in a circle");
    }
    seen[chunk] = true;
  }
  const std::size_t needed = div_ceil(value.size(), kArrayBytes);
  if (needed > old.size()) {
    const std::size_t more = needed - old.size();
    if (editor.free_chunks() < more) {
      return false;
    }
    ZUSE_TRY_VOID(editor.first_free(more));
  }
  for (const std::uint16_t chunk : old) {
    editor.give(chunk);
  }
  const std::uint16_t first = editor.put_array(value);
  const auto chunk = editor.chunk(entry.chunk);
  chunk[kSizeAt] = std::byte{integer_size};
  store_at<std::uint16_t>(chunk, kValueAt, first, kHostOrder);
  store_at<std::uint16_t>(chunk, kValueElementsAt, value_elements, kHostOrder);
  return true;
}

Result<void> leaf_remove(std::span<std::byte> block, const LeafEntry& stale) {
  ZUSE_TRY(LeafEditor editor, LeafEditor::open(block));
  ZUSE_TRY(const LeafEntry entry, editor.entry(stale.chunk));
  ZUSE_TRY(const std::size_t link, editor.link_before(entry.hash, 0, entry.chunk));
  if (editor.load(link) != entry.chunk || editor.load(kEntryCountAt) == 0) {
    return corrupt("an entry is not in its chain");
  }
  // Counted in words for UINT64_KEY tables, in bytes for others: the chain itself tells.
  std::vector<std::uint16_t> chunks;
  std::vector<bool> seen(editor.leaf().chunks());
  for (std::uint16_t at = entry.name_chunk; at != kChainEnd;) {
    if (at >= seen.size() || seen[at] || editor.chunk(at)[0] != std::byte{kArrayChunk}) {
      return corrupt("a name leads out of itself");
    }
    seen[at] = true;
    chunks.push_back(at);
    at = load_at<std::uint16_t>(editor.chunk(at), kLinkAt, kHostOrder);
  }
  ZUSE_TRY(const auto value, editor.array_chunks(entry.value_chunk, entry.value_bytes()));
  for (const std::uint16_t at : value) {
    if (seen[at]) {
      return corrupt("a name and a value share chunks");
    }
    seen[at] = true;
  }
  editor.store(link, entry.next);
  for (const std::uint16_t at : value) {
    editor.give(at);
  }
  for (const std::uint16_t at : chunks) {
    editor.give(at);
  }
  editor.give(entry.chunk);
  editor.store(kEntryCountAt, static_cast<std::uint16_t>(editor.load(kEntryCountAt) - 1));
  return {};
}

Result<void> leaf_split(std::span<std::byte> low, std::span<std::byte> high) {
  ZUSE_CHECK(low.size() == high.size());
  const Buffer before = Buffer::copy_of(low);
  ZUSE_TRY(const Leaf leaf, Leaf::open(before.span()));
  ZUSE_CHECK(leaf.order() == kHostOrder && leaf.prefix_length() < kPrefixMax);
  struct Moved {
    LeafEntry entry;
    std::string name, value;
  };
  std::vector<Moved> moved;
  std::size_t needed = 0;
  ZUSE_TRY(const auto entries, leaf.entries());
  for (const LeafEntry& entry : entries) {
    if (!leaf.covers(entry.hash)) {
      return corrupt("an entry belongs to another leaf");
    }
    ZUSE_TRY(std::string value, leaf.value(entry));
    ZUSE_TRY(std::string name, leaf.stored_name(entry));
    needed += chunks_needed(name.size(), value.size());
    moved.push_back({entry, std::move(name), std::move(value)});
  }
  if (needed > leaf.chunks()) {
    return corrupt("entries share chunks");
  }
  const unsigned length = leaf.prefix_length();
  const bool flag = (before.span()[kFlagsAt] & std::byte{1}) != std::byte{0};
  leaf_initialise(low, leaf.prefix() << 1U, length + 1, flag);
  leaf_initialise(high, leaf.prefix() << 1U | 1U, length + 1, flag);
  for (const Moved& one : moved) {
    const bool up = bits(one.entry.hash, 63 - length, 1) != 0;
    ZUSE_TRY(const bool fits,
             leaf_insert(up ? high : low,
                         {one.entry.hash, one.entry.cd, one.name, one.entry.name_elements,
                          one.value, one.entry.integer_size, one.entry.value_elements}));
    ZUSE_CHECK(fits);
  }
  return {};
}

}  // namespace zuse::object::zap
