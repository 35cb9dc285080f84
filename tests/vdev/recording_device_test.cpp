#include "vdev/recording_device.h"

#include <gtest/gtest.h>

#include <deque>
#include <set>
#include <vector>

#include "tests/support/seed.h"
#include "vdev/base/units.h"

namespace zuse::vdev {
namespace {

using Fate = CrashState::Fate;

std::vector<std::byte> filled(std::size_t size, int value) {
  return std::vector(size, static_cast<std::byte>(value));
}

std::byte byte_at(const MemoryImage& image, std::uint64_t offset) {
  std::vector<std::byte> one(1);
  image.read(offset, one);
  return one[0];
}

class RecordingTest : public testing::Test {
 protected:
  RecordingDevice& device(unsigned index) {
    while (devices_.size() <= index) {
      devices_.push_back(std::make_unique<RecordingDevice>(
          std::make_unique<MemoryDevice>(kMiB), log_, static_cast<unsigned>(devices_.size())));
    }
    return *devices_[index];
  }

  EventLog log_;
  std::vector<std::unique_ptr<RecordingDevice>> devices_;
  const MemoryImage zeros_{kMiB};
};

TEST_F(RecordingTest, KeepsOneOrderOverAllDevicesWithContents) {
  ASSERT_TRUE(device(0).write(512, filled(512, 1)));
  ASSERT_TRUE(device(1).write(1024, filled(1024, 2)));
  ASSERT_TRUE(device(0).flush());
  std::vector<std::byte> unread(512);
  ASSERT_TRUE(device(0).read(0, unread));
  const auto events = log_.events();
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[0].device, 0U);
  EXPECT_EQ(events[0].offset, 512U);
  EXPECT_EQ(events[0].bytes, filled(512, 1));
  EXPECT_EQ(events[1].device, 1U);
  EXPECT_EQ(events[2].kind, Event::Kind::flush);
}

TEST_F(RecordingTest, FlushedWritesAreDurableAndOnlyOnTheirDevice) {
  ASSERT_TRUE(device(0).write(0, filled(512, 1)));
  ASSERT_TRUE(device(1).write(0, filled(512, 2)));
  ASSERT_TRUE(device(0).flush());
  ASSERT_TRUE(device(0).write(512, filled(512, 3)));
  const auto events = log_.events();
  const CrashState before_flush(events, 2);
  EXPECT_EQ(before_flush.open_writes(), (std::vector<std::size_t>{0, 1}));
  const CrashState at_end(events, events.size());
  EXPECT_EQ(at_end.open_writes(), (std::vector<std::size_t>{1, 3}));
  EXPECT_EQ(byte_at(at_end.image(0, zeros_), 0), std::byte{1});
  EXPECT_EQ(byte_at(at_end.image(0, zeros_), 512), std::byte{0});
  EXPECT_EQ(byte_at(at_end.image(1, zeros_), 0), std::byte{0});
}

TEST_F(RecordingTest, SubsetsOfOpenWritesGiveEachImageOnce) {
  for (unsigned i = 0; i < 4; ++i) {
    ASSERT_TRUE(device(0).write(i * 512, filled(512, 1)));
  }
  const auto events = log_.events();
  CrashState state(events, events.size());
  ASSERT_EQ(state.open_writes().size(), 4U);
  std::set<unsigned> seen;
  for (std::uint64_t subset = 0; subset < 16; ++subset) {
    state.choose_subset(subset);
    const MemoryImage image = state.image(0, zeros_);
    unsigned found = 0;
    for (unsigned i = 0; i < 4; ++i) {
      found |= byte_at(image, i * 512) == std::byte{1} ? 1U << i : 0U;
    }
    EXPECT_EQ(found, subset);
    seen.insert(found);
  }
  EXPECT_EQ(seen.size(), 16U);
}

TEST_F(RecordingTest, TornWritesKeepSomeWholeSectorsAndTheSameOnesForTheSameNumber) {
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE(test::rerun());
  ASSERT_TRUE(device(0).write(4096, filled(8192, 7)));
  const auto events = log_.events();
  CrashState state(events, events.size());
  state.choose(std::vector{Fate::torn});
  std::set<std::vector<bool>> patterns;
  for (std::uint64_t tearing = seed; tearing < seed + 50; ++tearing) {
    const MemoryImage image = state.image(0, zeros_, tearing);
    std::vector<bool> pattern;
    for (std::uint64_t sector = 0; sector < 16; ++sector) {
      std::vector<std::byte> bytes(512);
      image.read(4096 + sector * 512, bytes);
      const bool there = bytes == filled(512, 7);
      EXPECT_TRUE(there || bytes == filled(512, 0));
      pattern.push_back(there);
    }
    const auto kept = std::count(pattern.begin(), pattern.end(), true);
    EXPECT_GT(kept, 0);
    EXPECT_LT(kept, 16);
    patterns.insert(pattern);
    EXPECT_TRUE(image == state.image(0, zeros_, tearing));
  }
  EXPECT_GT(patterns.size(), 30U);
}

// A device that answers when it is told to, so that the order of answers can be chosen.
class SlowDevice final : public BlockDevice {
 public:
  const std::string& name() const override { return name_; }
  std::uint64_t size() const override { return kMiB; }
  unsigned sector_shift() const override { return 9; }
  bool read_only() const override { return false; }
  void start(IoRequest& request, IoBatch& /*batch*/) override { waiting.push_back(&request); }
  std::deque<IoRequest*> waiting;

