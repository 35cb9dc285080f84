// ScanPhys: where a scrub or resilver stands: 24 integers under the name `scan` in the MOS's object
// directory. A ZAP holds integers, so there is no byte order here. source: format page 04
// section 8.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "vdev/base/result.h"

namespace zuse::format {

inline constexpr std::size_t kScanWords = 24;
inline constexpr std::uint64_t kScanFlagVisitAgain = 1;
inline constexpr std::uint64_t kScanFlagPaused = 2;
inline constexpr std::uint64_t kScanFlagThorough = 4;

enum class ScanFunction : std::uint64_t { none = 0, scrub = 1, resilver = 2, error_scrub = 3 };
enum class ScanState : std::uint64_t {
  none = 0,
  scanning = 1,
  finished = 2,
  canceled = 3,
  error_scrubbing = 4
};

struct ScanPhys {
  ScanFunction function = ScanFunction::none;
  ScanState state = ScanState::none;
  std::uint64_t queue = 0;                 // object; 0 when not scanning
  std::uint64_t min_txg = 0, max_txg = 0;  // both exclusive
  std::uint64_t dataset_min_txg = 0, dataset_max_txg = 0;
  std::uint64_t start_time = 0, end_time = 0;               // Unix seconds
  std::uint64_t to_examine = 0, examined = 0, skipped = 0;  // bytes
  std::uint64_t processed = 0;                              // bytes repaired
  std::uint64_t errors = 0;
  std::uint64_t ddt_class_max = 0;
  std::array<std::uint64_t, 4> ddt_bookmark{};
  // The next block to visit. level is signed: -1 is the objset block.
  std::uint64_t objset = 0, object = 0, level = 0, block = 0;
  std::uint64_t flags = 0;
  bool operator==(const ScanPhys&) const = default;
};

// shape: 24 words; fewer (older pools) leave the rest 0. errors: corrupt (none at all); unsupported
// (a function or state that we do not know; said which).
Result<ScanPhys> decode_scan(std::span<const std::uint64_t> words);
std::array<std::uint64_t, kScanWords> encode_scan(const ScanPhys& scan);

}  // namespace zuse::format
