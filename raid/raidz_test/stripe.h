// One block as raidz lays it out: data columns of which the first may be a sector longer, and three
// parity columns, in memory, with the right answer beside it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "raid/raidz_math.h"

namespace zuse::raidz_test {

struct Geometry {
  std::size_t size = 0;  // bytes of data, padded to whole sectors
  unsigned ashift = 9;
  unsigned data_columns = 1;  // of the group; a small block uses fewer
  std::size_t offset = 0;     // bytes by which the block is off a page in memory
};

// Bytes of each data column that is not empty. source: format page 03 section 4.
std::vector<std::size_t> column_sizes(const Geometry& geometry);

// The rows that an expanded raidz lays a block of `geometry.size` bytes out in: one sector a
// column, each row with parity of its own. The first `reflow` bytes were moved to the whole width;
// rows after them still lack the new column.
std::vector<Geometry> expanded_rows(const Geometry& geometry, std::uint64_t reflow);

class Stripe {
 public:
  // Random data, and parity by the byte-wise reference.
  Stripe(const Geometry& geometry, std::mt19937_64& random);

  // Parity (three) first, then data.
  std::span<const raid::MutableColumn> columns() const { return columns_; }
  std::span<const raid::ColumnView> data() const { return data_; }
  std::span<const raid::MutableColumn> parity() const {
    return std::span(columns_).first(raid::kParityMax);
  }
  unsigned data_columns() const { return static_cast<unsigned>(data_.size()); }
  std::size_t data_bytes() const { return data_bytes_; }

  void destroy(unsigned column);  // fills it with a pattern
  bool right(unsigned column) const;
  bool all_right() const;
  void restore(unsigned column);

 private:
  struct Free {
    void operator()(std::byte* bytes) const noexcept;
  };
  std::unique_ptr<std::byte, Free> memory_, truth_;
  std::vector<raid::MutableColumn> columns_, true_columns_;
  std::vector<raid::ColumnView> data_;
  std::size_t data_bytes_ = 0;
};

}  // namespace zuse::raidz_test
