// Names and limits of rules.
#include "zinject/rule.h"

#include <fmt/format.h>

#include <array>
#include <utility>

namespace zuse::zinject {
namespace {

template <class T>
using Names = std::pair<T, const char*>;

constexpr std::array<Names<RuleKind>, 3> kKinds{
    {{RuleKind::device, "device"}, {RuleKind::label, "label"}, {RuleKind::delay, "delay"}}};
constexpr std::array<Names<FaultError>, 6> kErrors{{{FaultError::io, "io"},
                                                    {FaultError::nxio, "nxio"},
                                                    {FaultError::corrupt, "corrupt"},
                                                    {FaultError::dtl, "dtl"},
                                                    {FaultError::noop, "noop"},
                                                    {FaultError::io_prefail, "io-prefail"}}};
constexpr std::array<Names<IoType>, 6> kTypes{{{IoType::all, "all"},
                                               {IoType::read, "read"},
                                               {IoType::write, "write"},
                                               {IoType::trim, "trim"},
                                               {IoType::flush, "flush"},
                                               {IoType::probe, "probe"}}};
constexpr std::array<Names<LabelPart>, 4> kParts{{{LabelPart::nvlist, "nvlist"},
                                                  {LabelPart::uber, "uber"},
                                                  {LabelPart::pad1, "pad1"},
                                                  {LabelPart::pad2, "pad2"}}};

template <class Table, class T>
const char* name_in(const Table& table, T value) noexcept {
  for (const auto& [known, name] : table) {
    if (known == value) {
      return name;
    }
  }
  return "unknown";
}

template <class T, std::size_t Count>
std::optional<T> value_in(const std::array<Names<T>, Count>& table, const std::string& wanted) {
  for (const auto& [value, name] : table) {
    if (wanted == name) {
      return value;
    }
  }
  return std::nullopt;
}

}  // namespace

const char* to_string(RuleKind kind) noexcept {
  return name_in(kKinds, kind);
}
const char* to_string(FaultError error) noexcept {
  return name_in(kErrors, error);
}
const char* to_string(IoType type) noexcept {
  return name_in(kTypes, type);
}
const char* to_string(LabelPart part) noexcept {
  return name_in(kParts, part);
}
std::optional<RuleKind> rule_kind_of(const std::string& name) {
  return value_in(kKinds, name);
}
std::optional<FaultError> fault_error_of(const std::string& name) {
  return value_in(kErrors, name);
}
std::optional<IoType> io_type_of(const std::string& name) {
  return value_in(kTypes, name);
}
std::optional<LabelPart> label_part_of(const std::string& name) {
  return value_in(kParts, name);
}

Result<void> check(const Rule& rule) {
  if (!(rule.percent >= kPercentMin && rule.percent <= 100)) {
    return fail(Errc::invalid,
                fmt::format("a frequency is between {} and 100 percent", kPercentMin));
  }
  switch (rule.kind) {
    case RuleKind::device:
      if (rule.error == FaultError::corrupt && rule.type != IoType::read) {
        return fail(Errc::invalid, "the error corrupt is for reads: it needs -T read");
      }
      break;
    case RuleKind::label:
      if (rule.percent != 100 || rule.type != IoType::all || rule.fail_fast) {
        return fail(Errc::invalid, "a label fault takes no frequency, I/O type or -F");
      }
      break;
    case RuleKind::delay:
      if (rule.delay_ms == 0 || rule.delay_ms > kDelayMaxMs) {
        return fail(Errc::invalid, fmt::format("a delay is 1 to {} ms", kDelayMaxMs));
      }
      if (rule.lanes == 0 || rule.lanes > kLanesMax) {
        return fail(Errc::invalid, fmt::format("a delay has 1 to {} lanes", kLanesMax));
      }
      if (rule.type != IoType::all && rule.type != IoType::read && rule.type != IoType::write) {
        return fail(Errc::invalid, "a delay is for reads, writes or all");
      }
      if (rule.fail_fast) {
        return fail(Errc::invalid, "a delay takes no -F");
      }
      break;
  }
  return {};
}

std::vector<std::string> to_options(const Rule& rule) {
  std::vector<std::string> options;
  const auto add = [&](const char* option, std::string value) {
    options.emplace_back(option);
    options.push_back(std::move(value));
  };
  switch (rule.kind) {
    case RuleKind::device: add("-e", to_string(rule.error)); break;
    case RuleKind::label: add("-L", to_string(rule.label)); break;
    case RuleKind::delay: add("-D", fmt::format("{}:{}", rule.delay_ms, rule.lanes)); break;
  }
  if (rule.type != IoType::all) {
    add("-T", to_string(rule.type));
  }
  // The error that flips bits wants its frequency spelled out.
  if (rule.percent != 100 || (rule.kind == RuleKind::device && rule.error == FaultError::corrupt)) {
    add("-f", fmt::format("{}", rule.percent));
  }
  if (rule.fail_fast) {
    options.emplace_back("-F");
  }
  if (rule.seed) {
    add("--seed", fmt::format("{}", *rule.seed));
  }
  return options;
}

}  // namespace zuse::zinject
