// Recording leaves: one shared log of every write and flush, and the states that a power cut could
// leave behind.
//
// What a device promises is small. A write that was answered may still sit in a volatile cache; a
// flush that was answered has made every write durable that had been answered before the flush
// began. All else may have reached the medium or not, whole or in part, in any order. So at a cut
// each write is either durable or open, and every choice of fates for the open ones is a state that
// an import must survive.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "vdev/base/random.h"
#include "vdev/base/sync.h"
#include "vdev/block_device.h"
#include "vdev/memory_device.h"

namespace zuse::vdev {

inline constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();

// One thing that happened, in the order of the log. A write stands where it began, a flush where it
// was answered. A discard is a write of zeros.
struct Event {
  enum class Kind : std::uint8_t { write, flush };
  Kind kind = Kind::write;
  unsigned device = 0;
  std::uint64_t offset = 0;
  std::vector<std::byte> bytes;  // flush: empty
  IoPurpose purpose = IoPurpose::normal;
  // Writes: the log's length when it was answered, and the index of the first flush of its device
  // that covers it.
  std::size_t answered_at = kNever;
  std::size_t durable_at = kNever;
};

// The log of any number of devices. Thread-safe.
class EventLog {
 public:
  // Events so far. A cut at n has seen events [0, n).
  std::size_t size() const;
  // A copy of everything. shape: costs as much memory as the writes.
  std::vector<Event> events() const;

  // For RecordingDevice. Answers the index of the write.
  std::size_t write_began(unsigned device, std::uint64_t offset, std::vector<std::byte> bytes,
                          IoPurpose purpose);
  void write_answered(std::size_t index);
  // The moment that a flush begins; to be handed to flush_answered().
  std::uint64_t flush_began();
  void flush_answered(unsigned device, std::uint64_t began);

 private:
  mutable Mutex mutex_{LockRank::leaf};
  std::vector<Event> events_ ZUSE_GUARDED_BY(mutex_);
  std::uint64_t clock_ ZUSE_GUARDED_BY(mutex_) = 0;
  // Answered writes that no flush has covered yet: index -> moment of the answer.
  std::map<std::size_t, std::uint64_t> open_ ZUSE_GUARDED_BY(mutex_);
};

// Records what passes through. A write that failed stays open for ever: it may have got through in
// part. Thread-safe.
class RecordingDevice final : public BlockDevice {
 public:
  RecordingDevice(std::unique_ptr<BlockDevice> inner, EventLog& event_log, unsigned device);

  const std::string& name() const override { return inner_->name(); }
  std::uint64_t size() const override { return inner_->size(); }
  unsigned sector_shift() const override { return inner_->sector_shift(); }
  bool read_only() const override { return inner_->read_only(); }
  void start(IoRequest& request, IoBatch& batch) override;

  BlockDevice& inner() noexcept { return *inner_; }

 private:
  const std::unique_ptr<BlockDevice> inner_;
  EventLog& event_log_;
  const unsigned device_;
};

// The power fails when `cut` events have happened.
class CrashState {
 public:
  enum class Fate : std::uint8_t { dropped, kept, torn };

  // shape: `events` outlives this; cut <= events.size().
  CrashState(std::span<const Event> events, std::size_t cut);

  // Indices of the writes that the cut leaves open, in order.
  const std::vector<std::size_t>& open_writes() const noexcept { return open_; }

  // One fate for each open write; all dropped before the first call.
  // shape: as many as open_writes().
  void choose(std::span<const Fate> fates);
  // Kept if its bit is set, by place in open_writes(): counting up visits every subset.
  void choose_subset(std::uint64_t kept);
  // Each drawn by itself: dropped, kept or torn with equal chance.
  void choose(Xorshift128Plus& random);

  // What the device holds after the cut. `before` is its content when recording began. Of a torn
  // write each sector of 512 bytes is there or not by a draw of `tearing` (some but not all, where
  // it has more than one).
  MemoryImage image(unsigned device, const MemoryImage& before, std::uint64_t tearing = 1) const;

 private:
  std::span<const Event> events_;
  std::size_t cut_;
  std::vector<std::size_t> open_;
  std::vector<Fate> fates_;
};

}  // namespace zuse::vdev
