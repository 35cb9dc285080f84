// The engine on fault devices over memory, as a pool would use it.
#include "zinject/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <deque>
#include <memory>
#include <numeric>
#include <vector>

#include "tests/support/seed.h"
#include "vdev/base/units.h"
#include "vdev/memory_device.h"

namespace zuse::zinject {
namespace {

using vdev::IoOp;
using vdev::IoPurpose;
using vdev::IoRequest;
using vdev::IoStatus;

constexpr std::uint64_t kSize = 64 * kMiB;
constexpr std::uint64_t kInside = 8 * kMiB;  // in the allocatable area
constexpr std::uint64_t kLeaf = 42;

Rule device_rule(FaultError error, IoType type = IoType::all) {
  Rule rule;
  rule.error = error;
  rule.type = type;
  rule.seed = test::seed();
  return rule;
}

class EngineTest : public testing::Test {
 protected:
  EngineTest() { EXPECT_TRUE(device_.write(kInside, std::vector(4096, std::byte{0x5a}))); }

  IoStatus run(IoOp op, std::uint64_t offset, IoPurpose purpose = IoPurpose::normal) {
    buffer_.assign(512, std::byte{1});
    IoRequest request;
    request.op = op;
    request.offset = op == IoOp::flush ? 0 : offset;
    request.purpose = purpose;
    if (op == IoOp::discard) {
      request.length = 512;
    } else if (op != IoOp::flush) {
      request.data = buffer_;
    }
    vdev::IoBatch batch;
    batch.add(device_, request);
    batch.wait();
    return request.status;
  }
  std::byte stored(std::uint64_t offset) {
    std::vector<std::byte> one(1);
    dynamic_cast<vdev::MemoryDevice&>(device_.inner()).image().read(offset, one);
    return one[0];
  }
  std::uint64_t add(const Rule& rule, std::uint64_t leaf = kLeaf) {
    const auto handler = engine_.add(leaf, rule);
    EXPECT_TRUE(handler) << handler.error().what();
    return handler ? handler->id : 0;
  }

