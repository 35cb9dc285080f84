// Which parities rebuild which losses, and with which coefficients.
//
// With m data columns, column i has weight 1 in P, 2^(m-1-i) in Q and 4^(m-1-i) in R. The syndrome
// of a parity is its stored value plus its value over the columns that are there: the weighted sum
// of what is missing. k syndromes make k equations; the matrix inverted here solves them. Every
// square part of the weight matrix can be inverted while m <= 255: weights repeat only after 255
// columns. The tests invert each one. source: format page 03 section 6.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "raid/gf256.h"
#include "raid/kernels.h"

namespace zuse::raid {

using Matrix = std::array<std::array<std::uint8_t, kParityMax>, kParityMax>;

// Weight of data column `column` of `data_columns` in parity row 0 (P), 1 (Q) or 2 (R).
constexpr std::uint8_t weight(unsigned row, unsigned column, unsigned data_columns) noexcept {
  return exp2(row * (data_columns - 1 - column));
}

// Weights of `columns` in `rows`: [i][j] is that of columns[j] in rows[i].
constexpr Matrix weights(std::span<const unsigned> rows, std::span<const unsigned> columns,
                         unsigned data_columns) noexcept {
  Matrix matrix{};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t j = 0; j < columns.size(); ++j) {
      matrix[i][j] = weight(rows[i], columns[j], data_columns);
    }
  }
  return matrix;
}

// The inverse of the upper left size x size part, by Gauss and Jordan; nullopt: it has none.
constexpr std::optional<Matrix> invert(Matrix from, std::size_t size) noexcept {
  Matrix to{};
  for (std::size_t i = 0; i < size; ++i) {
    to[i][i] = 1;
  }
  for (std::size_t pivot = 0; pivot < size; ++pivot) {
    std::size_t row = pivot;
    while (row < size && from[row][pivot] == 0) {
      ++row;
    }
    if (row == size) {
      return std::nullopt;
    }
    std::swap(from[row], from[pivot]);
    std::swap(to[row], to[pivot]);
    const std::uint8_t scale = inverse(from[pivot][pivot]);
    for (std::size_t j = 0; j < size; ++j) {
      from[pivot][j] = mul(from[pivot][j], scale);
      to[pivot][j] = mul(to[pivot][j], scale);
    }
    for (std::size_t i = 0; i < size; ++i) {
      const std::uint8_t factor = i == pivot ? std::uint8_t{0} : from[i][pivot];
      for (std::size_t j = 0; j < size; ++j) {
        from[i][j] = static_cast<std::uint8_t>(from[i][j] ^ mul(factor, from[pivot][j]));
        to[i][j] = static_cast<std::uint8_t>(to[i][j] ^ mul(factor, to[pivot][j]));
      }
    }
  }
  return to;
}

// How to rebuild a loss.
struct RecoveryPlan {
  std::array<unsigned, kParityMax> data{};     // missing data columns, ascending
  std::array<unsigned, kParityMax> rows{};     // parity rows used for them, ascending
  unsigned count = 0;                          // of both
  unsigned row_set = 0;                        // kP | kQ ...: the same rows as bits
  std::array<bool, kParityMax> lost_parity{};  // rows to compute anew afterwards
  Matrix coefficients{};  // data[i] = sum over j of coefficients[i][j] * syndrome of rows[j]
};

// `missing`: column indexes, parity first. nullopt: duplicates, indexes out of range, or more
// missing data columns than parities left.
std::optional<RecoveryPlan> plan_recovery(unsigned parity_count, unsigned data_columns,
                                          std::span<const unsigned> missing) noexcept;

}  // namespace zuse::raid
