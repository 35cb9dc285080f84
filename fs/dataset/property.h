// Properties of datasets: names, values as people write them and as they lie on disk, defaults and
// inheritance. source: format page 07 section 5.
#pragma once

#include <cstdint>
#include <map>
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

}  // namespace zuse::dataset