  const testing::ScopedTrace trace_{__FILE__, __LINE__, test::rerun()};
  std::vector<std::byte> buffer_;
  Engine engine_;
  vdev::FaultDevice device_{std::make_unique<vdev::MemoryDevice>(kSize), engine_, kLeaf};
};

TEST_F(EngineTest, IoFailsAfterTheDeviceHasDoneIt) {
  add(device_rule(FaultError::io));
  EXPECT_EQ(run(IoOp::write, kInside), IoStatus::io_error);
  EXPECT_EQ(stored(kInside), std::byte{1});
  EXPECT_EQ(run(IoOp::read, kInside), IoStatus::io_error);
  EXPECT_EQ(run(IoOp::flush, 0), IoStatus::io_error);
  EXPECT_FALSE(engine_.refuses_open(kLeaf));
}

TEST_F(EngineTest, NoopReportsSuccessAndDoesNothing) {
  add(device_rule(FaultError::noop));
  EXPECT_EQ(run(IoOp::write, kInside), IoStatus::ok);
  EXPECT_EQ(stored(kInside), std::byte{0x5a});
  EXPECT_EQ(run(IoOp::read, kInside), IoStatus::ok);
  EXPECT_EQ(buffer_[0], std::byte{1}) << "the buffer stays as it was";
}

TEST_F(EngineTest, IoPrefailDoesNothingAndFailsButSparesRepairs) {
  add(device_rule(FaultError::io_prefail));
  EXPECT_EQ(run(IoOp::write, kInside), IoStatus::io_error);
  EXPECT_EQ(stored(kInside), std::byte{0x5a});
  EXPECT_EQ(run(IoOp::write, kInside, IoPurpose::repair), IoStatus::ok);
  EXPECT_EQ(stored(kInside), std::byte{1});
}

TEST_F(EngineTest, NxioRefusesToOpenUnlessFailFast) {
  const auto id = add(device_rule(FaultError::nxio));
  EXPECT_EQ(run(IoOp::read, kInside), IoStatus::io_error);
  EXPECT_TRUE(engine_.refuses_open(kLeaf));
  EXPECT_FALSE(engine_.refuses_open(kLeaf + 1));
  EXPECT_EQ(run(IoOp::read, 0, IoPurpose::probe), IoStatus::ok) << "all does not mean probes";
  ASSERT_TRUE(engine_.cancel(id));
  Rule fast = device_rule(FaultError::nxio);
  fast.fail_fast = true;
  add(fast);
  EXPECT_FALSE(engine_.refuses_open(kLeaf));
  EXPECT_EQ(run(IoOp::read, kInside, IoPurpose::repair), IoStatus::ok);
  add(device_rule(FaultError::nxio, IoType::probe));
  EXPECT_EQ(run(IoOp::read, 0, IoPurpose::probe), IoStatus::gone);
}

TEST_F(EngineTest, CorruptFlipsExactlyOneBitOfEachRead) {
  add(device_rule(FaultError::corrupt, IoType::read));
  std::vector<int> flipped(512 * 8);
  for (int round = 0; round < 200; ++round) {
    ASSERT_EQ(run(IoOp::read, kInside), IoStatus::ok);
    int bits_wrong = 0;
    for (std::size_t i = 0; i < buffer_.size(); ++i) {
      const auto wrong = static_cast<std::uint8_t>(buffer_[i] ^ std::byte{0x5a});
      bits_wrong += std::popcount(wrong);
      if (wrong != 0) {
        ++flipped[i * 8 + static_cast<std::size_t>(std::countr_zero(wrong))];
      }
    }
    ASSERT_EQ(bits_wrong, 1);
  }
  const auto places = std::count_if(flipped.begin(), flipped.end(), [](int n) { return n > 0; });
  EXPECT_GT(places, 150) << "the place is drawn anew";
  EXPECT_EQ(stored(kInside), std::byte{0x5a});
}

TEST_F(EngineTest, LabelAreasAreSparedButForFlushes) {
  add(device_rule(FaultError::io));
  EXPECT_EQ(run(IoOp::read, 0), IoStatus::ok);
  EXPECT_EQ(run(IoOp::read, 4 * kMiB - 512), IoStatus::ok);
  EXPECT_EQ(run(IoOp::read, 4 * kMiB), IoStatus::io_error);
  EXPECT_EQ(run(IoOp::read, kSize - 512 * kKiB - 512), IoStatus::io_error);
  EXPECT_EQ(run(IoOp::read, kSize - 512 * kKiB), IoStatus::ok);
  EXPECT_EQ(run(IoOp::write, kSize - 512), IoStatus::ok);
  EXPECT_EQ(run(IoOp::flush, 0), IoStatus::io_error);
}

TEST_F(EngineTest, LabelFaultsCoverTheirPartOfAllFourLabels) {
  struct Part {
    LabelPart part;
    std::uint64_t first, end;
  };
  const Part parts[] = {{LabelPart::pad1, 0, 8 * kKiB},
                        {LabelPart::pad2, 8 * kKiB, 16 * kKiB},
                        {LabelPart::nvlist, 16 * kKiB, 128 * kKiB},
                        {LabelPart::uber, 128 * kKiB, 256 * kKiB}};
  for (const Part& part : parts) {
    Rule rule;
    rule.kind = RuleKind::label;
    rule.label = part.part;
    const auto id = add(rule);
    for (const std::uint64_t label :
         {std::uint64_t{0}, 256 * kKiB, kSize - 512 * kKiB, kSize - 256 * kKiB}) {
      EXPECT_EQ(run(IoOp::read, label + part.first, IoPurpose::label), IoStatus::io_error);
      EXPECT_EQ(run(IoOp::write, label + part.end - 512, IoPurpose::label), IoStatus::io_error);
      if (part.end < 256 * kKiB) {
        EXPECT_EQ(run(IoOp::read, label + part.end, IoPurpose::label), IoStatus::ok);
      }
      if (part.first > 0) {
        EXPECT_EQ(run(IoOp::read, label + part.first - 512, IoPurpose::label), IoStatus::ok);
      }
    }
    EXPECT_EQ(run(IoOp::read, kInside), IoStatus::ok);
    ASSERT_TRUE(engine_.cancel(id));
  }
}

TEST_F(EngineTest, TypesSelectTheirRequestsOnly) {
  const IoOp ops[] = {IoOp::read, IoOp::write, IoOp::flush, IoOp::discard};
  const IoType types[] = {IoType::read, IoType::write, IoType::flush, IoType::trim};
  for (std::size_t chosen = 0; chosen < 4; ++chosen) {
    const auto id = add(device_rule(FaultError::io, types[chosen]));
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(run(ops[i], kInside), i == chosen ? IoStatus::io_error : IoStatus::ok);
    }
    ASSERT_TRUE(engine_.cancel(id));
  }
}

TEST_F(EngineTest, OtherLeavesAreLeftAlone) {
  add(device_rule(FaultError::io), kLeaf + 1);
  EXPECT_EQ(run(IoOp::read, kInside), IoStatus::ok);
  EXPECT_EQ(engine_.list().front().matches, 0U);
}

TEST_F(EngineTest, TheFirstRuleThatActsWinsAndCountsTell) {
  add(device_rule(FaultError::noop, IoType::write));
  add(device_rule(FaultError::io));
  EXPECT_EQ(run(IoOp::write, kInside), IoStatus::ok);
  EXPECT_EQ(run(IoOp::read, kInside), IoStatus::io_error);
  const auto handlers = engine_.list();
  ASSERT_EQ(handlers.size(), 2U);
  EXPECT_EQ(handlers[0].matches, 1U);
  EXPECT_EQ(handlers[0].injected, 1U);
  EXPECT_EQ(handlers[1].matches, 1U);
  EXPECT_EQ(handlers[1].injected, 1U);
}

TEST_F(EngineTest, AFrequencyIsKeptToAndReplayedByItsSeed) {
  Rule rule = device_rule(FaultError::io, IoType::read);
  rule.percent = 30;
  const auto outcomes = [&] {
    const auto id = add(rule);
    std::vector<bool> failed;
    for (int i = 0; i < 4000; ++i) {
      failed.push_back(run(IoOp::read, kInside) != IoStatus::ok);
    }
    const Handler handler = engine_.list().front();
    EXPECT_EQ(handler.matches, 4000U);
    EXPECT_EQ(handler.injected,
              static_cast<std::uint64_t>(std::count(failed.begin(), failed.end(), true)));
    EXPECT_TRUE(engine_.cancel(id));
    return failed;
  };
  const auto first = outcomes();
  const auto hits = static_cast<double>(std::count(first.begin(), first.end(), true));
  // Six standard deviations: sqrt(4000 * 0.3 * 0.7) is 29.
  EXPECT_NEAR(hits, 1200, 6 * 29);
  EXPECT_EQ(first, outcomes());
  rule.seed = *rule.seed + 1;
  EXPECT_NE(first, outcomes());
}

TEST_F(EngineTest, IdsCountUpAndAreNeverUsedAgain) {
  EXPECT_EQ(add(device_rule(FaultError::io)), 1U);
  EXPECT_EQ(add(device_rule(FaultError::io)), 2U);
  ASSERT_TRUE(engine_.cancel(2));
  EXPECT_EQ(engine_.cancel(2).error().code(), Errc::not_found);
  EXPECT_EQ(add(device_rule(FaultError::io)), 3U);
  EXPECT_EQ(engine_.cancel_all(), (std::vector<std::uint64_t>{1, 3}));
  EXPECT_FALSE(engine_.active());
  EXPECT_EQ(add(device_rule(FaultError::io)), 4U);
  EXPECT_TRUE(engine_.active());
}

TEST_F(EngineTest, RulesThatCannotBeAreRefused) {
  EXPECT_EQ(engine_.add(kLeaf, device_rule(FaultError::corrupt)).error().code(), Errc::invalid);
  Rule rule;
  rule.percent = 0;
  EXPECT_FALSE(engine_.add(kLeaf, rule));
  rule.percent = std::nan("");
  EXPECT_FALSE(engine_.add(kLeaf, rule));
  rule = {};
  rule.kind = RuleKind::delay;
  EXPECT_FALSE(engine_.add(kLeaf, rule));
  EXPECT_FALSE(engine_.active());
}

TEST_F(EngineTest, ARuleWithoutSeedReportsTheOneItDrew) {
  Rule rule;
  const auto handler = engine_.add(kLeaf, rule);
  ASSERT_TRUE(handler);
  EXPECT_TRUE(handler->rule.seed.has_value());
}

TEST_F(EngineTest, EveryInjectionIsRememberedWithItsHandler) {
  const auto id = add(device_rule(FaultError::io, IoType::read));
  run(IoOp::read, kInside);
  run(IoOp::write, kInside);
  run(IoOp::read, kInside + 512);
  const auto injections = engine_.injections();
  ASSERT_EQ(injections.size(), 2U);
  EXPECT_EQ(injections[1].handler, id);
  EXPECT_EQ(injections[1].offset, kInside + 512);
  EXPECT_EQ(injections[1].length, 512U);
  EXPECT_EQ(injections[1].effect, "io");
  EXPECT_EQ(injections[1].device, "memory");
}

TEST_F(EngineTest, CancelledBetweenStartAndCompletionIsHarmless) {
  const auto id = add(device_rule(FaultError::corrupt, IoType::read));
  std::vector<std::byte> bytes(512);
  IoRequest request;
  request.data = bytes;
  request.offset = kInside;
  const std::string name = "disk";
  const vdev::FaultContext where{.leaf_guid = kLeaf, .device_name = &name, .device_size = kSize};
  const auto verdict = engine_.on_start(where, request);
  ASSERT_TRUE(engine_.cancel(id));
  request.status = IoStatus::ok;
  engine_.on_complete(where, verdict, request);
  EXPECT_EQ(request.status, IoStatus::ok);
}

// Delays on a clock that stands still, so that the sums are exact.
class DelayTest : public testing::Test {
 protected:
  std::int64_t end_of_request(IoOp op = IoOp::read) {
    std::vector<std::byte> bytes(512);
    IoRequest request;
    request.op = op;
    request.offset = kInside;
    request.data = bytes;
    const auto verdict = engine_.on_start(where_, request);
    if (verdict.not_before == Engine::Clock::time_point{}) {
      return 0;
    }
    return std::chrono::duration_cast<std::chrono::milliseconds>(verdict.not_before - start_)
        .count();
  }
  void add(std::uint64_t delay_ms, unsigned lanes, IoType type = IoType::all) {
    Rule rule;
    rule.kind = RuleKind::delay;
    rule.delay_ms = delay_ms;
    rule.lanes = lanes;
    rule.type = type;
    ASSERT_TRUE(engine_.add(kLeaf, rule));
  }
  const std::string name_ = "disk";
  const vdev::FaultContext where_{.leaf_guid = kLeaf, .device_name = &name_, .device_size = kSize};
  const Engine::Clock::time_point start_ = Engine::Clock::now();
  Engine::Clock::time_point now_ = start_;
  Engine engine_{[this] { return now_; }};
};

TEST_F(DelayTest, OneLaneServesOneAtATime) {
  add(10, 1);
  EXPECT_EQ(end_of_request(), 10);
  EXPECT_EQ(end_of_request(), 20);
  now_ += std::chrono::milliseconds(100);
  EXPECT_EQ(end_of_request(), 110);
}

TEST_F(DelayTest, LanesServeSideBySide) {
  add(25, 2);
  EXPECT_EQ(end_of_request(), 25);
  EXPECT_EQ(end_of_request(), 25);
  EXPECT_EQ(end_of_request(), 50);
  EXPECT_EQ(end_of_request(), 50);
}

TEST_F(DelayTest, SeveralDelaysAddTheirLanesAndTheSoonestIsTaken) {
  add(10, 1);
  add(25, 2);
  std::vector<std::int64_t> ends;
  for (int i = 0; i < 6; ++i) {
    ends.push_back(end_of_request());
  }
  // 10 and 20 by the fast lane, then all three lanes by who would end first.
  EXPECT_EQ(ends, (std::vector<std::int64_t>{10, 20, 25, 25, 30, 40}));
  const auto handlers = engine_.list();
  EXPECT_EQ(handlers[0].injected, 4U);
  EXPECT_EQ(handlers[1].injected, 2U);
  EXPECT_EQ(handlers[0].matches, 6U);
}

TEST_F(DelayTest, OnlyTheTypeAskedForIsLate) {
  add(10, 1, IoType::write);
  EXPECT_EQ(end_of_request(IoOp::read), 0);
  EXPECT_EQ(end_of_request(IoOp::write), 10);
}

TEST_F(EngineTest, DelayedRequestsTakeTheirTimeOnTheRealClock) {
  Rule rule;
  rule.kind = RuleKind::delay;
  rule.delay_ms = 10;
  rule.lanes = 2;
  add(rule);
  std::deque<IoRequest> requests(4);
  std::vector<std::byte> bytes(512);
  const auto start = Engine::Clock::now();
  vdev::IoBatch batch;
  for (IoRequest& request : requests) {
    request.offset = kInside;
    request.data = bytes;
    batch.add(device_, request);
  }
  batch.wait();
  EXPECT_GE(Engine::Clock::now() - start, std::chrono::milliseconds(20));
  for (const IoRequest& request : requests) {
    EXPECT_EQ(request.status, IoStatus::ok);
  }
}

TEST_F(DelayTest, AFaultAndADelayActTogether) {
  add(10, 1);
  ASSERT_TRUE(engine_.add(kLeaf, device_rule(FaultError::io_prefail)));
  std::vector<std::byte> bytes(512);
  IoRequest request;
  request.offset = kInside;
  request.data = bytes;
  const auto verdict = engine_.on_start(where_, request);
  EXPECT_EQ(verdict.action, vdev::Verdict::Action::answer);
  EXPECT_EQ(verdict.status, IoStatus::io_error);
  EXPECT_EQ(verdict.not_before, start_ + std::chrono::milliseconds(10));
}

}  // namespace
}  // namespace zuse::zinject
