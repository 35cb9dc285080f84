// Values of one object: decoding their buffers, deciding what goes to the bonus and what to the
// spill block, and writing only what changed. The registry that gives the numbers their meaning is
// in sa_registry.cpp.
#include "fs/posix/system_attr.h"

#include <algorithm>
#include <cstring>

#include "vdev/base/on_disk.h"
#include "vdev/base/units.h"

namespace zuse::posix {
namespace {

constexpr unsigned kLayoutBits = 10;
constexpr std::size_t kLengthsOffset = 6;

std::size_t align8(std::size_t value) noexcept {
  return (value + 7) & ~std::size_t{7};
}

void write_header(std::span<std::byte> buffer, std::uint16_t layout, std::size_t header_size,
                  std::span<const std::uint16_t> lengths) noexcept {
  store_at<std::uint32_t>(buffer, 0, kSaMagic, kHostOrder);
  const auto info = static_cast<std::uint16_t>(layout | ((header_size / 8) << kLayoutBits));
  store_at<std::uint16_t>(buffer, 4, info, kHostOrder);
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    store_at<std::uint16_t>(buffer, kLengthsOffset + 2 * i, lengths[i], kHostOrder);
  }
}

// Access control entries: each starts with type and flags of 16 bits and a mask of 32; named ones
// go on with ids of 64 bits. The length of each follows from what it says, so swapping walks them.
void swap_acl(std::span<std::byte> value) noexcept {
  std::size_t at = 0;
  while (value.size() - at >= 8) {
    std::reverse(value.begin() + static_cast<std::ptrdiff_t>(at),
                 value.begin() + static_cast<std::ptrdiff_t>(at + 2));
    std::reverse(value.begin() + static_cast<std::ptrdiff_t>(at + 2),
                 value.begin() + static_cast<std::ptrdiff_t>(at + 4));
    std::reverse(value.begin() + static_cast<std::ptrdiff_t>(at + 4),
                 value.begin() + static_cast<std::ptrdiff_t>(at + 8));
    const auto type = load_at<std::uint16_t>(value, at, kHostOrder);
    const auto flags = load_at<std::uint16_t>(value, at + 2, kHostOrder);
    const unsigned who = flags & 0x7040U;
    const bool anonymous = type <= 1 && (who == 0x1000U || who == 0x2040U || who == 0x4000U);
    const bool object_entry = type >= 5 && type <= 8;
    at += 8;
    if (!anonymous && value.size() - at >= 8) {
      std::reverse(value.begin() + static_cast<std::ptrdiff_t>(at),
                   value.begin() + static_cast<std::ptrdiff_t>(at + 8));
      at += 8;
      at += object_entry ? std::min<std::size_t>(32, value.size() - at) : 0;
    }
  }
}

template <class Word>
void swap_words(std::span<std::byte> value) noexcept {
  for (std::size_t at = 0; value.size() - at >= sizeof(Word); at += sizeof(Word)) {
    store_at<Word>(value, at, byteswap(load_at<Word>(value, at, kHostOrder)), kHostOrder);
  }
}

}  // namespace

void swap_value(std::span<std::byte> value, SwapKind kind) noexcept {
  switch (kind) {
    case SwapKind::words64: swap_words<std::uint64_t>(value); break;
    case SwapKind::words32: swap_words<std::uint32_t>(value); break;
    case SwapKind::words16: swap_words<std::uint16_t>(value); break;
    case SwapKind::acl: swap_acl(value); break;
    case SwapKind::bytes: break;
  }
}

