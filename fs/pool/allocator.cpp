// Choice of vdev and metaslab; the choice of bytes inside a metaslab is its own (metaslab.cpp).
#include "fs/pool/allocator.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <utility>

#include "vdev/base/units.h"

namespace zuse::pool {
namespace {

constexpr unsigned kKinds = 4;  // data, and copies 0..2 of metadata
constexpr unsigned kLanes = 8;  // threads that allocate without meeting
constexpr std::uint64_t kTurn =
    2 * kMiB;  // bytes a vdev gets before the next one's turn, on average
constexpr std::uint64_t kNone = ~std::uint64_t{0};

unsigned lane() noexcept {
  static std::atomic<unsigned> next{0};
  thread_local const unsigned mine = next.fetch_add(1, std::memory_order_relaxed) % kLanes;
  return mine;
}

}  // namespace

struct Allocator::Top {
  AllocatorTop spec;
  std::uint32_t id = 0;
  std::vector<std::unique_ptr<Metaslab>> metaslabs;
  // The metaslab that each kind and lane fills now; kNone: not chosen yet.
  std::array<std::array<std::atomic<std::uint64_t>, kLanes>, kKinds> active;

  std::uint64_t allocatable() const noexcept {
    std::uint64_t bytes = 0;
    for (const auto& metaslab : metaslabs) {
      bytes += metaslab->allocatable();
    }
    return bytes;
  }
  bool is_active(std::uint64_t index, const std::atomic<std::uint64_t>& but) const noexcept {
    for (const auto& kind : active) {
      for (const auto& choice : kind) {
        if (&choice != &but && choice.load(std::memory_order_relaxed) == index) {
          return true;
        }
      }
    }
    return false;
  }
};

// Whose turn it is, for one lane.
struct Allocator::Rotor {
  std::atomic<unsigned> top{0};
  std::atomic<std::int64_t> left{0};  // bytes until the turn ends
};

Allocator::Pin::Pin(Pin&& other) noexcept
    : allocator_(std::exchange(other.allocator_, nullptr)), txg_(other.txg_) {}

Allocator::Pin& Allocator::Pin::operator=(Pin&& other) noexcept {
  if (this != &other) {
    Pin old(std::move(*this));
    allocator_ = std::exchange(other.allocator_, nullptr);
    txg_ = other.txg_;
  }
  return *this;
}

Allocator::Pin::~Pin() {
  if (allocator_ != nullptr) {
    allocator_->unpin(txg_);
  }
}

Result<std::unique_ptr<Allocator>> Allocator::create(std::span<const AllocatorTop> tops,
                                                     bool deflate) {
  for (std::size_t i = 0; i < tops.size(); ++i) {
    const AllocatorTop& top = tops[i];
    if (top.geometry.asize == 0 || !top.allocatable) {
      continue;
    }
    if (top.metaslab_shift <= top.geometry.ashift || top.metaslab_shift > 62 ||
        top.geometry.asize >> top.metaslab_shift > pow2(24)) {
      return fail(Errc::invalid, fmt::format("vdev {}: metaslabs of 2^{} bytes on a vdev of {}", i,
                                             top.metaslab_shift, top.geometry.asize));
    }
  }
  return std::unique_ptr<Allocator>(new Allocator(tops, deflate));
}

Allocator::Allocator(std::span<const AllocatorTop> tops, bool deflate)
    : deflate_(deflate), rotors_(std::make_unique<std::array<Rotor, 8>>()) {
  static_assert(kLanes == 8);
  for (const AllocatorTop& spec : tops) {
    auto top = std::make_unique<Top>();
    top->spec = spec;
    top->id = static_cast<std::uint32_t>(tops_.size());
    for (auto& kind : top->active) {
      for (auto& choice : kind) {
        choice.store(kNone);
      }
    }
    const bool has_space = spec.geometry.asize != 0 && spec.metaslab_shift != 0;
    const std::uint64_t count = has_space ? spec.geometry.asize >> spec.metaslab_shift : 0;
    const std::uint64_t size = pow2(spec.metaslab_shift);
    for (std::uint64_t i = 0; i < count; ++i) {
      top->metaslabs.push_back(
          std::make_unique<Metaslab>(top->id, i, Range{i * size, size}, spec.geometry.ashift));
    }
    if (spec.allocatable) {
      total_ += count * size;
      dspace_ += deflate ? (count * size >> 9) * spec.geometry.deflate_ratio() : count * size;
    }
    tops_.push_back(std::move(top));
  }
}

Allocator::~Allocator() {
  const LockGuard lock(mutex_);
  ZUSE_CHECK(pins_.empty());
}

std::uint64_t Allocator::metaslab_count(unsigned top) const {
  return top < tops_.size() ? tops_[top]->metaslabs.size() : 0;
}

const vdev::TopGeometry& Allocator::geometry(unsigned top) const {
  ZUSE_CHECK(top < tops_.size());
  return tops_[top]->spec.geometry;
}

bool Allocator::is_allocatable(unsigned top) const {
  return top < tops_.size() && tops_[top]->spec.allocatable;
}

Result<void> Allocator::load(unsigned top, std::uint64_t metaslab,
                             std::span<const format::SpaceMapEntry> entries) {
  if (metaslab >= metaslab_count(top)) {
    return fail(Errc::invalid, fmt::format("vdev {} has no metaslab {}", top, metaslab));
  }
  return tops_[top]->metaslabs[metaslab]->load(entries);
}

void Allocator::set_unloaded(unsigned top, std::uint64_t metaslab, std::uint64_t allocated_bytes) {
  if (metaslab < metaslab_count(top)) {
    tops_[top]->metaslabs[metaslab]->set_unloaded(allocated_bytes);
  }
}

// The vdev whose turn it is in this lane. When a turn ends, the next vdev gets one that is as long
// as its share of all free space, so that emptier vdevs fill faster and all end up full together.
unsigned Allocator::next_top(std::uint64_t asize) {
  Rotor& rotor = (*rotors_)[lane()];
  const auto count = static_cast<unsigned>(tops_.size());
  unsigned top = rotor.top.load(std::memory_order_relaxed) % count;
  const auto bytes = static_cast<std::int64_t>(asize);
  if (rotor.left.fetch_sub(bytes, std::memory_order_relaxed) > 0) {
    return top;
  }
  std::uint64_t all_free = 0;
  unsigned usable = 0;
  for (const auto& candidate : tops_) {
    if (candidate->spec.allocatable) {
      all_free += candidate->allocatable();
      ++usable;
    }
  }
  for (unsigned step = 0; step < count; ++step) {
    top = (top + 1) % count;
    const std::uint64_t free = tops_[top]->spec.allocatable ? tops_[top]->allocatable() : 0;
    if (free != 0) {
      const double share = static_cast<double>(free) / static_cast<double>(all_free);
      const double turn = static_cast<double>(kTurn) * usable * share;
      rotor.left.store(static_cast<std::int64_t>(turn) - bytes, std::memory_order_relaxed);
      break;
    }
  }
  rotor.top.store(top, std::memory_order_relaxed);
  return top;
}

bool Allocator::allocate_in(Top& top, const AllocationRequest& request, unsigned copy,
                            std::uint64_t asize, std::span<const format::Dva> others, bool anywhere,
                            format::Dva& dva) {
  if (!top.spec.allocatable || top.metaslabs.empty()) {
    return false;
  }
  const unsigned shift = top.spec.metaslab_shift;
  const auto holds_a_copy = [&](std::uint64_t index) {
    return !anywhere && std::ranges::any_of(others, [&](const format::Dva& other) {
      return other.vdev == top.id && other.offset >> shift == index;
    });
  };
  std::atomic<std::uint64_t>& active = top.active[request.data && copy == 0 ? 0 : copy + 1][lane()];
  const auto try_metaslab = [&](std::uint64_t index, bool& continued) {
    const auto offset = top.metaslabs[index]->allocate(asize, request.txg, continued);
    if (offset) {
      dva = {top.id, asize, *offset, false};
    }
    return offset.has_value();
  };

  // Where the last one went - unless only crumbs are left there: small blocks would then be strewn
  // over them while whole metaslabs lie empty.
  std::uint64_t index = active.load(std::memory_order_relaxed);
  bool continued = false;
  if (index < top.metaslabs.size() && !holds_a_copy(index) &&
      top.metaslabs[index]->largest() >= std::max(asize, std::min(kMiB, pow2(shift) / 16))) {
    if (try_metaslab(index, continued)) {
      return true;
    }
  }
  // The roomiest one that nobody else fills; of equals the first.
  std::vector<std::uint64_t> candidates;
  for (std::uint64_t i = 0; i < top.metaslabs.size(); ++i) {
    if (top.metaslabs[i]->largest() >= asize && !holds_a_copy(i)) {
      candidates.push_back(i);
    }
  }
  const auto score = [&](std::uint64_t i) {
    const unsigned room = 2 * log2_floor(top.metaslabs[i]->largest());
    return top.is_active(i, active) ? room - std::min(room, 3U) : room;
  };
  while (!candidates.empty()) {
    const auto best = std::ranges::max_element(candidates, {}, score);
    index = *best;
    candidates.erase(best);
    if (try_metaslab(index, continued)) {
      active.store(index, std::memory_order_relaxed);
      return true;
    }
  }
  return false;
}

Result<format::Dva> Allocator::allocate_copy(const AllocationRequest& request, unsigned copy,
                                             std::span<const format::Dva> others) {
  const auto count = static_cast<unsigned>(tops_.size());
  const unsigned first =
      others.empty() ? next_top(request.psize) : (others.back().vdev + 1) % count;
  format::Dva dva;
  // Best: a vdev without a copy. Else a metaslab without one. Else anywhere that does not overlap.
  for (unsigned effort = 0; effort < 3; ++effort) {
    for (unsigned step = 0; step < count; ++step) {
      Top& top = *tops_[(first + step) % count];
      const bool has_copy = std::ranges::any_of(
          others, [&](const format::Dva& other) { return other.vdev == top.id; });
      if (effort == 0 && has_copy) {
        continue;
      }
      const std::uint64_t asize = top.spec.geometry.psize_to_asize(request.psize);
      if (allocate_in(top, request, copy, asize, others, effort == 2, dva)) {
        return dva;
      }
    }
  }
  return fail(Errc::no_space,
              fmt::format("no free range of {} bytes for copy {}", request.psize, copy));
}

Result<std::array<format::Dva, 3>> Allocator::allocate(const AllocationRequest& request) {
  if (request.psize == 0 || request.psize > format::kMaxBlockSize || request.copies == 0 ||
      request.copies > 3 || tops_.empty()) {
    return fail(Errc::invalid,
                fmt::format("allocation of {} bytes in {} copies", request.psize, request.copies));
  }
  std::array<format::Dva, 3> dvas{};
  for (unsigned copy = 0; copy < request.copies; ++copy) {
    auto dva = allocate_copy(request, copy, std::span(dvas).first(copy));
    if (!dva) {
      for (unsigned undo = 0; undo < copy; ++undo) {
        const auto undone = free(dvas[undo], request.txg);
        ZUSE_CHECK(undone.has_value());
      }
      return std::unexpected(std::move(dva).error());
    }
    dvas[copy] = *dva;
  }
  return dvas;
}

Metaslab* Allocator::find(const format::Dva& dva) const {
  if (dva.vdev >= tops_.size()) {
    return nullptr;
  }
  const Top& top = *tops_[dva.vdev];
  const std::uint64_t index = dva.offset >> top.spec.metaslab_shift;
  return index < top.metaslabs.size() ? top.metaslabs[index].get() : nullptr;
}

Result<void> Allocator::claim(const format::Dva& dva, std::uint64_t txg) {
  Metaslab* const metaslab = find(dva);
  if (metaslab == nullptr) {
    return fail(Errc::invalid,
                fmt::format("vdev {} offset {:#x} is in no metaslab", dva.vdev, dva.offset));
  }
  return metaslab->claim({dva.offset, dva.asize}, txg);
}

Result<void> Allocator::free(const format::Dva& dva, std::uint64_t txg, bool wait) {
  Metaslab* const metaslab = find(dva);
  if (metaslab == nullptr) {
    return fail(Errc::invalid,
                fmt::format("vdev {} offset {:#x} is in no metaslab", dva.vdev, dva.offset));
  }
  return metaslab->free({dva.offset, dva.asize}, txg, wait);
}

void Allocator::begin_sync(std::uint64_t txg) {
  std::uint64_t oldest_to_keep = txg >= 3 ? txg - 3 : 0;
  {
    const LockGuard lock(mutex_);
    syncing_ = std::max(syncing_, txg);
    for (const std::uint64_t pinned : pins_) {
      oldest_to_keep = std::min(oldest_to_keep, pinned);
    }
  }
  for (const auto& top : tops_) {
    for (const auto& metaslab : top->metaslabs) {
      metaslab->release_deferred(oldest_to_keep);
    }
  }
}

std::vector<MetaslabChanges> Allocator::take_changes(std::uint64_t txg) {
  std::vector<MetaslabChanges> all;
  for (const auto& top : tops_) {
    for (const auto& metaslab : top->metaslabs) {
      if (auto changes = metaslab->take_changes(txg)) {
        all.push_back(*std::move(changes));
      }
    }
  }
  return all;
}

std::vector<Range> Allocator::map_contents(unsigned top, std::uint64_t metaslab) const {
  ZUSE_CHECK(metaslab < metaslab_count(top));
  return tops_[top]->metaslabs[metaslab]->map_contents();
}

bool Allocator::loaded(unsigned top, std::uint64_t metaslab) const {
  return metaslab < metaslab_count(top) && tops_[top]->metaslabs[metaslab]->loaded();
}

bool Allocator::is_free(const format::Dva& dva) const {
  const Metaslab* const metaslab = find(dva);
  return metaslab != nullptr && metaslab->is_free({dva.offset, dva.asize});
}

// The tree that the holder is about to walk is that of the group before the syncing one, or newer:
// what older groups freed is not in it.
Allocator::Pin Allocator::pin_frees() {
  Pin pin;
  const LockGuard lock(mutex_);
  pin.allocator_ = this;
  pin.txg_ = syncing_ == 0 ? 0 : syncing_ - 1;
  pins_.push_back(pin.txg_);
  return pin;
}

void Allocator::unpin(std::uint64_t txg) {
  const LockGuard lock(mutex_);
  const auto found = std::ranges::find(pins_, txg);
  ZUSE_CHECK(found != pins_.end());
  pins_.erase(found);
}

std::uint64_t Allocator::allocated() const {
  std::uint64_t bytes = 0;
  for (const auto& top : tops_) {
    if (top->spec.allocatable) {
      for (const auto& metaslab : top->metaslabs) {
        bytes += metaslab->allocated();
      }
    }
  }
  return bytes;
}

std::uint64_t Allocator::deflated_allocated() const {
  std::uint64_t bytes = 0;
  for (const auto& top : tops_) {
    if (top->spec.allocatable) {
      for (const auto& metaslab : top->metaslabs) {
        bytes += deflate(top->id, metaslab->allocated());
      }
    }
  }
  return bytes;
}

std::uint64_t Allocator::slop() const noexcept {
  const std::uint64_t share = std::min(dspace_ >> 5, 128 * kGiB);
  return std::max(share, std::min(dspace_ / 2, 128 * kMiB));
}

std::uint64_t Allocator::deflate(unsigned top, std::uint64_t asize) const {
  if (!deflate_ || top >= tops_.size()) {
    return asize;
  }
  return (asize >> 9) * tops_[top]->spec.geometry.deflate_ratio();
}

unsigned Allocator::fragmentation() const {
  constexpr unsigned kWhole = 24;  // log2 of 16 MiB
  double weighted = 0, all = 0;
  for (const auto& top : tops_) {
    const unsigned sector = top->spec.geometry.ashift;
    for (const auto& metaslab : top->metaslabs) {
      const auto sizes = metaslab->free_by_size();
      for (unsigned log2 = 0; log2 < sizes.size(); ++log2) {
        const auto bytes = static_cast<double>(sizes[log2]);
        all += bytes;
        if (log2 < kWhole && sector < kWhole) {
          weighted += bytes * (kWhole - std::max(log2, sector)) / (kWhole - sector);
        }
      }
    }
  }
  return all == 0 ? 0 : static_cast<unsigned>(100 * weighted / all);
}

}  // namespace zuse::pool
