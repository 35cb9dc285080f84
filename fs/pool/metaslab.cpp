// The states of a metaslab's ranges. Every transition checks that the range is in the state that it
// leaves: a range that would be free twice is a damaged pool (or a bug), and handing it out could
// destroy data, so it is refused and leaks instead.
#include "fs/pool/metaslab.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <utility>

namespace zuse::pool {
namespace {

constexpr unsigned kFirstFitTries = 16;  // ranges looked at after the cursor before the tightest

constexpr std::size_t slot_of(std::uint64_t txg) noexcept {
  return static_cast<std::size_t>(txg % kTxgSlots);
}

}  // namespace

Metaslab::Metaslab(std::uint32_t top, std::uint64_t index, Range bounds, unsigned ashift)
    : top_(top), index_(index), bounds_(bounds), ashift_(ashift), cursor_(bounds.offset) {}

bool Metaslab::inside(const Range& range) const noexcept {
  const std::uint64_t mask = pow2(ashift_) - 1;
  return range.size != 0 && ((range.offset | range.size) & mask) == 0 &&
         range.offset >= bounds_.offset && range.offset - bounds_.offset < bounds_.size &&
         range.size <= bounds_.size - (range.offset - bounds_.offset);
}

std::string Metaslab::where(const Range& range) const {
  return fmt::format("vdev {} metaslab {} offset {:#x} size {:#x}", top_, index_, range.offset,
                     range.size);
}

void Metaslab::publish_locked() {
  std::uint64_t used = map_bytes_;
  for (std::size_t i = 0; i < kTxgSlots; ++i) {
    used += pending_alloc_[i].total();
    used -= std::min(used, pending_free_[i].total());
  }
  used_bytes_.store(used, std::memory_order_relaxed);
  free_bytes_.store(free_.total(), std::memory_order_relaxed);
  largest_.store(free_.largest(), std::memory_order_relaxed);
}

Result<void> Metaslab::load(std::span<const format::SpaceMapEntry> entries) {
  RangeSet allocated;
  for (const format::SpaceMapEntry& entry : entries) {
    const std::uint64_t units = bounds_.size >> ashift_;
    if (entry.offset >= units || entry.run == 0 || entry.run > units - entry.offset) {
      return fail(Errc::corrupt,
                  fmt::format("space map of vdev {} metaslab {}: entry at unit {} runs outside",
                              top_, index_, entry.offset));
    }
    const Range range{bounds_.offset + (entry.offset << ashift_), entry.run << ashift_};
    if (entry.op == format::SpaceMapOp::alloc) {
      if (allocated.overlaps(range)) {
        return fail(Errc::corrupt, "space map allocates twice: " + where(range));
      }
      allocated.add(range);
    } else {
      if (!allocated.contains(range)) {
        return fail(Errc::corrupt, "space map frees what is free: " + where(range));
      }
      allocated.remove(range);
    }
  }
  const LockGuard lock(mutex_);
  if (loaded_.load(std::memory_order_relaxed)) {
    return fail(Errc::exists, "metaslab is loaded already");
  }
  free_.clear();
  allocated.for_each_gap(bounds_, [&](const Range& gap) { free_.add(gap); });
  map_bytes_ = allocated.total();
  // What was freed since the pool was opened is free in the map by now, but must still wait.
  for (const Deferred& deferred : deferred_) {
    for (const Range& range : deferred.ranges.to_vector()) {
      free_.remove_overlap(range);
    }
  }
  publish_locked();
  loaded_.store(true, std::memory_order_release);
  return {};
}

void Metaslab::set_unloaded(std::uint64_t allocated_bytes) {
  const LockGuard lock(mutex_);
  if (!loaded_.load(std::memory_order_relaxed)) {
    map_bytes_ = std::min(allocated_bytes, bounds_.size);
    publish_locked();
  }
}

std::optional<std::uint64_t> Metaslab::allocate(std::uint64_t size, std::uint64_t txg,
                                                bool& continued) {
  const LockGuard lock(mutex_);
  auto fit = free_.first_fit(cursor_, size, kFirstFitTries);
  continued = fit != free_.ranges().end() && fit->first == cursor_;
  if (fit == free_.ranges().end()) {
    fit = free_.best_fit(size);
  }
  if (fit == free_.ranges().end()) {
    return std::nullopt;
  }
  const std::uint64_t offset = fit->first;
  free_.remove({offset, size});
  pending_alloc_[slot_of(txg)].add({offset, size});
  cursor_ = offset + size;
  publish_locked();
  return offset;
}

Result<void> Metaslab::claim(const Range& range, std::uint64_t txg) {
  if (!inside(range)) {
    return fail(Errc::invalid, "not a range of this metaslab: " + where(range));
  }
  const LockGuard lock(mutex_);
  if (!free_.contains(range)) {
    return fail(Errc::exists, "not free: " + where(range));
  }
  free_.remove(range);
  pending_alloc_[slot_of(txg)].add(range);
  publish_locked();
  return {};
}

Result<void> Metaslab::free(const Range& range, std::uint64_t txg, bool wait) {
  if (!inside(range)) {
    return fail(Errc::invalid, "freeing outside of the metaslab: " + where(range));
  }
  const LockGuard lock(mutex_);
  RangeSet& born = pending_alloc_[slot_of(txg)];
  if (!wait && born.contains(range)) {
    born.remove(range);
    free_.add(range);
    publish_locked();
    return {};
  }
  bool twice = free_.overlaps(range);
  for (std::size_t i = 0; i < kTxgSlots; ++i) {
    twice = twice || pending_free_[i].overlaps(range);
  }
  for (const Deferred& deferred : deferred_) {
    twice = twice || deferred.ranges.overlaps(range);
  }
  if (twice) {
    return fail(Errc::corrupt, "freed twice: " + where(range));
  }
  pending_free_[slot_of(txg)].add(range);
  publish_locked();
  return {};
}

std::optional<MetaslabChanges> Metaslab::take_changes(std::uint64_t txg) {
  const LockGuard lock(mutex_);
  RangeSet& allocated = pending_alloc_[slot_of(txg)];
  RangeSet& freed = pending_free_[slot_of(txg)];
  if (allocated.empty() && freed.empty()) {
    return std::nullopt;
  }
  MetaslabChanges changes;
  changes.top = top_;
  changes.metaslab = index_;
  changes.allocated = allocated.to_vector();
  changes.freed = freed.to_vector();
  map_bytes_ += allocated.total();
  map_bytes_ -= std::min(map_bytes_, freed.total());
  changes.allocated_total = map_bytes_;
  allocated.clear();
  if (!freed.empty()) {
    if (deferred_.empty() || deferred_.back().txg != txg) {
      deferred_.push_back({txg, {}});
    }
    for (const Range& range : changes.freed) {
      deferred_.back().ranges.add(range);
    }
    freed.clear();
  }
  publish_locked();
  return changes;
}

void Metaslab::release_deferred(std::uint64_t txg) {
  const LockGuard lock(mutex_);
  bool changed = false;
  while (!deferred_.empty() && deferred_.front().txg <= txg) {
    if (loaded_.load(std::memory_order_relaxed)) {
      for (const Range& range : deferred_.front().ranges.to_vector()) {
        free_.add(range);
      }
    }
    deferred_.pop_front();
    changed = true;
  }
  if (changed) {
    publish_locked();
  }
}

std::vector<Range> Metaslab::map_contents() const {
  ZUSE_CHECK(loaded());
  const LockGuard lock(mutex_);
  RangeSet unallocated;
  for (const auto& [start, end] : free_.ranges()) {
    unallocated.add({start, end - start});
  }
  const auto leave_out = [&](const RangeSet& ranges) {
    for (const auto& [start, end] : ranges.ranges()) {
      unallocated.add({start, end - start});
    }
  };
  for (const RangeSet& ranges : pending_alloc_) {
    leave_out(ranges);
  }
  for (const Deferred& deferred : deferred_) {
    leave_out(deferred.ranges);
  }
  std::vector<Range> contents;
  unallocated.for_each_gap(bounds_, [&](const Range& gap) { contents.push_back(gap); });
  return contents;
}

bool Metaslab::is_free(const Range& range) const {
  const LockGuard lock(mutex_);
  return free_.overlaps(range);
}

std::array<std::uint64_t, 64> Metaslab::free_by_size() const {
  const LockGuard lock(mutex_);
  std::array<std::uint64_t, 64> bytes{};
  for (const auto& [start, end] : free_.ranges()) {
    bytes[log2_floor(end - start)] += end - start;
  }
  return bytes;
}

}  // namespace zuse::pool
