// The choice of parities for a loss, and the inverse of its equations. See recovery.h.
#include "raid/recovery.h"

#include <algorithm>

namespace zuse::raid {

std::optional<RecoveryPlan> plan_recovery(unsigned parity_count, unsigned data_columns,
                                          std::span<const unsigned> missing) noexcept {
  if (parity_count == 0 || parity_count > kParityMax || data_columns == 0 ||
      data_columns > kColumnsMax - parity_count || missing.size() > parity_count) {
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
  const auto inverse = invert(weights(std::span(plan.rows).first(plan.count),
                                      std::span(plan.data).first(plan.count), data_columns),
                              plan.count);
  if (!inverse) {
    return std::nullopt;
  }
  plan.coefficients = *inverse;
  return plan;
}

}  // namespace zuse::raid
