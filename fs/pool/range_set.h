// RangeSet: a set of byte ranges, kept sorted, disjoint and merged. Free space, the changes of a
// transaction group and what a scan has seen are all such sets. With an index by size it also
// answers "the smallest range that holds n bytes", which is what an allocator asks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "vdev/base/result.h"

namespace zuse::pool {

// Bytes [offset, offset + size).
struct Range {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::uint64_t end() const noexcept { return offset + size; }
  bool operator==(const Range&) const = default;
};

// Not thread-safe. Ranges do not wrap: the caller has checked that offset + size fits.
template <bool kIndexedBySize>
class BasicRangeSet {
 public:
  using Map = std::map<std::uint64_t, std::uint64_t>;  // start -> end

  bool empty() const noexcept { return ranges_.empty(); }
  std::size_t count() const noexcept { return ranges_.size(); }
  std::uint64_t total() const noexcept { return total_; }  // bytes
  const Map& ranges() const noexcept { return ranges_; }

  // True if every byte of the range is in the set.
  bool contains(const Range& range) const {
    const auto it = covering(range.offset);
    return it != ranges_.end() && it->second >= range.end();
  }
  // True if some byte of the range is in the set.
  bool overlaps(const Range& range) const {
    auto it = ranges_.upper_bound(range.offset);
    if (it != ranges_.end() && it->first < range.end()) {
      return true;
    }
    return it != ranges_.begin() && std::prev(it)->second > range.offset;
  }

  // Adds a range, none of which is in the set, and merges it with its neighbours.
  void add(const Range& range) {
    if (range.size == 0) {
      return;
    }
    auto next = ranges_.lower_bound(range.offset);
    std::uint64_t start = range.offset, end = range.end();
    ZUSE_CHECK(next == ranges_.end() || next->first >= end);
    if (next != ranges_.begin()) {
      const auto before = std::prev(next);
      ZUSE_CHECK(before->second <= start);
      if (before->second == start) {
        start = before->first;
        forget_size(*before);
        ranges_.erase(before);
      }
    }
    if (next != ranges_.end() && next->first == end) {
      end = next->second;
      forget_size(*next);
      next = ranges_.erase(next);
    }
    note_size(*ranges_.emplace_hint(next, start, end));
    total_ += range.size;
  }

  // Adds what of the range is not yet in the set. The bytes added.
  std::uint64_t add_missing(const Range& range) {
    const std::uint64_t before = total_;
    std::vector<Range> gaps;
    for_each_gap(range, [&](const Range& gap) { gaps.push_back(gap); });
    for (const Range& gap : gaps) {
      add(gap);
    }
    return total_ - before;
  }

  // Removes a range, all of which is in the set.
  void remove(const Range& range) {
    const std::uint64_t removed = remove_overlap(range);
    ZUSE_CHECK(removed == range.size);
  }

  // Removes what of the range is in the set. The bytes removed.
  std::uint64_t remove_overlap(const Range& range) {
    const std::uint64_t before = total_;
    auto it = ranges_.upper_bound(range.offset);
    if (it != ranges_.begin() && std::prev(it)->second > range.offset) {
      --it;
    }
    while (it != ranges_.end() && it->first < range.end()) {
      const auto [start, end] = *it;
      forget_size(*it);
      it = ranges_.erase(it);
      total_ -= end - start;
      if (start < range.offset) {
        note_size(*ranges_.emplace_hint(it, start, range.offset));
        total_ += range.offset - start;
      }
      if (end > range.end()) {
        it = ranges_.emplace_hint(it, range.end(), end);
        note_size(*it);
        total_ += end - range.end();
        break;
      }
    }
    return before - total_;
  }

  // Calls visit(Range) for each part of `within` that is not in the set, in order.
  template <class Visit>
  void for_each_gap(const Range& within, Visit visit) const {
    std::uint64_t at = within.offset;
    auto it = ranges_.upper_bound(at);
    if (it != ranges_.begin() && std::prev(it)->second > at) {
      at = std::prev(it)->second;
    }
    for (; it != ranges_.end() && it->first < within.end(); ++it) {
      if (it->first > at) {
        visit(Range{at, it->first - at});
      }
      at = it->second;
    }
    if (at < within.end()) {
      visit(Range{at, within.end() - at});
    }
  }

  std::vector<Range> to_vector() const {
    std::vector<Range> result;
    result.reserve(ranges_.size());
    for (const auto& [start, end] : ranges_) {
      result.push_back({start, end - start});
    }
    return result;
  }

  // The first range at or after `from` with at least `size` bytes, looking at no more than `tries`
  // ranges; end() if there is none.
  Map::const_iterator first_fit(std::uint64_t from, std::uint64_t size, unsigned tries) const {
    for (auto it = ranges_.lower_bound(from); it != ranges_.end() && tries != 0; ++it, --tries) {
      if (it->second - it->first >= size) {
        return it;
      }
    }
    return ranges_.end();
  }
  // The smallest range with at least `size` bytes, the first of those; end() if there is none.
  Map::const_iterator best_fit(std::uint64_t size) const
    requires kIndexedBySize
  {
    const auto it = by_size_.lower_bound({size, 0});
    return it == by_size_.end() ? ranges_.end() : ranges_.find(it->second);
  }
  std::uint64_t largest() const
    requires kIndexedBySize
  {
    return by_size_.empty() ? 0 : by_size_.rbegin()->first;
  }

  void clear() {
    ranges_.clear();
    by_size_.clear();
    total_ = 0;
  }

 private:
  Map::const_iterator covering(std::uint64_t offset) const {
    const auto it = ranges_.upper_bound(offset);
    if (it == ranges_.begin() || std::prev(it)->second <= offset) {
      return ranges_.end();
    }
    return std::prev(it);
  }
  void note_size([[maybe_unused]] const Map::value_type& range) {
    if constexpr (kIndexedBySize) {
      by_size_.emplace(range.second - range.first, range.first);
    }
  }
  void forget_size([[maybe_unused]] const Map::value_type& range) {
    if constexpr (kIndexedBySize) {
      by_size_.erase({range.second - range.first, range.first});
    }
  }

  Map ranges_;
  std::set<std::pair<std::uint64_t, std::uint64_t>> by_size_;  // (size, start)
  std::uint64_t total_ = 0;
};

using RangeSet = BasicRangeSet<false>;
using FreeSpace = BasicRangeSet<true>;

}  // namespace zuse::pool
