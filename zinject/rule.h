// The rule language: what a fault rule says, and how it is written on the command line. A rule is
// about one leaf; the leaf's name and its pool are the command's, not the rule's.
//
// source: the fault tool's facts, sections 1 to 3 (options and limits of zinject(8)).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "vdev/base/result.h"

namespace zuse::zinject {

// What a rule does.
enum class RuleKind : std::uint8_t {
  device,  // an error, a lost request or a flipped bit
  label,   // an error in one region of every label
  delay,   // a least time for each request
};

enum class FaultError : std::uint8_t {
  io,          // carried out, then reported as failed
  nxio,        // the device is gone: nothing is carried out, opening it fails too
  corrupt,     // one random bit of what was read is flipped; no error
  dtl,         // carried out, then reported as failed, for tests of missed writes
  noop,        // not carried out, reported as done
  io_prefail,  // not carried out, reported as failed
};

enum class IoType : std::uint8_t { all, read, write, trim, flush, probe };

enum class LabelPart : std::uint8_t { nvlist, uber, pad1, pad2 };

struct Rule {
  RuleKind kind = RuleKind::device;
  FaultError error = FaultError::nxio;  // device only
  IoType type = IoType::all;            // device and delay; delay: all, read or write
  LabelPart label = LabelPart::nvlist;  // label only
  double percent = 100;                 // chance of each match, (0, 100]
  bool fail_fast = false;               // spares repairs and the opening of the device
  std::uint64_t delay_ms = 0;           // delay only, > 0
  unsigned lanes = 0;                   // delay only: 1 .. 65534 requests are served side by side
  std::optional<std::uint64_t> seed;    // of the rule's draws; absent: from the kernel

  bool operator==(const Rule&) const = default;
};

inline constexpr double kPercentMin = 0.0001;
inline constexpr unsigned kLanesMax = 65534;
// A day: what is longer is a slip of the finger, and would hang the pool for good.
inline constexpr std::uint64_t kDelayMaxMs = 24ULL * 60 * 60 * 1000;

// Names as on the command line: "io-prefail", "read", "uber", "device".
const char* to_string(RuleKind kind) noexcept;
const char* to_string(FaultError error) noexcept;
const char* to_string(IoType type) noexcept;
const char* to_string(LabelPart part) noexcept;
std::optional<RuleKind> rule_kind_of(const std::string& name);
std::optional<FaultError> fault_error_of(const std::string& name);
std::optional<IoType> io_type_of(const std::string& name);
std::optional<LabelPart> label_part_of(const std::string& name);

// Whether the parts of a rule go together. errors: invalid, with a sentence.
Result<void> check(const Rule& rule);

// The options that make this rule again: {"-e", "io", "-T", "read", "-f", "50"}.
std::vector<std::string> to_options(const Rule& rule);

}  // namespace zuse::zinject
