// The choice of parities for a loss, and the inverse of its equations. See recovery.h.
#include "raid/recovery.h"

#include <algorithm>

namespace zuse::raid {

namespace {

std::uint8_t product(std::uint8_t a, std::uint8_t b) noexcept {
  return kExp2[kLog2[a] + std::size_t{kLog2[b]}];
}

// a / b. shape: b != 0.
std::uint8_t quotient(std::uint8_t a, std::uint8_t b) noexcept {
  return kExp2[kLog2[a] + std::size_t{kFieldOrder} - kLog2[b]];
}

std::uint8_t sum(std::uint8_t a, std::uint8_t b) noexcept {
  return static_cast<std::uint8_t>(a ^ b);
}

// The inverse of the weights of the missing columns, written out: a stripe of a few sectors is
// rebuilt in the time that elimination would take. With x the weight of a column in Q, its weight
// in P is 1 and in R x^2, so three rows are a Vandermonde matrix.
Matrix solution(const RecoveryPlan& plan, unsigned data_columns) noexcept {
  const auto power = [&](unsigned i, unsigned row) {
    return kExp2[row * (data_columns - 1 - plan.data[i]) % kFieldOrder];
  };
  Matrix matrix{};
  if (plan.count == 1) {
    matrix[0][0] = quotient(1, power(0, plan.rows[0]));
  } else if (plan.count == 2) {
    const std::uint8_t a = power(0, plan.rows[0]);
    const std::uint8_t b = power(1, plan.rows[0]);
    const std::uint8_t c = power(0, plan.rows[1]);
    const std::uint8_t d = power(1, plan.rows[1]);
    const std::uint8_t determinant = sum(product(a, d), product(b, c));
    matrix[0][0] = quotient(d, determinant);
    matrix[0][1] = quotient(b, determinant);
    matrix[1][0] = quotient(c, determinant);
    matrix[1][1] = quotient(a, determinant);
  } else if (plan.count == 3) {
    for (unsigned i = 0; i < 3; ++i) {
      const std::uint8_t x = power(i, 1);
      const std::uint8_t y = power((i + 1) % 3, 1);
      const std::uint8_t z = power((i + 2) % 3, 1);
      const std::uint8_t determinant = product(sum(x, y), sum(x, z));
      matrix[i][0] = quotient(product(y, z), determinant);
      matrix[i][1] = quotient(sum(y, z), determinant);
      matrix[i][2] = quotient(1, determinant);
    }
  }
  return matrix;
}

}  // namespace

std::optional<RecoveryPlan> plan_recovery(unsigned parity_count, unsigned data_columns,
                                          std::span<const unsigned> missing) noexcept {
  if (parity_count == 0 || parity_count > kParityMax || data_columns == 0 ||
      data_columns > kDataColumnsMax || missing.size() > parity_count) {
    return std::nullopt;
  }
  RecoveryPlan plan;
  for (std::size_t i = 0; i < missing.size(); ++i) {
    const unsigned column = missing[i];
    if (column >= parity_count + data_columns ||
        std::find(missing.begin(), missing.begin() + static_cast<std::ptrdiff_t>(i), column) !=
            missing.begin() + static_cast<std::ptrdiff_t>(i)) {
      return std::nullopt;
    }
    if (column < parity_count) {
      plan.lost_parity[column] = true;
    } else {
      plan.data[plan.count++] = column - parity_count;
    }
  }
  std::sort(plan.data.begin(), plan.data.begin() + plan.count);
  // The first parities there are: P costs nothing to use, Q less than R.
  unsigned chosen = 0;
  for (unsigned row = 0; row < parity_count && chosen < plan.count; ++row) {
    if (!plan.lost_parity[row]) {
      plan.rows[chosen++] = row;
      plan.row_set |= 1U << row;
    }
  }
  plan.coefficients = solution(plan, data_columns);
  return plan;
}

}  // namespace zuse::raid
