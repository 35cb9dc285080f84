// Features: additions to the format that a version 5000 pool says it uses, by guid. The table of
// all that we know of, and what zuse can do with a pool in which each is active. source: format
// page 04 section 2.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace zuse::format {

// What zuse does when a feature is *active*.
enum class FeatureSupport : std::uint8_t {
  none,  // cannot read: the pool (for a per-dataset feature: the dataset) is refused
  read,  // can read it, must not write
  read_write,
};

struct Feature {
  std::string_view guid;              // "org.illumos:lz4_compress"
  std::string_view name;              // "lz4_compress", as in the property feature@lz4_compress
  bool read_only_compatible = false;  // listed in features_for_write
  bool mos = false;                   // listed in labels while active
  bool activate_on_enable = false;    // count 1 from the start
  bool per_dataset = false;           // datasets list it, the pool counts them
  FeatureSupport support = FeatureSupport::none;
  std::array<std::string_view, 3> dependencies{};  // guids; empty ones: none
  std::string_view description;
};

// All, in an order in which dependencies come first.
std::span<const Feature> all_features() noexcept;
// Null: a feature that we do not know, which no one may read.
const Feature* find_feature(std::string_view guid) noexcept;
const Feature* find_feature_by_name(std::string_view name) noexcept;

// Whether a pool with this feature active may be opened for reading, or also for writing. A
// per-dataset feature without support does not stop the pool, only its datasets. Unknown guids:
// `read_only_compatible` (which object listed it) decides about reading.
bool pool_may_read(std::string_view guid, bool read_only_compatible) noexcept;
bool pool_may_write(std::string_view guid) noexcept;

}  // namespace zuse::format
