// RaidzMap: which bytes of which child a block of a raidz group occupies. Geometry only, a pure
// function of (offset, size).
//
//   five children, one parity, a block of six data sectors at sector 3:
//
//     child    0    1    2    3    4          columns: P on child 3, data on 4, 0, 1, 2
//     row 0    .    .    .    P    a          the first two data columns are one sector longer
//     row 1    c    e    f    P    b          a block's bytes fill column after column:
//     row 2    d    .    .    .    .          a b | c d | e | f
//
// source: format page 03 section 4.
#pragma once

#include <cstdint>
#include <vector>

namespace zuse::vdev {

struct RaidzColumn {
  unsigned child = 0;
  std::uint64_t offset = 0;  // bytes in the child's allocatable area
  std::uint64_t size = 0;    // bytes
};

// Parity columns first (P, Q, R), then data in order. Columns without bytes are left out.
struct RaidzMap {
  unsigned parity = 0;
  std::vector<RaidzColumn> columns;

  unsigned data_columns() const noexcept { return static_cast<unsigned>(columns.size()) - parity; }
};

struct RaidzShape {
  unsigned children = 0;
  unsigned parity = 0;
  unsigned ashift = 9;
};

// Fills `map` (its memory is reused) for `size` bytes at `offset`.
// shape: both multiples of 1 << ashift, size > 0, 1 <= parity < children.
void map_block(const RaidzShape& shape, std::uint64_t offset, std::uint64_t size, RaidzMap& map);

}  // namespace zuse::vdev
