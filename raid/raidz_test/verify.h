// The checks, one a method, on one stripe and one implementation.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "raid/kernels.h"
#include "raid/raidz_test/stripe.h"

namespace zuse::raidz_test {

struct Check {
  std::string name;
  bool passed = false;
  std::uint64_t cases = 0;
  std::vector<std::string> failures;  // the columns of failed cases, the first few
};

inline constexpr std::array<const char*, 3> kGenerateMethods{"gen_p", "gen_pq", "gen_pqr"};
// By set of parities in use.
inline constexpr std::array<const char*, 8> kRebuildMethods{"",      "rec_p",  "rec_q",  "rec_pq",
                                                            "rec_r", "rec_pr", "rec_qr", "rec_pqr"};

// Columns missing so that exactly these parities (a set of kP, kQ, kR) rebuild these data columns:
// the parities below the highest that are not to be used count as lost, too.
std::vector<unsigned> losses(unsigned parity_set, std::span<const unsigned> data);

// gen_p ... gen_pqr against the reference; rec_p ... rec_pqr for every combination of lost data
// columns (of a large stripe, a random part of them); "mixed": every loss of up to three columns,
// parity or data; "search": columns silently wrong, found by trying combinations against a checksum
// of the data, as a reader does. `skip_work`: do nothing where the implementation should work; each
// check must then fail.
std::vector<Check> verify(const raid::Kernels& kernels, Stripe& stripe, bool skip_work,
                          std::uint64_t seed);

}  // namespace zuse::raidz_test
