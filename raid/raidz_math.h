// What a raidz device asks of the parity maths: parity of a stripe, and its missing columns back.
// Columns of one block may have uneven sizes: a short one counts as extended with zeros, and still
// takes part in every multiplication step. source: format page 03 sections 5 and 6.
//
// No allocation, no threads; work goes in strips that stay in the cache.
#pragma once

#include <cstddef>
#include <span>

#include "raid/kernels.h"

namespace zuse::raid {

using ColumnView = std::span<const std::byte>;
using MutableColumn = std::span<std::byte>;

// Where parity is stored. Streaming goes past the caches: right when it is next read by a device,
// wrong when by this CPU. Columns that are not aligned to kKernelStep are stored the usual way.
enum class Stores { cached, streaming };

// Fills P, or P and Q, or P, Q and R.
// shape: 1..3 parity columns, at least one data column, at most kDataColumnsMax of them; no data
// column longer than the parity columns, which all have one size.
void generate(const Kernels& kernels, std::span<const ColumnView> data,
              std::span<const MutableColumn> parity, Stores stores = Stores::cached);

// Fills the missing columns, data or parity, from the others. `columns` holds the parity columns
// first (P, Q, R: parity_count of them), then the data; `missing` are indexes into it, in any
// order, without duplicates. False, and nothing changed: more are missing than parities exist, or
// the shape is wrong.
bool reconstruct(const Kernels& kernels, std::span<const MutableColumn> columns,
                 unsigned parity_count, std::span<const unsigned> missing);

// The same, but leaves missing parity columns as they are: all that a read needs.
bool reconstruct_data(const Kernels& kernels, std::span<const MutableColumn> columns,
                      unsigned parity_count, std::span<const unsigned> missing);

}  // namespace zuse::raid