Result<void> AttributeSet::decode_buffer(const SaTables& tables, std::span<const std::byte> from,
                                         Place place, std::vector<std::byte>& buffer,
                                         std::vector<Item>& items) {
  if (from.size() < 8) {
    return from.empty() ? Result<void>{} : fail(Errc::corrupt, "attribute header cut short");
  }
  const auto magic = load_at<std::uint32_t>(from, 0, kHostOrder);
  if (magic == 0) {
    return {};  // nothing has been written yet
  }
  if (magic != kSaMagic && magic != byteswap(kSaMagic)) {
    return fail(Errc::corrupt, "attribute header has a wrong magic number");
  }
  const ByteOrder order = magic == kSaMagic                 ? kHostOrder
                          : kHostOrder == ByteOrder::little ? ByteOrder::big
                                                            : ByteOrder::little;
  const auto info = load_at<std::uint16_t>(from, 4, order);
  const std::size_t number = info & (pow2(kLayoutBits) - 1);
  const std::size_t header_size = std::size_t{8} * (info >> kLayoutBits);
  const std::size_t layout_number = number == 0 ? 1 : number;
  if (layout_number >= tables.layouts.size()) {
    return fail(Errc::corrupt, "attribute layout " + std::to_string(number) + " is not known");
  }
  const std::vector<std::uint16_t>& layout = tables.layouts[layout_number];
  if (header_size < 8 && !layout.empty()) {
    return fail(Errc::corrupt, "attribute header has no size");
  }
  buffer.assign(from.begin(), from.end());
  if (header_size > buffer.size()) {
    return fail(Errc::corrupt, "attribute header is larger than its buffer");
  }
  std::size_t at = header_size;
  std::size_t variable = 0;
  for (const std::uint16_t attribute : layout) {
    const AttributeInfo about = tables.attributes[attribute];
    std::size_t length = about.length;
    if (length == 0) {
      const std::size_t length_at = kLengthsOffset + 2 * variable++;
      if (length_at + 2 > header_size) {
        return fail(Errc::corrupt, "attribute header has too few lengths");
      }
      length = load_at<std::uint16_t>(from, length_at, order);
    }
    at = align8(at);
    if (at > buffer.size() || buffer.size() - at < length) {
      return fail(Errc::corrupt, "attributes run past their buffer");
    }
    if (order != kHostOrder) {
      swap_value(std::span(buffer).subspan(at, length), about.swap);
    }
    items.push_back(
        {attribute, place, static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(length)});
    at += length;
  }
  if (order != kHostOrder) {  // the header too, so that the buffer as a whole is in one order
    std::vector<std::uint16_t> lengths;
    for (std::size_t i = 0; i < variable; ++i) {
      lengths.push_back(load_at<std::uint16_t>(from, kLengthsOffset + 2 * i, order));
    }
    write_header(buffer, static_cast<std::uint16_t>(number), header_size, lengths);
  }
  return {};
}

Result<AttributeSet> AttributeSet::decode(const SaTables& tables, std::span<const std::byte> bonus,
                                          std::span<const std::byte> spill) {
  AttributeSet set;
  set.items_.reserve(16);
  ZUSE_TRY_VOID(decode_buffer(tables, bonus, Place::bonus, set.bonus_, set.items_));
  if (!spill.empty()) {
    set.had_spill_ = true;
    ZUSE_TRY_VOID(decode_buffer(tables, spill, Place::spill, set.spill_, set.items_));
  }
  return set;
}

const AttributeSet::Item* AttributeSet::find_item(std::uint16_t attribute) const noexcept {
  for (const Item& item : items_) {
    if (item.attribute == attribute) {
      return &item;
    }
  }
  return nullptr;
}

std::span<const std::byte> AttributeSet::bytes_of(const Item& item) const noexcept {
  const std::vector<std::byte>& from = item.place == Place::bonus   ? bonus_
                                       : item.place == Place::spill ? spill_
                                                                    : loose_;
  return std::span(from).subspan(item.offset, item.length);
}

std::optional<std::span<const std::byte>> AttributeSet::find(
    std::uint16_t attribute) const noexcept {
  const Item* const item = find_item(attribute);
  if (item == nullptr) {
    return std::nullopt;
  }
  return bytes_of(*item);
}

void AttributeSet::put(std::uint16_t attribute, std::span<const std::byte> value,
                       std::optional<std::uint16_t> after) {
  auto item = std::find_if(items_.begin(), items_.end(),
                           [&](const Item& each) { return each.attribute == attribute; });
  if (item != items_.end() && item->length == value.size()) {
    std::vector<std::byte>& into = item->place == Place::bonus   ? bonus_
                                   : item->place == Place::spill ? spill_
                                                                 : loose_;
    const auto at = into.begin() + static_cast<std::ptrdiff_t>(item->offset);
    if (std::equal(value.begin(), value.end(), at)) {
      return;
    }
    std::copy(value.begin(), value.end(), at);
    bonus_changed_ = bonus_changed_ || item->place == Place::bonus;
    spill_changed_ = spill_changed_ || item->place == Place::spill;
    return;
  }
  reshaped_ = true;
  const auto offset = static_cast<std::uint32_t>(loose_.size());
  loose_.insert(loose_.end(), value.begin(), value.end());
  const Item added{attribute, Place::loose, offset, static_cast<std::uint32_t>(value.size())};
  if (item != items_.end()) {
    *item = added;
    return;
  }
  auto where = items_.end();
  if (after) {
    const auto before = std::find_if(items_.begin(), items_.end(),
                                     [&](const Item& each) { return each.attribute == *after; });
    where = before == items_.end() ? before : std::next(before);
  }
  items_.insert(where, added);
}

void AttributeSet::remove(std::uint16_t attribute) {
  reshaped_ =
      std::erase_if(items_, [&](const Item& item) { return item.attribute == attribute; }) != 0 ||
      reshaped_;
}

std::size_t AttributeSet::total_bytes() const noexcept {
  std::size_t total = 0;
  for (const Item& item : items_) {
    total = align8(total) + item.length;
  }
  return total;
}

