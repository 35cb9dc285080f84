#include "vdev/fault_device.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "vdev/base/units.h"
#include "vdev/memory_device.h"

namespace zuse::vdev {
namespace {

// Gives the verdict it was told to, and notes what it was asked.
class Told final : public FaultInjector {
 public:
  void activate(bool active) { set_active(active); }
  Verdict on_start(const FaultContext& where, const IoRequest& request) override {
    ++starts;
    guid = where.leaf_guid;
    size = where.device_size;
    op = request.op;
    return verdict;
  }
  void on_complete(const FaultContext&, const Verdict&, IoRequest& request) override {
    ++completions;
    if (flip && !request.data.empty()) {
      request.data[0] ^= std::byte{1};
    }
    if (fails) {
      request.status = IoStatus::io_error;
    }
  }
  bool refuses_open(std::uint64_t) override { return false; }

  Verdict verdict;
  bool flip = false, fails = false;
  int starts = 0, completions = 0;
  std::uint64_t guid = 0, size = 0;
  IoOp op = IoOp::read;
};

class FaultDeviceTest : public testing::Test {
 protected:
  FaultDeviceTest() {
    bytes_.assign(512, std::byte{5});
    EXPECT_TRUE(device_.write(0, bytes_));
  }
  std::vector<std::byte> bytes_;
  Told told_;
  FaultDevice device_{std::make_unique<MemoryDevice>(kMiB), told_, 42};
};

TEST_F(FaultDeviceTest, AnInactiveInjectorIsNeverAsked) {
  told_.verdict.action = Verdict::Action::answer;
  told_.verdict.status = IoStatus::io_error;
  EXPECT_TRUE(device_.read(0, bytes_));
  EXPECT_EQ(told_.starts, 0);
}

TEST_F(FaultDeviceTest, AnAnswerKeepsTheRequestFromTheDevice) {
  told_.activate(true);
  told_.verdict.action = Verdict::Action::answer;
  told_.verdict.status = IoStatus::ok;  // a lost write
  EXPECT_TRUE(device_.write(0, std::vector(512, std::byte{9})));
  EXPECT_EQ(told_.guid, 42U);
  EXPECT_EQ(told_.size, kMiB);
  EXPECT_EQ(told_.op, IoOp::write);
  told_.verdict.status = IoStatus::gone;
  EXPECT_EQ(device_.read(0, bytes_).error().code(), Errc::gone);
  told_.activate(false);
  ASSERT_TRUE(device_.read(0, bytes_));
  EXPECT_EQ(bytes_[0], std::byte{5});
}

TEST_F(FaultDeviceTest, CompletionsMayChangeBytesAndStatus) {
  told_.activate(true);
  told_.verdict.wants_completion = true;
  told_.flip = true;
  ASSERT_TRUE(device_.read(0, bytes_));
  EXPECT_EQ(bytes_[0], std::byte{4});
  told_.fails = true;
  EXPECT_EQ(device_.read(0, bytes_).error().code(), Errc::io);
  EXPECT_EQ(told_.completions, 2);
}

TEST_F(FaultDeviceTest, ALateRequestEndsNoSoonerAndIsToldOnce) {
  using Clock = std::chrono::steady_clock;
  told_.activate(true);
  for (const auto action : {Verdict::Action::pass, Verdict::Action::answer}) {
    const auto due = Clock::now() + std::chrono::milliseconds(20);
    told_.verdict.action = action;
    told_.verdict.not_before = due;
    IoRequest request;
    request.data = bytes_;
    int ended = 0;
    request.on_done = [&](IoRequest&) { ++ended; };
    IoBatch batch;
    batch.add(device_, request);
    EXPECT_EQ(ended, 0);
    batch.wait();
    EXPECT_EQ(ended, 1);
    EXPECT_EQ(request.status, IoStatus::ok);
    EXPECT_GE(Clock::now(), due);
    // The owner's function is back in its place: the request can be used again.
    told_.verdict.not_before = {};
    batch.add(device_, request);
    batch.wait();
    EXPECT_EQ(ended, 2);
  }
}

}  // namespace
}  // namespace zuse::vdev
