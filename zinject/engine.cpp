// Matching, drawing and acting. All of it under one lock that is held for a few comparisons; the
// log is written after it.
//
// A delay has lanes, each of which serves one request at a time: with a delay of 10 ms and two
// lanes, requests that arrive together end at 10, 10, 20, 20 ms and so on. All delay rules that
// match put their lanes together, and a request takes the lane that would end it soonest.
#include "zinject/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "vdev/base/log.h"
#include "vdev/base/units.h"

namespace zuse::zinject {
namespace {

using vdev::FaultContext;
using vdev::IoOp;
using vdev::IoPurpose;
using vdev::IoRequest;
using vdev::IoStatus;
using vdev::Verdict;

// Where the labels are. source: format page 01 (layout of a leaf) and 03 section 1.
constexpr std::uint64_t kLabelSize = 256 * kKiB;
constexpr std::uint64_t kFrontArea = 4 * kMiB;
constexpr std::uint64_t kBackArea = 2 * kLabelSize;

// What on_complete() does.
constexpr std::uint64_t kEffectFail = 1;
constexpr std::uint64_t kEffectFlip = 2;

spdlog::logger& log() {
  static spdlog::logger& logger = layer_log("zinject");
  return logger;
}

struct Range {
  std::uint64_t first;
  std::uint64_t end;
};

bool overlap(Range left, Range right) noexcept {
  return left.first < right.end && right.first < left.end;
}

Range range_of(const IoRequest& request) noexcept {
  const std::uint64_t length = request.size();
  return {request.offset, length > ~request.offset ? ~std::uint64_t{0} : request.offset + length};
}

// The back labels end at the last whole label of the device.
std::uint64_t back_area(std::uint64_t device_size) noexcept {
  const std::uint64_t end = round_down(device_size, kLabelSize);
  return end > kBackArea ? end - kBackArea : 0;
}

bool in_label_area(const FaultContext& where, const IoRequest& request) noexcept {
  const Range range = range_of(request);
  return overlap(range, {0, kFrontArea}) ||
         overlap(range, {back_area(where.device_size), ~std::uint64_t{0}});
}

Range part_of_label(LabelPart part) noexcept {
  switch (part) {
    case LabelPart::pad1: return {0, 8 * kKiB};
    case LabelPart::pad2: return {8 * kKiB, 16 * kKiB};
    case LabelPart::nvlist: return {16 * kKiB, 128 * kKiB};
    case LabelPart::uber: return {128 * kKiB, 256 * kKiB};
  }
  return {0, 0};
}

bool touches_label_part(const FaultContext& where, const IoRequest& request, LabelPart part) {
  const Range range = range_of(request);
  const Range inside = part_of_label(part);
  const std::uint64_t back = back_area(where.device_size);
  const std::array<std::uint64_t, 4> labels{0, kLabelSize, back, back + kLabelSize};
  return std::any_of(labels.begin(), labels.end(), [&](std::uint64_t label) {
    return overlap(range, {label + inside.first, label + inside.end});
  });
}

bool type_matches(IoType type, const IoRequest& request) noexcept {
  // A probe is only what was asked for as such: "all" would keep every faulted leaf from ever
  // being found healthy again.
  if (request.purpose == IoPurpose::probe) {
    return type == IoType::probe;
  }
  switch (type) {
    case IoType::all: return true;
    case IoType::read: return request.op == IoOp::read;
    case IoType::write: return request.op == IoOp::write;
    case IoType::trim: return request.op == IoOp::discard;
    case IoType::flush: return request.op == IoOp::flush;
    case IoType::probe: return false;
  }
  return false;
}

bool matches(const Handler& handler, const FaultContext& where, const IoRequest& request) {
  const Rule& rule = handler.rule;
  if (handler.leaf_guid != where.leaf_guid) {
    return false;
  }
  if (rule.kind == RuleKind::label) {
    return (request.op == IoOp::read || request.op == IoOp::write) &&
           touches_label_part(where, request, rule.label);
  }
  if (!type_matches(rule.type, request)) {
    return false;
  }
  if (rule.kind == RuleKind::delay) {
    return true;
  }
  const bool probe = request.purpose == IoPurpose::probe;
  if (request.op != IoOp::flush && !probe && in_label_area(where, request)) {
    return false;
  }
  const bool repair = request.purpose == IoPurpose::repair;
  return !(repair && (rule.fail_fast || rule.error == FaultError::io_prefail));
}

void tell(const Injection& injection) {
  log().info("fault_injected handler={} leaf={} device={} op={} offset={} length={} effect={}",
             injection.handler, injection.leaf_guid, injection.device,
             vdev::to_string(injection.op), injection.offset, injection.length, injection.effect);
}

}  // namespace

Engine::Engine(std::function<Clock::time_point()> now) : now_(std::move(now)) {}

Result<Handler> Engine::add(std::uint64_t leaf_guid, Rule rule) {
  ZUSE_TRY_VOID(check(rule));
  if (!rule.seed) {
    // 53 bits: a number that every JSON reader keeps exact.
    rule.seed = bits(secure_random_u64(), 0, 53);
  }
  Handler added;
  {
    const LockGuard guard(mutex_);
    Entry entry{.handler = {}, .random = Xorshift128Plus(*rule.seed), .lane_free = {}};
    entry.handler.id = next_id_++;
    entry.handler.leaf_guid = leaf_guid;
    entry.handler.rule = rule;
    entry.lane_free.assign(rule.kind == RuleKind::delay ? rule.lanes : 0, Clock::time_point{});
    added = entry.handler;
    entries_.emplace(added.id, std::move(entry));
    set_active(true);
  }
  log().info("rule_added handler={} leaf={} options=\"{}\"", added.id, leaf_guid,
             fmt::join(to_options(rule), " "));
  return added;
}

Result<void> Engine::cancel(std::uint64_t id) {
  {
    const LockGuard guard(mutex_);
    if (entries_.erase(id) == 0) {
      return fail(Errc::not_found, fmt::format("no handler has the id {}", id));
    }
    set_active(!entries_.empty());
  }
  log().info("rule_cancelled handler={}", id);
  return {};
}

std::vector<std::uint64_t> Engine::cancel_all() {
  std::vector<std::uint64_t> ids;
  {
    const LockGuard guard(mutex_);
    for (const auto& [id, entry] : entries_) {
      ids.push_back(id);
    }
    entries_.clear();
    set_active(false);
  }
  log().info("rules_cancelled count={}", ids.size());
  return ids;
}

std::vector<Handler> Engine::list() const {
  const LockGuard guard(mutex_);
  std::vector<Handler> handlers;
  for (const auto& [id, entry] : entries_) {
    handlers.push_back(entry.handler);
  }
  return handlers;
}

std::vector<Injection> Engine::injections() const {
  const LockGuard guard(mutex_);
  return {injections_.begin(), injections_.end()};
}

bool Engine::draw(Entry& entry) {
  const double percent = entry.handler.rule.percent;
  return percent >= 100 || entry.random.unit() * 100 < percent;
}

Injection Engine::note(Entry& entry, const std::string& device, const IoRequest& request,
                       std::string effect) {
  ++entry.handler.injected;
  Injection injection;
  injection.number = next_injection_++;
  injection.handler = entry.handler.id;
  injection.leaf_guid = entry.handler.leaf_guid;
  injection.device = device;
  injection.op = request.op;
  injection.offset = request.offset;
  injection.length = request.size();
  injection.effect = std::move(effect);
  if (injections_.size() == kInjectionsKept) {
    injections_.pop_front();
  }
  injections_.push_back(injection);
  return injection;
}

// The deed of a device or label rule.
void Engine::act(Entry& entry, const IoRequest& request, Verdict& verdict, std::string& effect) {
  const Rule& rule = entry.handler.rule;
  verdict.rule = entry.handler.id;
  effect = rule.kind == RuleKind::label ? fmt::format("label {}", to_string(rule.label))
                                        : to_string(rule.error);
  const auto fail_afterwards = [&] {
    verdict.wants_completion = true;
    verdict.effect = kEffectFail;
  };
  const auto answer = [&](IoStatus status) {
    verdict.action = Verdict::Action::answer;
    verdict.status = status;
  };
  if (rule.kind == RuleKind::label) {
    fail_afterwards();
    return;
  }
  switch (rule.error) {
    case FaultError::io:
    case FaultError::dtl: fail_afterwards(); break;
    case FaultError::nxio:
      answer(request.purpose == IoPurpose::probe ? IoStatus::gone : IoStatus::io_error);
      break;
    case FaultError::noop: answer(IoStatus::ok); break;
    case FaultError::io_prefail: answer(IoStatus::io_error); break;
    case FaultError::corrupt:
      verdict.wants_completion = true;
      verdict.effect = kEffectFlip;
      verdict.detail = entry.random.bounded(std::max<std::uint64_t>(request.data.size(), 1) * 8);
      effect += fmt::format(" bit={}", verdict.detail);
      break;
  }
}

void Engine::delay(const FaultContext& where, const IoRequest& request, Verdict& verdict,
                   std::vector<Injection>& done) {
  Entry* chosen = nullptr;
  std::size_t lane = 0;
  Clock::time_point soonest{};
  const Clock::time_point now = now_();
  for (auto& [id, entry] : entries_) {
    Handler& handler = entry.handler;
    if (handler.rule.kind != RuleKind::delay || !matches(handler, where, request)) {
      continue;
    }
    ++handler.matches;
    if (!draw(entry)) {
      continue;
    }
    const auto free = std::min_element(entry.lane_free.begin(), entry.lane_free.end());
    const Clock::time_point end =
        std::max(now, *free) + std::chrono::milliseconds(handler.rule.delay_ms);
    if (chosen == nullptr || end < soonest) {
      chosen = &entry;
      lane = static_cast<std::size_t>(free - entry.lane_free.begin());
      soonest = end;
    }
  }
  if (chosen == nullptr) {
    return;
  }
  chosen->lane_free[lane] = soonest;
  verdict.not_before = soonest;
  const auto wait = std::chrono::duration_cast<std::chrono::milliseconds>(soonest - now).count();
  done.push_back(note(*chosen, *where.device_name, request, fmt::format("delay ms={}", wait)));
}

Verdict Engine::on_start(const FaultContext& where, const IoRequest& request) {
  Verdict verdict;
  std::vector<Injection> done;
  {
    const LockGuard guard(mutex_);
    for (auto& [id, entry] : entries_) {
      if (entry.handler.rule.kind == RuleKind::delay || !matches(entry.handler, where, request)) {
        continue;
      }
      ++entry.handler.matches;
      if (!draw(entry)) {
        continue;
      }
      std::string effect;
      act(entry, request, verdict, effect);
      done.push_back(note(entry, *where.device_name, request, std::move(effect)));
      break;
    }
    delay(where, request, verdict, done);
  }
  for (const Injection& injection : done) {
    tell(injection);
  }
  return verdict;
}

void Engine::on_complete(const FaultContext& /*where*/, const Verdict& verdict,
                         IoRequest& request) {
  if (verdict.effect == kEffectFail) {
    request.status = IoStatus::io_error;
  } else if (verdict.effect == kEffectFlip && request.status == IoStatus::ok) {
    const std::uint64_t byte = verdict.detail / 8;
    if (byte < request.data.size()) {
      request.data[byte] ^= std::byte{1} << (verdict.detail % 8);
    }
  }
}

bool Engine::refuses_open(std::uint64_t leaf_guid) {
  if (!active()) {
    return false;
  }
  std::vector<Injection> done;
  {
    const LockGuard guard(mutex_);
    for (auto& [id, entry] : entries_) {
      const Rule& rule = entry.handler.rule;
      if (entry.handler.leaf_guid != leaf_guid || rule.kind != RuleKind::device ||
          rule.error != FaultError::nxio || rule.fail_fast) {
        continue;
      }
      ++entry.handler.matches;
      if (draw(entry)) {
        done.push_back(note(entry, std::string(), IoRequest{}, "open"));
        break;
      }
    }
  }
  for (const Injection& injection : done) {
    tell(injection);
  }
  return !done.empty();
}

}  // namespace zuse::zinject
