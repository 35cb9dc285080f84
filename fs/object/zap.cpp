// Zap: the calls, each of which takes the lock, looks which form the object has, and hands on to
// zap_micro or zap_fat. The form changes in one place, upgrade().
//
// For a micro ZAP the dnode remembers an index of its slots (zap_memory): a lookup in a directory
// of thousands is a binary search, and adding neither scans for the name nor for a free slot.
#include "fs/object/zap.h"

#include <algorithm>
#include <bit>
#include <charconv>

#include "fs/object/zap_fat.h"
#include "fs/object/zap_micro.h"
#include "vdev/base/on_disk.h"
#include "vdev/base/random.h"

namespace zuse::object {

namespace {

using zap::Fat;
using zap::Key;
using zap::KeyRule;
using zap::Micro;
using zap::MicroIndex;
using zap::Position;

constexpr std::uint64_t kKnownNormalization = 0x72;
constexpr std::size_t kNameMax = 256;  // with the NUL
constexpr std::size_t kLongNameMax = 1024;
constexpr std::size_t kPageEntries = 128;

// Entries of one hash that a micro ZAP may hold: more would not do as a chain in a fat leaf.
constexpr std::size_t kMicroSameHash = 638 / 5;

bool fits_micro(std::string_view name, const ZapValue& value) {
  return value.integer_size == 8 && value.integers.size() == 1 && name.size() < zap::kMicroNameSize;
}

// The index of a micro ZAP, null if there is none that belongs to it.
MicroIndex* remembered(Dnode& dnode, const Micro& micro) {
  auto* const index = static_cast<MicroIndex*>(dnode.zap_memory().get());
  return index != nullptr && index->matches(micro) ? index : nullptr;
}

Result<MicroIndex*> remember(Dnode& dnode, const Micro& micro) {
  if (MicroIndex* const index = remembered(dnode, micro)) {
    return index;
  }
  ZUSE_TRY(MicroIndex built, MicroIndex::build(micro));
  auto shared = std::make_shared<MicroIndex>(std::move(built));
  MicroIndex* const index = shared.get();
  dnode.zap_memory() = std::move(shared);
  return index;
}

std::unexpected<Error> within(Dnode& dnode, Error error) {
  return std::unexpected(std::move(error).within("ZAP " + std::to_string(dnode.object())));
}

// Calls on_micro(micro, index) or on_fat(fat) under the shared lock; under the exclusive one where
// the index had to be built first.
template <class OnMicro, class OnFat>
auto read(Dnode& dnode, const OnMicro& on_micro, const OnFat& on_fat)
    -> decltype(on_fat(std::declval<const Fat&>())) {
  const auto work = [&]() -> decltype(on_fat(std::declval<const Fat&>())) {
    {
      const SharedGuard guard(dnode.zap_mutex());
      ZUSE_TRY(SharedBuffer block, dnode.read_block(0));
      if (!zap::is_micro(block->span())) {
        ZUSE_TRY(const Fat fat, Fat::open(dnode, std::move(block)));
        return on_fat(fat);
      }
      ZUSE_TRY(const Micro micro, Micro::open(block->span()));
      if (const MicroIndex* const index = remembered(dnode, micro)) {
        return on_micro(micro, *index);
      }
    }
    const ExclusiveGuard guard(dnode.zap_mutex());
    ZUSE_TRY(SharedBuffer block, dnode.read_block(0));
    if (!zap::is_micro(block->span())) {  // upgraded in between
      ZUSE_TRY(const Fat fat, Fat::open(dnode, std::move(block)));
      return on_fat(fat);
    }
    ZUSE_TRY(const Micro micro, Micro::open(block->span()));
    ZUSE_TRY(const MicroIndex* const index, remember(dnode, micro));
    return on_micro(micro, *index);
  };
  auto result = work();
  if (!result && result.error().code() == Errc::corrupt) {
    return within(dnode, std::move(result).error());
  }
  return result;
}

// Big-endian elements, as leaves store them. errors: invalid, too_large.
Result<std::string> encoded(const ZapValue& value) {
  const unsigned size = value.integer_size;
  if (size > 8 || !std::has_single_bit(size)) {
    return fail(Errc::invalid, "a ZAP value of " + std::to_string(size) + "-byte integers");
  }
  if (value.integers.size() > zap::kValueBytesMax / size) {
    return fail(Errc::too_large,
                "a ZAP value larger than " + std::to_string(zap::kValueBytesMax) + " bytes");
  }
  std::string bytes;
  bytes.reserve(size * value.integers.size());
  for (const std::uint64_t integer : value.integers) {
    if (size < 8 && integer >> (8 * size) != 0) {
      return fail(Errc::invalid, "an integer wider than the ZAP value's elements");
    }
    for (unsigned byte = size; byte-- > 0;) {
      bytes.push_back(static_cast<char>(integer >> (8 * byte)));
    }
  }
  return bytes;
}

ZapValue decoded(std::string_view bytes, unsigned size) {
  ZapValue value{size, {}};
  value.integers.reserve(bytes.size() / size);
  for (std::size_t at = 0; at + size <= bytes.size(); at += size) {
    std::uint64_t integer = 0;
    for (unsigned i = 0; i < size; ++i) {
      integer = integer << 8U | static_cast<unsigned char>(bytes[at + i]);
    }
    value.integers.push_back(integer);
  }
  return value;
}

Result<std::uint64_t> first_of(const Fat::HeldLeaf& held, const zap::LeafEntry& entry) {
  if (entry.integer_size != 8 || entry.value_elements == 0) {
    return fail(Errc::invalid, "a ZAP value that is not a 64-bit integer");
  }
  return held.leaf.first_integer(entry);
}

// Makes a micro ZAP fat; entries keep their cd. The lock is held.
Result<void> upgrade(Dnode& dnode, Tx& tx, const Micro& micro) {
  struct Entry {
    std::string name;
    std::uint64_t value;
    std::uint32_t cd;
  };
  const KeyRule rule = micro.rule();
  std::vector<Entry> entries;
  for (std::uint32_t i = 0; i < micro.slots(); ++i) {
    ZUSE_TRY(const auto slot, micro.slot(i));
    if (slot) {
      ZUSE_TRY_VOID(zap::make_key(slot->name, rule));  // refused before anything changes
      entries.push_back({std::string(slot->name), slot->value, slot->cd});
    }
  }
  ZUSE_TRY_VOID(dnode.set_block_size(tx, zap::kFatBlockSize));
  ZUSE_TRY(const auto header, dnode.edit_block(tx, 0));
  zap::fat_initialise(header, rule);
  ZUSE_TRY(const auto leaf, dnode.edit_block(tx, 1));
  zap::leaf_initialise(leaf, 0, 0, rule.normalization != 0);
  dnode.zap_memory().reset();
  ZUSE_TRY(SharedBuffer block, dnode.read_block(0));
  ZUSE_TRY(Fat fat, Fat::open(dnode, std::move(block)));
  for (const Entry& entry : entries) {
    ZUSE_TRY(const Key key, zap::make_key(entry.name, rule));
    ZUSE_TRY(const std::string value, encoded(ZapValue::of(entry.value)));
    ZUSE_TRY_VOID(fat.add(tx, key, {value, 8, 1}, entry.cd));
  }
  return {};
}

enum class Put : std::uint8_t { add, update };

Result<void> put_fat(Dnode& dnode, Tx& tx, std::string_view name, const ZapValue& value, Put put) {
  ZUSE_TRY(const std::string bytes, encoded(value));
  ZUSE_TRY(SharedBuffer block, dnode.read_block(0));
  ZUSE_TRY(Fat fat, Fat::open(dnode, std::move(block)));
  ZUSE_TRY(const Key key, zap::make_key(name, fat.header().rule));
  bool there = false;
  {
    ZUSE_TRY(const Fat::HeldLeaf held, fat.leaf_of(key.hash));
    ZUSE_TRY(const auto entry, held.leaf.find(key));
    there = entry.has_value();
  }
  const Fat::Value stored{bytes, static_cast<std::uint8_t>(value.integer_size),
                          static_cast<std::uint16_t>(value.integers.size())};
  if (!there) {
    return fat.add(tx, key, stored);
  }
  if (put == Put::add) {
    return fail(Errc::exists, "the name is already in the ZAP");
  }
  return fat.replace(tx, key, stored);
}

// False: the entry needs a fat ZAP; nothing has changed.
Result<bool> put_micro(Dnode& dnode, Tx& tx, const Micro& micro, std::string_view name,
                       const ZapValue& value, Put put) {
  ZUSE_TRY(const Key key, zap::make_key(name, micro.rule()));
  ZUSE_TRY(MicroIndex* const index, remember(dnode, micro));
  ZUSE_TRY(const auto found, index->find(micro, key));
  if (found && put == Put::add) {
    return fail(Errc::exists, "the name is already in the ZAP");
  }
  if (!fits_micro(name, value)) {
    return false;
  }
  if (found) {
    ZUSE_TRY(const auto block, dnode.edit_block(tx, 0));
    zap::micro_to_host(block);
    zap::micro_set_value(block, found->slot, value.integers[0]);
    return true;
  }
  if (index->same_hash(key.hash) + 1 > kMicroSameHash) {
    return false;
  }
  if (!index->free_slot()) {
    const std::size_t larger = (std::size_t{micro.slots()} + 1) * zap::kMicroSlotSize + 512;
    if (larger > zap::kMicroBlockLimit) {
      return false;
    }
    ZUSE_TRY_VOID(dnode.set_block_size(tx, static_cast<std::uint32_t>(larger)));
    index->grow(static_cast<std::uint32_t>(larger / zap::kMicroSlotSize - 1));
  }
  ZUSE_TRY(const auto block, dnode.edit_block(tx, 0));
  zap::micro_to_host(block);
  const std::uint32_t slot = *index->free_slot();
  const std::uint32_t cd = index->free_cd(key.hash);
  zap::micro_set(block, slot, {value.integers[0], cd, name});
  index->insert({key.hash, cd, slot});
  return true;
}

// The lock is held.
Result<void> put_locked(Dnode& dnode, Tx& tx, std::string_view name, const ZapValue& value,
                        Put put) {
  const bool long_names = dnode.type() == format::ObjectType::directory;
  if (name.size() >= (long_names ? kLongNameMax : kNameMax)) {
    return fail(Errc::name_too_long, "a ZAP name of " + std::to_string(name.size()) + " bytes");
  }
  if (name.empty()) {
    return fail(Errc::invalid, "a ZAP name must not be empty");
  }
  ZUSE_TRY_VOID(encoded(value));
  ZUSE_TRY(const SharedBuffer block, dnode.read_block(0));
  if (zap::is_micro(block->span())) {
    ZUSE_TRY(const Micro micro, Micro::open(block->span()));
    ZUSE_TRY(const bool done, put_micro(dnode, tx, micro, name, value, put));
    if (done) {
      return {};
    }
    ZUSE_TRY_VOID(upgrade(dnode, tx, micro));
  }
  return put_fat(dnode, tx, name, value, put);
}

Result<void> remove_locked(Dnode& dnode, Tx& tx, std::string_view name) {
  ZUSE_TRY(SharedBuffer block, dnode.read_block(0));
  if (!zap::is_micro(block->span())) {
    ZUSE_TRY(Fat fat, Fat::open(dnode, std::move(block)));
    ZUSE_TRY(const Key key, zap::make_key(name, fat.header().rule));
    return fat.remove(tx, key);
  }
  ZUSE_TRY(const Micro micro, Micro::open(block->span()));
  ZUSE_TRY(const Key key, zap::make_key(name, micro.rule()));
  ZUSE_TRY(MicroIndex* const index, remember(dnode, micro));
  ZUSE_TRY(const auto found, index->find(micro, key));
  if (!found) {
    return fail(Errc::not_found);
  }
  ZUSE_TRY(const auto bytes, dnode.edit_block(tx, 0));
  zap::micro_to_host(bytes);
  zap::micro_clear(bytes, found->slot);
  index->erase(*found);
  return {};
}

Result<void> put(Dnode& dnode, Tx& tx, std::string_view name, const ZapValue& value, Put how) {
  const ExclusiveGuard guard(dnode.zap_mutex());
  auto result = put_locked(dnode, tx, name, value, how);
  if (!result && result.error().code() == Errc::corrupt) {
    return within(dnode, std::move(result).error());
  }
  return result;
}

}  // namespace

ZapValue ZapValue::string(std::string_view text) {
  ZapValue value{1, {}};
  value.integers.reserve(text.size() + 1);
  for (const char c : text) {
    value.integers.push_back(static_cast<unsigned char>(c));
  }
  value.integers.push_back(0);
  return value;
}

std::string ZapValue::as_string() const {
  std::string text;
  for (const std::uint64_t integer : integers) {
    if (integer == 0) {
      break;
    }
    text.push_back(static_cast<char>(integer));
  }
  return text;
}

Result<Zap> Zap::open(Objset& objset, std::uint64_t object) {
  ZUSE_TRY(DnodeRef dnode, objset.hold(object));
  if (!format::is_zap(dnode->type())) {
    return fail(Errc::corrupt,
                "object " + std::to_string(object) + " of " + objset.name() + " is not a ZAP");
  }
  return Zap(std::move(dnode));
}

Result<Zap> Zap::create(Objset& objset, Tx& tx, NewObject spec, std::uint64_t normalization) {
  if (!format::is_zap(spec.type)) {
    return fail(Errc::invalid, "the object type of a new ZAP is no ZAP type");
  }
  if (spec.block_size == 0) {
    spec.block_size = zap::kMicroBlockMin;
  }
  if (spec.block_size % zap::kMicroBlockMin != 0 || spec.block_size > zap::kMicroBlockLimit) {
    return fail(Errc::invalid,
                "a new ZAP cannot have a block of " + std::to_string(spec.block_size) + " bytes");
  }
  ZUSE_TRY(DnodeRef dnode, objset.allocate(tx, spec));
  ZUSE_TRY_VOID(initialise(*dnode, tx, normalization));
  return Zap(std::move(dnode));
}

Result<void> Zap::initialise(Dnode& dnode, Tx& tx, std::uint64_t normalization) {
  if ((normalization & ~kKnownNormalization) != 0) {
    return fail(Errc::invalid, "unknown normalisation " + std::to_string(normalization));
  }
  const ExclusiveGuard guard(dnode.zap_mutex());
  const std::uint32_t size = dnode.block_size();
  if (size % zap::kMicroBlockMin != 0 || size > zap::kMicroBlockLimit) {
    return fail(Errc::invalid,
                "a new ZAP cannot have a block of " + std::to_string(size) + " bytes");
  }
  ZUSE_TRY(const auto block, dnode.edit_block(tx, 0));
  zap::micro_initialise(block, secure_random_u64() | 1U, normalization);
  dnode.zap_memory().reset();
  return {};
}

void Zap::forget(Dnode& dnode) {
  const ExclusiveGuard guard(dnode.zap_mutex());
  dnode.zap_memory().reset();
}

Result<std::uint64_t> Zap::lookup(std::string_view name) const {
  return read(
      *dnode_,
      [&](const Micro& micro, const MicroIndex& index) -> Result<std::uint64_t> {
        ZUSE_TRY(const Key key, zap::make_key(name, micro.rule()));
        ZUSE_TRY(const auto found, index.find(micro, key));
        if (!found) {
          return fail(Errc::not_found);
        }
        ZUSE_TRY(const auto slot, micro.slot(found->slot));
        return slot ? Result<std::uint64_t>(slot->value) : fail(Errc::not_found);
      },
      [&](const Fat& fat) -> Result<std::uint64_t> {
        ZUSE_TRY(const Key key, zap::make_key(name, fat.header().rule));
        ZUSE_TRY(const Fat::HeldLeaf held, fat.leaf_of(key.hash));
        ZUSE_TRY(const auto entry, held.leaf.find(key));
        return entry ? first_of(held, *entry) : fail(Errc::not_found);
      });
}

Result<ZapValue> Zap::lookup_value(std::string_view name) const {
  return read(
      *dnode_,
      [&](const Micro& micro, const MicroIndex& index) -> Result<ZapValue> {
        ZUSE_TRY(const Key key, zap::make_key(name, micro.rule()));
        ZUSE_TRY(const auto found, index.find(micro, key));
        if (!found) {
          return fail(Errc::not_found);
        }
        ZUSE_TRY(const auto slot, micro.slot(found->slot));
        return slot ? Result<ZapValue>(ZapValue::of(slot->value)) : fail(Errc::not_found);
      },
      [&](const Fat& fat) -> Result<ZapValue> {
        ZUSE_TRY(const Key key, zap::make_key(name, fat.header().rule));
        ZUSE_TRY(const Fat::HeldLeaf held, fat.leaf_of(key.hash));
        ZUSE_TRY(const auto entry, held.leaf.find(key));
        if (!entry) {
          return fail(Errc::not_found);
        }
        ZUSE_TRY(const std::string bytes, held.leaf.value(*entry));
        return decoded(bytes, entry->integer_size);
      });
}

Result<bool> Zap::contains(std::string_view name) const {
  return read(
      *dnode_,
      [&](const Micro& micro, const MicroIndex& index) -> Result<bool> {
        ZUSE_TRY(const Key key, zap::make_key(name, micro.rule()));
        ZUSE_TRY(const auto found, index.find(micro, key));
        return found.has_value();
      },
      [&](const Fat& fat) -> Result<bool> {
        ZUSE_TRY(const Key key, zap::make_key(name, fat.header().rule));
        ZUSE_TRY(const Fat::HeldLeaf held, fat.leaf_of(key.hash));
        ZUSE_TRY(const auto entry, held.leaf.find(key));
        return entry.has_value();
      });
}

Result<std::uint64_t> Zap::count() const {
  return read(
      *dnode_,
      [](const Micro&, const MicroIndex& index) -> Result<std::uint64_t> { return index.size(); },
      [](const Fat& fat) -> Result<std::uint64_t> { return fat.header().entry_count; });
}

Result<void> Zap::add(Tx& tx, std::string_view name, std::uint64_t value) {
  return put(*dnode_, tx, name, ZapValue::of(value), Put::add);
}

Result<void> Zap::add_value(Tx& tx, std::string_view name, const ZapValue& value) {
  return put(*dnode_, tx, name, value, Put::add);
}

Result<void> Zap::update(Tx& tx, std::string_view name, std::uint64_t value) {
  return put(*dnode_, tx, name, ZapValue::of(value), Put::update);
}

Result<void> Zap::update_value(Tx& tx, std::string_view name, const ZapValue& value) {
  return put(*dnode_, tx, name, value, Put::update);
}

Result<void> Zap::remove(Tx& tx, std::string_view name) {
  const ExclusiveGuard guard(dnode_->zap_mutex());
  auto result = remove_locked(*dnode_, tx, name);
  if (!result && result.error().code() == Errc::corrupt) {
    return within(*dnode_, std::move(result).error());
  }
  return result;
}

Result<void> Zap::increment(Tx& tx, std::string_view name, std::int64_t delta) {
  const ExclusiveGuard guard(dnode_->zap_mutex());
  ZUSE_TRY(SharedBuffer block, dnode_->read_block(0));
  std::optional<std::uint64_t> old;
  if (zap::is_micro(block->span())) {
    ZUSE_TRY(const Micro micro, Micro::open(block->span()));
    ZUSE_TRY(const Key key, zap::make_key(name, micro.rule()));
    ZUSE_TRY(const MicroIndex* const index, remember(*dnode_, micro));
    ZUSE_TRY(const auto found, index->find(micro, key));
    if (found) {
      ZUSE_TRY(const auto slot, micro.slot(found->slot));
      old = slot ? slot->value : 0;
    }
  } else {
    ZUSE_TRY(const Fat fat, Fat::open(*dnode_, std::move(block)));
    ZUSE_TRY(const Key key, zap::make_key(name, fat.header().rule));
    ZUSE_TRY(const Fat::HeldLeaf held, fat.leaf_of(key.hash));
    ZUSE_TRY(const auto entry, held.leaf.find(key));
    if (entry) {
      ZUSE_TRY(old, first_of(held, *entry));
    }
  }
  block.reset();
  const std::uint64_t sum = old.value_or(0) + static_cast<std::uint64_t>(delta);
  if (sum != 0) {
    return put_locked(*dnode_, tx, name, ZapValue::of(sum), Put::update);
  }
  return old ? remove_locked(*dnode_, tx, name) : Result<void>{};
}

Result<ZapEntry> Zap::at(std::uint64_t cursor) const {
  ZUSE_TRY(auto entries, page(cursor, 1));
  if (entries.empty()) {
    return fail(Errc::not_found, "no more entries");
  }
  return std::move(entries.front());
}

Result<std::vector<ZapEntry>> Zap::page(std::uint64_t cursor, std::size_t limit) const {
  if (cursor == kZapCursorEnd || limit == 0) {
    return std::vector<ZapEntry>{};
  }
  return read(
      *dnode_,
      [&](const Micro& micro, const MicroIndex& index) -> Result<std::vector<ZapEntry>> {
        std::vector<ZapEntry> page;
        const auto& entries = index.entries();
        for (std::size_t i = index.lower_bound(zap::position_of(cursor, micro.rule()));
             i < entries.size() && page.size() < limit; ++i) {
          ZUSE_TRY(const auto slot, micro.slot(entries[i].slot));
          if (slot) {
            page.push_back({std::string(slot->name), ZapValue::of(slot->value),
                            zap::cursor_after(entries[i].position(), micro.rule())});
          }
        }
        return page;
      },
      [&](const Fat& fat) -> Result<std::vector<ZapEntry>> {
        const KeyRule& rule = fat.header().rule;
        std::vector<ZapEntry> page;
        ZUSE_TRY(auto found, fat.page(zap::position_of(cursor, rule), limit));
        for (auto& one : found) {
          page.push_back({std::move(one.name), decoded(one.value, one.entry.integer_size),
                          zap::cursor_after(one.entry.position(), rule)});
        }
        return page;
      });
}

Result<void> Zap::for_each(const std::function<Result<void>(const ZapEntry&)>& visit) const {
  for (std::uint64_t cursor = 0;;) {
    ZUSE_TRY(const auto entries, page(cursor, kPageEntries));
    for (const ZapEntry& entry : entries) {
      ZUSE_TRY_VOID(visit(entry));
    }
    if (entries.size() < kPageEntries) {
      return {};
    }
    cursor = entries.back().cursor;
  }
}

std::string Zap::hex_key(std::uint64_t number) {
  std::array<char, 16> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number, 16).ptr;
  return {digits.data(), end};
}

}  // namespace zuse::object
