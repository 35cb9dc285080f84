// Dtl, dirty time log: the transaction groups that a leaf has missed, as half-open ranges
// (format page 03 section 8).
#pragma once

#include <cstdint>
#include <map>

namespace zuse::vdev {

class Dtl {
 public:
  void add(std::uint64_t first, std::uint64_t end);  // [first, end); empty ranges are ignored
  void remove(std::uint64_t first, std::uint64_t end);
  bool contains(std::uint64_t txg) const;
  bool empty() const noexcept { return ranges_.empty(); }
  std::uint64_t lowest() const { return ranges_.empty() ? 0 : ranges_.begin()->first; }
  std::uint64_t end() const { return ranges_.empty() ? 0 : ranges_.rbegin()->second; }
  const std::map<std::uint64_t, std::uint64_t>& ranges() const noexcept { return ranges_; }
  bool operator==(const Dtl&) const = default;

 private:
  std::map<std::uint64_t, std::uint64_t> ranges_;  // first -> end, disjoint, not touching
};

}  // namespace zuse::vdev
