// The injection engine: decides the fate of every request of a pool's leaves by the rules in force.
// Its draws come from one seeded stream a rule, so a failure is replayed by the seed that the rule
// reports, as far as requests come in the same order.
//
// source: the fault tool's facts, section 4 (what matches, and what is spared).
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "vdev/base/random.h"
#include "vdev/base/sync.h"
#include "vdev/fault_device.h"
#include "zinject/rule.h"

namespace zuse::zinject {

// One rule in force, as it is listed.
struct Handler {
  std::uint64_t id = 0;
  std::uint64_t leaf_guid = 0;
  Rule rule;                   // with its seed
  std::uint64_t matches = 0;   // requests that it was about
  std::uint64_t injected = 0;  // those it acted on
};

// One deed of a rule.
struct Injection {
  std::uint64_t number = 0;  // counts up from 1 over the engine's life
  std::uint64_t handler = 0;
  std::uint64_t leaf_guid = 0;
  std::string device;
  vdev::IoOp op = vdev::IoOp::read;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  std::string effect;  // "io", "corrupt bit=1234", "delay until_ms=25", "open"
};

// Injections that are remembered; older ones are in the log only.
inline constexpr std::size_t kInjectionsKept = 4096;

// Thread-safe. Rules are asked in the order they were added: of device and label rules, the first
// that matches and whose draw succeeds acts; a delay rule may act beside it.
class Engine final : public vdev::FaultInjector {
 public:
  using Clock = std::chrono::steady_clock;
  explicit Engine(std::function<Clock::time_point()> now = Clock::now);

  // Answers the new handler. Ids count up from 1 and are never used again.
  // errors: invalid (see check()).
  Result<Handler> add(std::uint64_t leaf_guid, Rule rule);
  // errors: not_found.
  Result<void> cancel(std::uint64_t id);
  // Answers the ids that were in force.
  std::vector<std::uint64_t> cancel_all();
  std::vector<Handler> list() const;
  // The newest injections, oldest first.
  std::vector<Injection> injections() const;

  vdev::Verdict on_start(const vdev::FaultContext& where, const vdev::IoRequest& request) override;
  void on_complete(const vdev::FaultContext& where, const vdev::Verdict& verdict,
                   vdev::IoRequest& request) override;
  bool refuses_open(std::uint64_t leaf_guid) override;

 private:
  struct Entry {
    Handler handler;
    Xorshift128Plus random;
    std::vector<Clock::time_point> lane_free;  // delay: when each lane is free
  };

  bool draw(Entry& entry) ZUSE_REQUIRES(mutex_);
  // Counts the deed; answers its record, to be logged without the lock.
  Injection note(Entry& entry, const std::string& device, const vdev::IoRequest& request,
                 std::string effect) ZUSE_REQUIRES(mutex_);
  void act(Entry& entry, const vdev::IoRequest& request, vdev::Verdict& verdict,
           std::string& effect) ZUSE_REQUIRES(mutex_);
  void delay(const vdev::FaultContext& where, const vdev::IoRequest& request,
             vdev::Verdict& verdict, std::vector<Injection>& done) ZUSE_REQUIRES(mutex_);

  const std::function<Clock::time_point()> now_;
  mutable Mutex mutex_{LockRank::fault_engine};
  std::map<std::uint64_t, Entry> entries_ ZUSE_GUARDED_BY(mutex_);  // by id
  std::uint64_t next_id_ ZUSE_GUARDED_BY(mutex_) = 1;
  std::uint64_t next_injection_ ZUSE_GUARDED_BY(mutex_) = 1;
  std::deque<Injection> injections_ ZUSE_GUARDED_BY(mutex_);
};

}  // namespace zuse::zinject
