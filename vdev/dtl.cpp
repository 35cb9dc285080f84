// Ranges are kept disjoint and apart: what touches is joined, so equal logs have equal maps.
#include "vdev/dtl.h"

#include <algorithm>
#include <iterator>

namespace zuse::vdev {

void Dtl::add(std::uint64_t first, std::uint64_t end) {
  if (first >= end) {
    return;
  }
  // All ranges that overlap [first, end) or touch it are swallowed.
  auto at = ranges_.upper_bound(first);
  if (at != ranges_.begin() && std::prev(at)->second >= first) {
    --at;
  }
  while (at != ranges_.end() && at->first <= end) {
    first = std::min(first, at->first);
    end = std::max(end, at->second);
    at = ranges_.erase(at);
  }
  ranges_.emplace_hint(at, first, end);
}

void Dtl::remove(std::uint64_t first, std::uint64_t end) {
  if (first >= end) {
    return;
  }
  auto at = ranges_.upper_bound(first);
  if (at != ranges_.begin() && std::prev(at)->second > first) {
    --at;
  }
  while (at != ranges_.end() && at->first < end) {
    const std::uint64_t old_first = at->first;
    const std::uint64_t old_end = at->second;
    at = ranges_.erase(at);
    if (old_first < first) {
      ranges_.emplace_hint(at, old_first, first);
    }
    if (old_end > end) {
      ranges_.emplace_hint(at, end, old_end);
    }
  }
}

bool Dtl::contains(std::uint64_t txg) const {
  const auto at = ranges_.upper_bound(txg);
  return at != ranges_.begin() && std::prev(at)->second > txg;
}

}  // namespace zuse::vdev
