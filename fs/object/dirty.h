// What one transaction group has changed in a dnode, as it waits for its sync. Internal to
// fs/object.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "fs/format/dnode_phys.h"
#include "vdev/base/buffer.h"

namespace zuse::object {

// A set of numbers, held as disjoint ranges [first, end) that do not touch.
class RangeSet {
 public:
  void add(std::uint64_t first, std::uint64_t end) {
    if (first >= end) {
      return;
    }
    auto it = ranges_.upper_bound(first);
    if (it != ranges_.begin() && std::prev(it)->second >= first) {
      it = std::prev(it);
      first = it->first;
    }
    while (it != ranges_.end() && it->first <= end) {
      end = std::max(end, it->second);
      it = ranges_.erase(it);
    }
    ranges_[first] = end;
  }
  bool contains(std::uint64_t number) const { return end_of(number).has_value(); }
  // The end of the range that holds `number`.
  std::optional<std::uint64_t> end_of(std::uint64_t number) const {
    const auto it = ranges_.upper_bound(number);
    if (it == ranges_.begin() || std::prev(it)->second <= number) {
      return std::nullopt;
    }
    return std::prev(it)->second;
  }
  // Where the first range after `number` starts; the largest number if there is none.
  std::uint64_t next_start(std::uint64_t number) const {
    const auto it = ranges_.upper_bound(number);
    return it == ranges_.end() ? std::numeric_limits<std::uint64_t>::max() : it->first;
  }
  const std::map<std::uint64_t, std::uint64_t>& ranges() const noexcept { return ranges_; }

 private:
  std::map<std::uint64_t, std::uint64_t> ranges_;  // first -> end
};

// The fields of a dnode that transactions change, as of the end of one group.
struct DnodeHeader {
  bool allocated = false;
  format::ObjectType type = format::ObjectType::none;
  format::ObjectType bonus_type = format::ObjectType::none;
  std::uint8_t indirect_shift = 17;
  std::uint8_t block_pointers = 1;
  std::uint8_t extra_slots = 0;
  std::uint8_t checksum = 0;
  std::uint8_t compression = 0;
  bool has_spill = false;
  std::uint32_t block_size = 512;
  std::uint64_t max_block = 0;
  std::vector<std::byte> bonus;

  // Bytes between the block pointers and the end of the slots.
  std::size_t bonus_capacity() const noexcept {
    return (std::size_t{1} + extra_slots) * format::kDnodeSlotSize - format::kDnodeCoreSize -
           block_pointers * format::kBlkptrSize;
  }
};

// The order within a group: what it freed is gone first, then its records are written.
struct DirtyGroup {
  std::uint64_t txg = 0;
  bool syncing = false;  // handed to the sync: nobody changes it any more
  DnodeHeader header;
  std::map<std::uint64_t, std::shared_ptr<Buffer>> records;  // level 0, whole blocks
  RangeSet freed;                                            // level-0 blocks
  std::shared_ptr<Buffer> spill;                             // null: unchanged or removed
  bool spill_removed = false;                                // the older spill block is gone

  // Takes over what a newer group has changed, which then has changed nothing.
  void absorb(DirtyGroup& newer);
};

inline void DirtyGroup::absorb(DirtyGroup& newer) {
  for (const auto& [first, end] : newer.freed.ranges()) {
    records.erase(records.lower_bound(first), records.lower_bound(end));
    freed.add(first, end);
  }
  for (auto& [block, data] : newer.records) {
    records[block] = std::move(data);
  }
  if (newer.spill_removed) {
    spill = nullptr;
    spill_removed = true;
  }
  if (newer.spill) {
    spill = std::move(newer.spill);
  }
  header = newer.header;
  newer.records.clear();
  newer.freed = RangeSet{};
  newer.spill = nullptr;
  newer.spill_removed = false;
}

}  // namespace zuse::object
