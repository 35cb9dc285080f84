// Properties of datasets: names, values as people write them and as they lie on disk, defaults and
// inheritance. source: format page 07 section 5.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "fs/format/types.h"
#include "vdev/base/result.h"

namespace zuse::dataset {

// Where a value comes from, as `zfs get` prints it.
enum class PropertySource : std::uint8_t { none, local, inherited, defaulted, received, temporary };

struct PropertyValue {
  std::string text;          // as people read it: "lz4", "128K", "/tank"
  std::uint64_t number = 0;  // index and number properties
  PropertySource source = PropertySource::defaulted;
  std::string inherited_from;  // dataset name, where source is inherited
};

// All properties of one dataset, resolved.
class PropertySet {
 public:
  const PropertyValue* find(std::string_view name) const;
  std::uint64_t number(std::string_view name) const;  // 0 if absent
  std::string text(std::string_view name) const;      // "-" if absent
  std::map<std::string, PropertyValue, std::less<>>& all() noexcept { return values_; }
  const std::map<std::string, PropertyValue, std::less<>>& all() const noexcept { return values_; }

 private:
  std::map<std::string, PropertyValue, std::less<>> values_;
};

// How a property's value is stored and written.
enum class PropertyKind : std::uint8_t {
  index,     // one of a list of names, each with a number
  size,      // bytes; people write 128K, 1M
  text,      // a string (mountpoint)
  computed,  // not stored: used, available, creation ...
};

// One settable or computed dataset property. source: format page 07 section 5.2.
struct PropertyInfo {
  std::string_view name;
  PropertyKind kind = PropertyKind::computed;
  bool inheritable = false;
  std::uint64_t default_number = 0;
  std::string_view default_text = {};
};

// All native dataset properties, in the order in which `zfs get all` prints them.
std::span<const PropertyInfo> dataset_properties();
const PropertyInfo* find_property(std::string_view name);

// "lz4" -> 15, "128K" -> 131072. errors: invalid, with what is allowed; unsupported, for values
// that zuse does not write (checksum=blake3).
Result<std::uint64_t> parse_property(const PropertyInfo& property, std::string_view text);
// The reverse; sizes as people read them ("128K"), exact numbers if `exact`.
std::string format_property(const PropertyInfo& property, std::uint64_t number, bool exact = false);

// "1.50G", "480M", "0": three digits and a suffix, as zpool and zfs print sizes.
std::string format_size(std::uint64_t bytes);
// "128K", "1.5G", "131072" -> bytes. errors: invalid.
Result<std::uint64_t> parse_size(std::string_view text);

// The algorithm and level that a stored compression property means; "on" is resolved to `on`.
format::CompressionChoice compression_choice(std::uint64_t stored, format::Compression on);

}  // namespace zuse::dataset
