// See stripe.h.
#include "raid/raidz_test/stripe.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "raid/implementations.h"

namespace zuse::raidz_test {

namespace {

constexpr std::size_t kAlignment = 4096;
constexpr std::byte kPattern{0xaa};

std::byte* allocate(std::size_t size) {
  void* const bytes =
      std::aligned_alloc(kAlignment, (size + kAlignment - 1) / kAlignment * kAlignment);
  if (bytes == nullptr) {
    throw std::bad_alloc();
  }
  return static_cast<std::byte*>(bytes);
}

}  // namespace

void Stripe::Free::operator()(std::byte* bytes) const noexcept {
  std::free(bytes);
}

std::vector<std::size_t> column_sizes(const Geometry& geometry) {
  const std::size_t sector = std::size_t{1} << geometry.ashift;
  const std::size_t sectors = (geometry.size + sector - 1) / sector;
  const std::size_t rows = sectors / geometry.data_columns;
  const std::size_t longer = sectors % geometry.data_columns;
  std::vector<std::size_t> sizes;
  for (std::size_t column = 0; column < geometry.data_columns; ++column) {
    if (const std::size_t size = (rows + (column < longer ? 1 : 0)) * sector; size != 0) {
      sizes.push_back(size);
    }
  }
  return sizes;
}

std::vector<Geometry> expanded_rows(const Geometry& geometry, std::uint64_t reflow) {
  const std::size_t sector = std::size_t{1} << geometry.ashift;
  std::vector<Geometry> rows;
  for (std::size_t at = 0; at < geometry.size;) {
    const unsigned width =
        at < reflow ? geometry.data_columns : std::max(1U, geometry.data_columns - 1);
    const std::size_t size = std::min(width * sector, geometry.size - at);
    rows.push_back({size, geometry.ashift, width, geometry.offset});
    at += size;
  }
  return rows;
}

Stripe::Stripe(const Geometry& geometry, std::mt19937_64& random) {
  const auto sizes = column_sizes(geometry);
  for (const std::size_t size : sizes) {
    data_bytes_ += size;
  }
  // Each parity column starts at a page, so that each lies in memory as a device's buffer would.
  const std::size_t parity_room = (sizes[0] + kAlignment - 1) / kAlignment * kAlignment;
  const std::size_t whole = raid::kParityMax * parity_room + geometry.offset + data_bytes_;
  memory_.reset(allocate(whole));
  truth_.reset(allocate(whole));
  const auto lay_out = [&](std::byte* bytes, std::vector<raid::MutableColumn>& columns) {
    for (unsigned row = 0; row < raid::kParityMax; ++row) {
      columns.emplace_back(bytes + row * parity_room, sizes[0]);
    }
    std::byte* at = bytes + raid::kParityMax * parity_room + geometry.offset;
    for (const std::size_t size : sizes) {
      columns.emplace_back(at, size);
      at += size;
    }
  };
  lay_out(memory_.get(), columns_);
  lay_out(truth_.get(), true_columns_);
  std::vector<raid::ColumnView> true_data;
  for (std::size_t i = raid::kParityMax; i < columns_.size(); ++i) {
    const auto column = true_columns_[i];
    for (std::size_t at = 0; at < column.size(); at += sizeof(std::uint64_t)) {
      const std::uint64_t word = random();
      std::memcpy(column.data() + at, &word, sizeof word);
    }
    true_data.emplace_back(column);
    data_.emplace_back(columns_[i]);
  }
  raid::generate(raid::kOriginal, true_data, std::span(true_columns_).first(raid::kParityMax));
  for (unsigned column = 0; column < columns_.size(); ++column) {
    restore(column);
  }
}

void Stripe::destroy(unsigned column) {
  std::ranges::fill(columns_[column], kPattern);
}

bool Stripe::right(unsigned column) const {
  return std::memcmp(columns_[column].data(), true_columns_[column].data(),
                     columns_[column].size()) == 0;
}

bool Stripe::all_right() const {
  for (unsigned column = 0; column < columns_.size(); ++column) {
    if (!right(column)) {
      return false;
    }
  }
  return true;
}

void Stripe::restore(unsigned column) {
  std::memcpy(columns_[column].data(), true_columns_[column].data(), columns_[column].size());
}

}  // namespace zuse::raidz_test