 private:
  std::string name_ = "slow";
};

TEST(Recording, AFlushDoesNotCoverWritesAnsweredAfterItBegan) {
  auto owned = std::make_unique<SlowDevice>();
  SlowDevice& slow = *owned;
  EventLog log;
  RecordingDevice device(std::move(owned), log, 0);
  auto bytes = filled(512, 1);
  IoRequest early;
  IoRequest late;
  IoRequest flush;
  early.op = late.op = IoOp::write;
  flush.op = IoOp::flush;
  early.data = late.data = bytes;
  late.offset = 512;
  bool told = false;
  early.on_done = [&](IoRequest& request) { told = request.status == IoStatus::ok; };
  IoBatch batch;
  batch.add(device, early);
  batch.add(device, late);
  slow.waiting[0]->finish(IoStatus::ok);  // early is answered before the flush begins
  EXPECT_TRUE(told);
  batch.add(device, flush);
  slow.waiting[1]->finish(IoStatus::ok);
  slow.waiting[2]->finish(IoStatus::ok);
  const auto events = log.events();
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(CrashState(events, 3).open_writes(), (std::vector<std::size_t>{1}));
}

TEST(Recording, AFailedFlushMakesNothingDurableAndAFailedWriteStaysOpen) {
  auto owned = std::make_unique<SlowDevice>();
  SlowDevice& slow = *owned;
  EventLog log;
  RecordingDevice device(std::move(owned), log, 0);
  auto bytes = filled(512, 1);
  std::deque<IoRequest> requests(4);
  const IoOp ops[] = {IoOp::write, IoOp::flush, IoOp::write, IoOp::flush};
  const IoStatus results[] = {IoStatus::ok, IoStatus::io_error, IoStatus::io_error, IoStatus::ok};
  IoBatch batch;
  for (std::size_t i = 0; i < 4; ++i) {
    requests[i].op = ops[i];
    if (ops[i] == IoOp::write) {
      requests[i].offset = i * 512;
      requests[i].data = bytes;
    }
    batch.add(device, requests[i]);
    slow.waiting.back()->finish(results[i]);
  }
  const auto events = log.events();
  ASSERT_EQ(events.size(), 3U);  // the failed flush leaves no event
  EXPECT_EQ(CrashState(events, 2).open_writes(), (std::vector<std::size_t>{0, 1}));
  EXPECT_EQ(CrashState(events, 3).open_writes(), (std::vector<std::size_t>{1}));
}

}  // namespace
}  // namespace zuse::vdev
