// The clock of the log ticks with every answer and every beginning of a flush: it decides which
// writes a flush covers. Places in the log decide what a cut has seen.
#include "vdev/recording_device.h"

#include <algorithm>
#include <utility>

#include "vdev/base/units.h"

namespace zuse::vdev {
namespace {

constexpr std::uint64_t kSector = 512;

}  // namespace

std::size_t EventLog::size() const {
  const LockGuard guard(mutex_);
  return events_.size();
}

std::vector<Event> EventLog::events() const {
  const LockGuard guard(mutex_);
  return events_;
}

std::size_t EventLog::write_began(unsigned device, std::uint64_t offset,
                                  std::vector<std::byte> bytes, IoPurpose purpose) {
  const LockGuard guard(mutex_);
  Event event;
  event.kind = Event::Kind::write;
  event.device = device;
  event.offset = offset;
  event.bytes = std::move(bytes);
  event.purpose = purpose;
  events_.push_back(std::move(event));
  return events_.size() - 1;
}

void EventLog::write_answered(std::size_t index) {
  const LockGuard guard(mutex_);
  events_[index].answered_at = events_.size();
  open_.emplace(index, ++clock_);
}

std::uint64_t EventLog::flush_began() {
  const LockGuard guard(mutex_);
  return ++clock_;
}

void EventLog::flush_answered(unsigned device, std::uint64_t began) {
  const LockGuard guard(mutex_);
  const std::size_t flush = events_.size();
  std::erase_if(open_, [&](const auto& open) {
    Event& write = events_[open.first];
    if (write.device != device || open.second > began) {
      return false;
    }
    write.durable_at = flush;
    return true;
  });
  Event event;
  event.kind = Event::Kind::flush;
  event.device = device;
  events_.push_back(std::move(event));
}

RecordingDevice::RecordingDevice(std::unique_ptr<BlockDevice> inner, EventLog& event_log,
                                 unsigned device)
    : inner_(std::move(inner)), event_log_(event_log), device_(device) {}

void RecordingDevice::start(IoRequest& request, IoBatch& batch) {
  const std::uint64_t length = request.size();
  const bool inside = length <= size() && request.offset <= size() - length;
  if (request.op == IoOp::read || !inside || read_only()) {
    inner_->start(request, batch);
    return;
  }
  // Shared between the two moments; the owner's function gets its place back before it is called,
  // which destroys the one that runs.
  struct Pending {
    std::function<void(IoRequest&)> owner_on_done;
    EventLog* event_log;
    std::uint64_t moment;  // write: its index; flush: when it began
    unsigned device;
  };
  auto pending = std::make_shared<Pending>();
  pending->owner_on_done = std::move(request.on_done);
  pending->event_log = &event_log_;
  pending->device = device_;
  if (request.op == IoOp::flush) {
    pending->moment = event_log_.flush_began();
  } else {
    std::vector<std::byte> bytes = request.op == IoOp::write
                                       ? std::vector(request.data.begin(), request.data.end())
                                       : std::vector(request.length, std::byte{0});
    pending->moment =
        event_log_.write_began(device_, request.offset, std::move(bytes), request.purpose);
  }
  request.on_done = [pending](IoRequest& done) {
    const std::shared_ptr<Pending> mine = pending;
    done.on_done = std::move(mine->owner_on_done);
    if (done.status == IoStatus::ok) {
      if (done.op == IoOp::flush) {
        mine->event_log->flush_answered(mine->device, mine->moment);
      } else {
        mine->event_log->write_answered(mine->moment);
      }
    }
    done.finish(done.status);
  };
  inner_->start(request, batch);
}

CrashState::CrashState(std::span<const Event> events, std::size_t cut)
    : events_(events), cut_(cut) {
  ZUSE_CHECK(cut <= events.size());
  for (std::size_t i = 0; i < cut; ++i) {
    if (events[i].kind == Event::Kind::write && events[i].durable_at >= cut) {
      open_.push_back(i);
    }
  }
  fates_.assign(open_.size(), Fate::dropped);
}

void CrashState::choose(std::span<const Fate> fates) {
  ZUSE_CHECK(fates.size() == open_.size());
  fates_.assign(fates.begin(), fates.end());
}

void CrashState::choose_subset(std::uint64_t kept) {
  for (std::size_t i = 0; i < fates_.size(); ++i) {
    fates_[i] = i < 64 && ((kept >> i) & 1U) != 0 ? Fate::kept : Fate::dropped;
  }
}

void CrashState::choose(Xorshift128Plus& random) {
  for (Fate& fate : fates_) {
    fate = static_cast<Fate>(random.bounded(3));
  }
}

MemoryImage CrashState::image(unsigned device, const MemoryImage& before,
                              std::uint64_t tearing) const {
  MemoryImage result = before;
  std::size_t place = 0;  // in open_
  for (std::size_t i = 0; i < cut_; ++i) {
    const Event& event = events_[i];
    const bool is_open = place < open_.size() && open_[place] == i;
    const Fate fate = is_open ? fates_[place] : Fate::kept;
    place += is_open ? 1 : 0;
    if (event.kind != Event::Kind::write || event.device != device || fate == Fate::dropped) {
      continue;
    }
    const std::span<const std::byte> bytes = event.bytes;
    if (fate == Fate::kept) {
      result.write(event.offset, bytes);
      continue;
    }
    // Sectors are those of the device, so the pieces at the ends may be shorter. The draws depend
    // on the event, not on the other fates: a state is told by its choices and one number.
    Xorshift128Plus random(tearing ^ (std::uint64_t{i} << 20U) ^ device);
    const std::uint64_t first = event.offset / kSector;
    const std::uint64_t sectors = div_ceil(event.offset + bytes.size(), kSector) - first;
    const std::uint64_t surely_there = random.bounded(std::max<std::uint64_t>(sectors, 1));
    const std::uint64_t surely_lost =
        sectors > 1 ? (surely_there + 1 + random.bounded(sectors - 1)) % sectors : sectors;
    for (std::uint64_t sector = 0; sector < sectors; ++sector) {
      const bool drawn = (random() >> 63U) != 0;
      const bool there =
          sectors == 1 ? drawn : sector == surely_there || (sector != surely_lost && drawn);
      if (!there) {
        continue;
      }
      const std::uint64_t from = std::max(event.offset, (first + sector) * kSector);
      const std::uint64_t to =
          std::min(event.offset + bytes.size(), (first + sector + 1) * kSector);
      result.write(from, bytes.subspan(from - event.offset, to - from));
    }
  }
  return result;
}

}  // namespace zuse::vdev