// Which values stay in the bonus and which go to the spill block: the rule of format page 08
// section 5.5. A spill pointer takes the last 128 bytes of the bonus, so the split is made as if it
// were there, at the first value that would not fit beside it.
Result<void> AttributeSet::place_values(SaRegistry& registry, object::Tx& tx, std::size_t capacity,
                                        Image& image, std::vector<Item>& items) const {
  const std::shared_ptr<const SaTables> tables = registry.tables();
  const auto varies = [&](const Item& item) {
    return tables->attributes[item.attribute].length == 0;
  };
  const std::size_t with_pointer = capacity - kSpillPointerSize;
  std::size_t total = 0, variable = 0, split = items_.size();
  bool spilling = false;
  for (std::size_t i = 0; i < items_.size(); ++i) {
    if (items_[i].length > kSaValueMax) {
      return fail(Errc::too_large, "an attribute is larger than 65535 bytes");
    }
    total = align8(total) + items_[i].length;
    variable += varies(items_[i]) ? 1 : 0;
    const std::size_t header = sa_header_size(variable);
    if (split == items_.size() && total + header > with_pointer) {
      split = i;
    }
    spilling = spilling || total + header > capacity;
  }
  if (total > kSaTotalMax) {
    return fail(Errc::too_large, "the attributes of one object exceed 131072 bytes");
  }
  if (!spilling) {
    split = items_.size();
  }
  items = items_;
  const auto fill = [&](std::size_t first, std::size_t last, Place place,
                        std::vector<std::byte>& buffer) -> Result<std::size_t> {
    std::vector<std::uint16_t> layout, lengths;
    for (std::size_t i = first; i < last; ++i) {
      layout.push_back(items_[i].attribute);
      if (varies(items_[i])) {
        lengths.push_back(static_cast<std::uint16_t>(items_[i].length));
      }
    }
    ZUSE_TRY(const std::uint16_t number, registry.layout_for(tx, layout));
    const std::size_t header = sa_header_size(lengths.size());
    std::size_t end = header;
    for (std::size_t i = first; i < last; ++i) {
      end = align8(end) + items_[i].length;
    }
    buffer.assign(end, std::byte{0});
    write_header(buffer, number, header, lengths);
    std::size_t at = header;
    for (std::size_t i = first; i < last; ++i) {
      at = align8(at);
      const std::span<const std::byte> value = bytes_of(items_[i]);
      std::copy(value.begin(), value.end(), buffer.begin() + static_cast<std::ptrdiff_t>(at));
      items[i].place = place;
      items[i].offset = static_cast<std::uint32_t>(at);
      at += value.size();
    }
    return end;
  };
  ZUSE_TRY(const std::size_t bonus_end, fill(0, split, Place::bonus, image.bonus));
  if (spilling) {
    if (bonus_end > with_pointer) {
      return fail(Errc::too_large, "the attributes do not fit into the bonus");
    }
    image.bonus.resize(with_pointer);
    ZUSE_TRY(const std::size_t spill_end, fill(split, items_.size(), Place::spill, image.spill));
    const std::size_t spill_size = round_up<std::size_t>(spill_end, 512);
    if (spill_size > kSaTotalMax) {
      return fail(Errc::too_large, "the attributes of one object exceed 131072 bytes");
    }
    image.spill.resize(spill_size);
  }
  return {};
}

Result<AttributeSet::Image> AttributeSet::encode(SaRegistry& registry, object::Tx& tx,
                                                 std::size_t capacity) const {
  Image image;
  std::vector<Item> items;
  ZUSE_TRY_VOID(place_values(registry, tx, capacity, image, items));
  return image;
}

Result<void> AttributeSet::store(SaRegistry& registry, object::Tx& tx, object::Dnode& dnode) {
  if (!reshaped_) {
    if (bonus_changed_) {
      ZUSE_TRY_VOID(dnode.set_bonus(tx, bonus_));
      bonus_changed_ = false;
    }
    if (spill_changed_) {
      ZUSE_TRY_VOID(dnode.set_spill(tx, spill_));
      spill_changed_ = false;
    }
    return {};
  }
  Image image;
  std::vector<Item> items;
  ZUSE_TRY_VOID(place_values(registry, tx, dnode.bonus_capacity(), image, items));
  if (image.spill.empty()) {
    if (had_spill_) {
      ZUSE_TRY_VOID(dnode.remove_spill(tx));
      had_spill_ = false;
    }
    ZUSE_TRY_VOID(dnode.set_bonus(tx, image.bonus));
  } else {  // the bonus shrinks before the pointer takes its end
    ZUSE_TRY_VOID(dnode.set_bonus(tx, image.bonus));
    ZUSE_TRY_VOID(dnode.set_spill(tx, image.spill));
    had_spill_ = true;
  }
  bonus_ = std::move(image.bonus);
  spill_ = std::move(image.spill);
  items_ = std::move(items);
  loose_.clear();
  reshaped_ = bonus_changed_ = spill_changed_ = false;
  return {};
}

}  // namespace zuse::posix
