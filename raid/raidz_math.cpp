// Walks a stripe in strips within which every column either has bytes or has ended, and hands each
// strip to the kernels: a column that has ended is a null pointer, which kernels read as zeros.
// What remains of a strip below the kernels' step (never more than 63 bytes) is done byte by byte.
#include "raid/raidz_math.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "raid/recovery.h"

namespace zuse::raid {

namespace {

using DataPointers = std::array<const std::byte*, kDataColumnsMax>;
using Parities = std::array<std::byte*, kParityMax>;
using Scratch = std::array<std::array<std::byte, kStripBytes>, kParityMax>;

// P, Q and R of one byte position.
std::array<std::uint8_t, kParityMax> sums_at(const std::byte* const* data, unsigned data_columns,
                                             std::size_t at) noexcept {
  std::uint8_t p = 0;
  std::uint8_t q = 0;
  std::uint8_t r = 0;
  for (unsigned i = 0; i < data_columns; ++i) {
    const auto value =
        data[i] == nullptr ? std::uint8_t{0} : static_cast<std::uint8_t>(data[i][at]);
    p = static_cast<std::uint8_t>(p ^ value);
    q = static_cast<std::uint8_t>(mul2(q) ^ value);
    r = static_cast<std::uint8_t>(mul2(mul2(r)) ^ value);
  }
  return {p, q, r};
}

// `parities` of them, for a strip of any size.
void generate_strip(const Kernels& kernels, const DataPointers& data, unsigned data_columns,
                    const Parities& parity, unsigned parities, std::size_t bytes,
                    bool streaming = false) noexcept {
  const std::size_t whole = bytes / kKernelStep * kKernelStep;
  if (whole != 0) {
    kernels.generate[parities - 1]({data.data(), parity.data(), data_columns, whole, streaming});
  }
  for (std::size_t at = whole; at < bytes; ++at) {
    const auto sums = sums_at(data.data(), data_columns, at);
    for (unsigned row = 0; row < parities; ++row) {
      parity[row][at] = std::byte{sums[row]};
    }
  }
}

// For kernels without a fused rebuild: the syndromes into scratch, then their weighted sums.
void rebuild_composed(const Kernels& kernels, const RecoveryPlan& plan, const Rebuild& work,
                      Scratch& scratch) noexcept {
  const Parities sums{scratch[0].data(), scratch[1].data(), scratch[2].data()};
  kernels.generate[plan.rows[plan.count - 1]](
      {work.data, sums.data(), work.data_columns, work.bytes, false});
  for (unsigned j = 0; j < plan.count; ++j) {
    kernels.mul_add(sums[plan.rows[j]], work.parity[j], work.bytes, 1);
  }
  for (unsigned i = 0; i < plan.count; ++i) {
    std::memset(work.out[i], 0, work.bytes);
    for (unsigned j = 0; j < plan.count; ++j) {
      kernels.mul_add(work.out[i], sums[plan.rows[j]], work.bytes, plan.coefficients[i][j]);
    }
  }
}

void rebuild_strip(const Kernels& kernels, const RecoveryPlan& plan, const DataPointers& data,
                   unsigned data_columns, const Parities& parity, const Parities& out,
                   std::size_t bytes, Scratch& scratch) noexcept {
  const std::size_t whole = bytes / kKernelStep * kKernelStep;
  if (whole != 0) {
    Rebuild work{data.data(), parity.data(), out.data(), data_columns, whole, {}};
    for (unsigned i = 0; i < kParityMax; ++i) {
      for (unsigned j = 0; j < kParityMax; ++j) {
        work.coefficient[i][j] = plan.coefficients[i][j];
      }
    }
    if (kernels.rebuild[plan.row_set] != nullptr) {
      kernels.rebuild[plan.row_set](work);
    } else {
      rebuild_composed(kernels, plan, work, scratch);
    }
  }
  for (std::size_t at = whole; at < bytes; ++at) {
    const auto sums = sums_at(data.data(), data_columns, at);
    for (unsigned i = 0; i < plan.count; ++i) {
      std::uint8_t value = 0;
      for (unsigned j = 0; j < plan.count; ++j) {
        const auto syndrome = static_cast<std::uint8_t>(sums[plan.rows[j]] ^
                                                        static_cast<std::uint8_t>(parity[j][at]));
        value = static_cast<std::uint8_t>(value ^ mul(plan.coefficients[i][j], syndrome));
      }
      out[i][at] = std::byte{value};
    }
  }
}

// Where the strip that starts at `from` ends: where a column does, or at `size`.
template <class Column>
std::size_t strip_end(std::span<const Column> columns, std::size_t from,
                      std::size_t size) noexcept {
  std::size_t end = size;
  for (const Column& column : columns) {
    if (column.size() > from && column.size() < end) {
      end = column.size();
    }
  }
  return end;
}

const Kernels& picked(const Kernels& kernels, std::size_t column_bytes) noexcept {
  return kernels.pick == nullptr ? kernels : kernels.pick(column_bytes);
}

bool aligned(const std::byte* at) noexcept {
  return reinterpret_cast<std::uintptr_t>(at) % kKernelStep == 0;
}

}  // namespace

void generate(const Kernels& chosen, std::span<const ColumnView> data,
              std::span<const MutableColumn> parity, Stores stores) {
  const auto data_columns =
      static_cast<unsigned>(std::min<std::size_t>(data.size(), kDataColumnsMax));
  const auto parities = static_cast<unsigned>(std::min<std::size_t>(parity.size(), kParityMax));
  if (data_columns == 0 || parities == 0) {
    return;
  }
  const std::size_t size = parity[0].size();
  const Kernels& kernels = picked(chosen, size);
  DataPointers pointers;
  for (std::size_t from = 0; from < size;) {
    const std::size_t end = strip_end(data, from, size);
    for (unsigned i = 0; i < data_columns; ++i) {
      pointers[i] = data[i].size() > from ? data[i].data() + from : nullptr;
    }
    Parities into{};
    bool streaming = stores == Stores::streaming;
    for (unsigned row = 0; row < parities; ++row) {
      into[row] = parity[row].data() + from;
      streaming = streaming && aligned(into[row]);
    }
    generate_strip(kernels, pointers, data_columns, into, parities, end - from, streaming);
    from = end;
  }
}

namespace {

bool rebuild_missing(const Kernels& chosen, std::span<const MutableColumn> columns,
                     unsigned parity_count, std::span<const unsigned> missing, bool parity_too) {
  if (columns.size() <= parity_count || columns.size() > kColumnsMax) {
    return false;
  }
  const auto data_columns = static_cast<unsigned>(columns.size() - parity_count);
  const auto plan = plan_recovery(parity_count, data_columns, missing);
  if (!plan) {
    return false;
  }
  const auto parity = columns.first(parity_count);
  const auto data = columns.subspan(parity_count);
  const std::size_t size = parity[0].size();
  if (std::ranges::any_of(parity, [=](const auto& column) { return column.size() != size; }) ||
      std::ranges::any_of(data, [=](const auto& column) { return column.size() > size; })) {
    return false;
  }
  unsigned parities_lost = 0;  // as many as generate must make to cover the last lost one
  for (unsigned row = 0; row < parity_count && parity_too; ++row) {
    parities_lost = plan->lost_parity[row] ? row + 1 : parities_lost;
  }

  const Kernels& kernels = picked(chosen, size);
  // Strips, where a second pass follows or bytes go into scratch.
  std::size_t strip = size;
  if (parities_lost != 0 || (plan->count != 0 && kernels.rebuild[plan->row_set] == nullptr)) {
    strip = kStripBytes;
  }
  for (unsigned i = 0; i < plan->count; ++i) {
    strip = data[plan->data[i]].size() < size ? kStripBytes : strip;
  }

  DataPointers pointers;
  Scratch scratch;   // syndromes, or parities that nobody lost
  Scratch overhang;  // "rebuilt" bytes past the end of short columns: zeros
  for (std::size_t from = 0; from < size;) {
    const std::size_t end = std::min(strip_end(data, from, size), from + strip);
    for (unsigned i = 0; i < data_columns; ++i) {
      pointers[i] = data[i].size() > from ? data[i].data() + from : nullptr;
    }
    if (plan->count != 0) {
      Parities stored{};
      Parities out{};
      for (unsigned i = 0; i < plan->count; ++i) {
        const auto& column = data[plan->data[i]];
        stored[i] = parity[plan->rows[i]].data() + from;
        out[i] = column.size() > from ? column.data() + from : overhang[i].data();
        pointers[plan->data[i]] = nullptr;
      }
      rebuild_strip(kernels, *plan, pointers, data_columns, stored, out, end - from, scratch);
      for (unsigned i = 0; i < plan->count; ++i) {
        pointers[plan->data[i]] = data[plan->data[i]].size() > from ? out[i] : nullptr;
      }
    }
    if (parities_lost != 0) {
      Parities into{};
      for (unsigned row = 0; row < parities_lost; ++row) {
        into[row] = plan->lost_parity[row] ? parity[row].data() + from : scratch[row].data();
      }
      generate_strip(kernels, pointers, data_columns, into, parities_lost, end - from);
    }
    from = end;
  }
  return true;
}

}  // namespace

bool reconstruct(const Kernels& kernels, std::span<const MutableColumn> columns,
                 unsigned parity_count, std::span<const unsigned> missing) {
  return rebuild_missing(kernels, columns, parity_count, missing, true);
}

bool reconstruct_data(const Kernels& kernels, std::span<const MutableColumn> columns,
                      unsigned parity_count, std::span<const unsigned> missing) {
  return rebuild_missing(kernels, columns, parity_count, missing, false);
}

}  // namespace zuse::raid
