// The micro ZAP: one block, a header and a list of slots in no order, each a name and a 64-bit
// integer. Pure functions over the block's bytes; the index that spares a scan is built from them.
//
//     0   block type, salt, normalisation, zeros           (64 bytes)
//     64  slot: value 8, cd 4, zero 2, name 50             (64 bytes; a name of "" is a free slot)
//     128 slot ...
//
// source: format page 06 section 1.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "fs/object/zap_key.h"
#include "vdev/base/byte_order.h"
#include "vdev/base/result.h"

namespace zuse::object::zap {

inline constexpr std::size_t kMicroSlotSize = 64;
inline constexpr std::size_t kMicroNameSize = 50;  // with the NUL
inline constexpr std::size_t kMicroBlockMin = 512;
inline constexpr std::size_t kMicroBlockLimit = 131072;  // a larger one becomes fat
inline constexpr std::size_t kMicroBlockRead = 1048576;  // largest that other writers make
inline constexpr std::uint64_t kMicroCdMax = 0xffff;

struct MicroSlot {
  std::uint64_t value = 0;
  std::uint32_t cd = 0;
  std::string_view name;  // in the block
};

// A micro ZAP's block, read only.
class Micro {
 public:
  // errors: corrupt (not such a block, or of an impossible size).
  static Result<Micro> open(std::span<const std::byte> block);

  ByteOrder order() const noexcept { return order_; }
  const KeyRule& rule() const noexcept { return rule_; }
  std::uint32_t slots() const noexcept {
    return static_cast<std::uint32_t>(block_.size() / kMicroSlotSize - 1);
  }
  // nullopt: the slot is free. errors: corrupt (a name without an end). shape: slot < slots().
  Result<std::optional<MicroSlot>> slot(std::uint32_t slot) const;

 private:
  std::span<const std::byte> block_;
  ByteOrder order_ = kHostOrder;
  KeyRule rule_;
};

// Whether the block starts as a micro ZAP in either order.
bool is_micro(std::span<const std::byte> block) noexcept;

// An empty micro ZAP over the whole block, in host order.
void micro_initialise(std::span<std::byte> block, std::uint64_t salt, std::uint64_t normalization);
// Turns a block of foreign order into host order; others stay.
void micro_to_host(std::span<std::byte> block) noexcept;
// Host order from here. shape: slot < slots(); name shorter than kMicroNameSize.
void micro_set(std::span<std::byte> block, std::uint32_t slot, const MicroSlot& content) noexcept;
void micro_set_value(std::span<std::byte> block, std::uint32_t slot, std::uint64_t value) noexcept;
void micro_clear(std::span<std::byte> block, std::uint32_t slot) noexcept;

// Where the entries of one micro ZAP are: its slots sorted by (hash, cd), so that a lookup is a
// binary search and a listing a walk; and the slots that are free.
class MicroIndex {
 public:
  // errors: corrupt.
  static Result<MicroIndex> build(const Micro& micro);

  // Does the index belong to this block? A new ZAP on the same object has another salt.
  bool matches(const Micro& micro) const noexcept {
    return salt_ == micro.rule().salt && slots_ == micro.slots();
  }
  std::size_t size() const noexcept { return entries_.size(); }

  struct Entry {
    std::uint64_t hash;
    std::uint32_t cd;
    std::uint32_t slot;
    Position position() const noexcept { return {hash, cd}; }
  };
  const std::vector<Entry>& entries() const noexcept { return entries_; }
  // The entry of that key. errors: corrupt.
  Result<std::optional<Entry>> find(const Micro& micro, const Key& key) const;
  // Index into entries() of the first one at or after `from`.
  std::size_t lower_bound(Position from) const noexcept;
  std::size_t same_hash(std::uint64_t hash) const noexcept;
  // The lowest cd that no entry of this hash has.
  std::uint32_t free_cd(std::uint64_t hash) const noexcept;
  std::optional<std::uint32_t> free_slot() const noexcept;

  void insert(const Entry& entry);  // takes free_slot()
  void erase(const Entry& entry);
  void grow(std::uint32_t slots);  // the block has more slots now

 private:
  std::uint64_t salt_ = 0;
  std::uint32_t slots_ = 0;
  std::vector<Entry> entries_;
  std::vector<std::uint32_t> free_;  // descending: the lowest is at the back after building
};

}  // namespace zuse::object::zap
