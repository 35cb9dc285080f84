// See zap_micro.h.
#include "fs/object/zap_micro.h"

#include <algorithm>
#include <cstring>

#include "vdev/base/on_disk.h"

namespace zuse::object::zap {

namespace {

constexpr std::size_t kSaltAt = 8;
constexpr std::size_t kNormalizationAt = 16;
constexpr std::size_t kCdAt = 8;
constexpr std::size_t kNameAt = 14;

constexpr std::size_t slot_at(std::uint32_t slot) {
  return (std::size_t{slot} + 1) * kMicroSlotSize;
}

std::optional<ByteOrder> order_of(std::span<const std::byte> block) noexcept {
  if (block.size() < kMicroBlockMin) {
    return std::nullopt;
  }
  for (const ByteOrder order : {ByteOrder::little, ByteOrder::big}) {
    if (load_at<std::uint64_t>(block, 0, order) == kBlockMicro) {
      return order;
    }
  }
  return std::nullopt;
}

}  // namespace

bool is_micro(std::span<const std::byte> block) noexcept {
  return order_of(block).has_value();
}

Result<Micro> Micro::open(std::span<const std::byte> block) {
  const auto order = order_of(block);
  if (!order) {
    return fail(Errc::corrupt, "not a micro ZAP");
  }
  if (block.size() % kMicroBlockMin != 0 || block.size() > kMicroBlockRead) {
    return fail(Errc::corrupt,
                "a micro ZAP of " + std::to_string(block.size()) + " bytes cannot be");
  }
  Micro micro;
  micro.block_ = block;
  micro.order_ = *order;
  micro.rule_.salt = load_at<std::uint64_t>(block, kSaltAt, *order);
  micro.rule_.normalization = load_at<std::uint64_t>(block, kNormalizationAt, *order);
  return micro;
}

Result<std::optional<MicroSlot>> Micro::slot(std::uint32_t slot) const {
  ZUSE_CHECK(slot < slots());
  const std::size_t at = slot_at(slot);
  const auto* const name = reinterpret_cast<const char*>(block_.data() + at + kNameAt);
  if (*name == '\0') {
    return std::nullopt;
  }
  const std::size_t length = strnlen(name, kMicroNameSize);
  if (length == kMicroNameSize) {
    return fail(Errc::corrupt, "a micro ZAP's name has no end");
  }
  return MicroSlot{load_at<std::uint64_t>(block_, at, order_),
                   load_at<std::uint32_t>(block_, at + kCdAt, order_),
                   {name, length}};
}

void micro_initialise(std::span<std::byte> block, std::uint64_t salt, std::uint64_t normalization) {
  ZUSE_CHECK(block.size() >= kMicroBlockMin);
  std::ranges::fill(block, std::byte{0});
  store_at<std::uint64_t>(block, 0, kBlockMicro, kHostOrder);
  store_at<std::uint64_t>(block, kSaltAt, salt, kHostOrder);
  store_at<std::uint64_t>(block, kNormalizationAt, normalization, kHostOrder);
}

void micro_to_host(std::span<std::byte> block) noexcept {
  const auto order = order_of(block);
  if (!order || *order == kHostOrder) {
    return;
  }
  const auto swap_word = [&](std::size_t at) {
    store_at<std::uint64_t>(block, at, load_at<std::uint64_t>(block, at, *order), kHostOrder);
  };
  swap_word(0);
  swap_word(kSaltAt);
  swap_word(kNormalizationAt);
  for (std::size_t at = kMicroSlotSize; at + kMicroSlotSize <= block.size(); at += kMicroSlotSize) {
    swap_word(at);
    store_at<std::uint32_t>(block, at + kCdAt, load_at<std::uint32_t>(block, at + kCdAt, *order),
                            kHostOrder);
  }
}

void micro_set(std::span<std::byte> block, std::uint32_t slot, const MicroSlot& content) noexcept {
  const std::size_t at = slot_at(slot);
  ZUSE_CHECK(at + kMicroSlotSize <= block.size() && content.name.size() < kMicroNameSize);
  micro_clear(block, slot);
  store_at<std::uint64_t>(block, at, content.value, kHostOrder);
  store_at<std::uint32_t>(block, at + kCdAt, content.cd, kHostOrder);
  std::memcpy(block.data() + at + kNameAt, content.name.data(), content.name.size());
}

void micro_set_value(std::span<std::byte> block, std::uint32_t slot, std::uint64_t value) noexcept {
  ZUSE_CHECK(slot_at(slot) + kMicroSlotSize <= block.size());
  store_at<std::uint64_t>(block, slot_at(slot), value, kHostOrder);
}

void micro_clear(std::span<std::byte> block, std::uint32_t slot) noexcept {
  ZUSE_CHECK(slot_at(slot) + kMicroSlotSize <= block.size());
  std::memset(block.data() + slot_at(slot), 0, kMicroSlotSize);
}

namespace {

struct ByPosition {
  bool operator()(const MicroIndex::Entry& a, const MicroIndex::Entry& b) const noexcept {
    return a.position() != b.position() ? a.position() < b.position() : a.slot < b.slot;
  }
  bool operator()(const MicroIndex::Entry& a, Position b) const noexcept {
    return a.position() < b;
  }
};

}  // namespace

Result<MicroIndex> MicroIndex::build(const Micro& micro) {
  MicroIndex index;
  index.salt_ = micro.rule().salt;
  index.slots_ = micro.slots();
  for (std::uint32_t i = micro.slots(); i-- > 0;) {
    ZUSE_TRY(const auto slot, micro.slot(i));
    if (slot) {
      index.entries_.push_back({stored_hash(slot->name, micro.rule()), slot->cd, i});
    } else {
      index.free_.push_back(i);
    }
  }
  std::ranges::sort(index.entries_, ByPosition{});
  return index;
}

std::size_t MicroIndex::lower_bound(Position from) const noexcept {
  return static_cast<std::size_t>(
      std::lower_bound(entries_.begin(), entries_.end(), from, ByPosition{}) - entries_.begin());
}

Result<std::optional<MicroIndex::Entry>> MicroIndex::find(const Micro& micro,
                                                          const Key& key) const {
  for (std::size_t i = lower_bound({key.hash, 0});
       i < entries_.size() && entries_[i].hash == key.hash; ++i) {
    ZUSE_TRY(const auto slot, micro.slot(entries_[i].slot));
    if (slot && same_name(slot->name, key.bytes, key.fold)) {
      return entries_[i];
    }
  }
  return std::nullopt;
}

std::size_t MicroIndex::same_hash(std::uint64_t hash) const noexcept {
  std::size_t count = 0;
  for (std::size_t i = lower_bound({hash, 0}); i < entries_.size() && entries_[i].hash == hash;
       ++i) {
    ++count;
  }
  return count;
}

std::uint32_t MicroIndex::free_cd(std::uint64_t hash) const noexcept {
  std::uint32_t cd = 0;
  for (std::size_t i = lower_bound({hash, 0}); i < entries_.size() && entries_[i].hash == hash;
       ++i) {
    if (entries_[i].cd > cd) {
      break;
    }
    cd = entries_[i].cd + 1;
  }
  return cd;
}

std::optional<std::uint32_t> MicroIndex::free_slot() const noexcept {
  return free_.empty() ? std::nullopt : std::optional(free_.back());
}

void MicroIndex::insert(const Entry& entry) {
  ZUSE_CHECK(!free_.empty() && free_.back() == entry.slot);
  free_.pop_back();
  entries_.insert(std::lower_bound(entries_.begin(), entries_.end(), entry, ByPosition{}), entry);
}

void MicroIndex::erase(const Entry& entry) {
  const auto found = std::lower_bound(entries_.begin(), entries_.end(), entry, ByPosition{});
  ZUSE_CHECK(found != entries_.end() && found->slot == entry.slot);
  entries_.erase(found);
  free_.push_back(entry.slot);
}

void MicroIndex::grow(std::uint32_t slots) {
  ZUSE_CHECK(slots >= slots_);
  std::vector<std::uint32_t> more;
  for (std::uint32_t slot = slots; slot-- > slots_;) {
    more.push_back(slot);
  }
  free_.insert(free_.begin(), more.begin(), more.end());
  slots_ = slots;
}

}  // namespace zuse::object::zap
