// See verify.h.
#include "raid/raidz_test/verify.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace zuse::raidz_test {

namespace {

constexpr std::size_t kFailuresKept = 10;
// Losses grow with the cube of the width, and each reads the whole stripe: beyond so many cases, or
// so many bytes read, a random part of them.
constexpr std::uint64_t kCasesMax = 2100;
constexpr std::uint64_t kCaseBytesMax = std::uint64_t{1} << 29;
constexpr std::uint64_t kCasesMin = 8;
constexpr int kSearchCases = 3;

// Calls visit(combination) for each set of `count` numbers out of [first, end), ascending.
template <class Visit>
void combinations(unsigned first, unsigned end, unsigned count, std::vector<unsigned>& chosen,
                  const Visit& visit) {
  if (count == 0) {
    visit(std::as_const(chosen));
    return;
  }
  for (unsigned i = first; i + count <= end; ++i) {
    chosen.push_back(i);
    combinations(i + 1, end, count - 1, chosen, visit);
    chosen.pop_back();
  }
}

template <class Visit>
void combinations(unsigned first, unsigned end, unsigned count, const Visit& visit) {
  std::vector<unsigned> chosen;
  combinations(first, end, count, chosen, visit);
}

std::string named(std::span<const unsigned> columns) {
  std::string text;
  for (const unsigned column : columns) {
    text += (text.empty() ? "" : " ");
    text += column < raid::kParityMax ? std::string(1, "PQR"[column])
                                      : std::to_string(column - raid::kParityMax);
  }
  return text;
}

std::uint64_t choose_count(std::uint64_t of, unsigned count) {
  std::uint64_t result = 1;
  for (unsigned i = 0; i < count; ++i) {
    result = result * (of - i) / (i + 1);
  }
  return of < count ? 0 : result;
}

void note(Check& check, bool good, const std::string& what) {
  ++check.cases;
  if (!good) {
    check.passed = false;
    if (check.failures.size() < kFailuresKept) {
      check.failures.push_back(what);
    }
  }
}

void rebuild_case(const raid::Kernels& kernels, Stripe& stripe, std::span<const unsigned> missing,
                  bool skip_work, Check& check) {
  for (const unsigned column : missing) {
    stripe.destroy(column);
  }
  bool good = skip_work || raid::reconstruct(kernels, stripe.columns(), raid::kParityMax, missing);
  for (const unsigned column : missing) {
    good = stripe.right(column) && good;
    stripe.restore(column);
  }
  note(check, good, named(missing));
}

// A sum over the data that any change of a few columns changes: what a block's checksum is to a
// reader. (FNV-1a over words, with the rotation that keeps equal changes from cancelling out.)
std::uint64_t checksum(const Stripe& stripe) {
  std::uint64_t sum = 0xcbf29ce484222325U;
  for (const auto& column : stripe.data()) {
    for (std::size_t at = 0; at < column.size(); at += sizeof(std::uint64_t)) {
      std::uint64_t word = 0;
      std::memcpy(&word, column.data() + at, sizeof word);
      sum = std::rotl((sum ^ word) * 0x100000001b3U, 5);
    }
  }
  return sum;
}

// `wrong` columns hold other bytes and nobody says which.
bool found_by_search(const raid::Kernels& kernels, Stripe& stripe, std::span<const unsigned> wrong,
                     std::uint64_t good_sum, bool skip_work) {
  for (const unsigned column : wrong) {
    stripe.destroy(column);
  }
  const auto end = static_cast<unsigned>(stripe.columns().size());
  bool found = checksum(stripe) == good_sum;
  for (unsigned count = 1; count <= raid::kParityMax && !found && !skip_work; ++count) {
    combinations(0, end, count, [&](const std::vector<unsigned>& guess) {
      if (found) {
        return;
      }
      std::vector<std::vector<std::byte>> before;
      for (const unsigned column : guess) {
        const auto bytes = stripe.columns()[column];
        before.emplace_back(bytes.begin(), bytes.end());
      }
      found = raid::reconstruct(kernels, stripe.columns(), raid::kParityMax, guess) &&
              checksum(stripe) == good_sum;
      if (!found) {
        for (std::size_t i = 0; i < guess.size(); ++i) {
          std::ranges::copy(before[i], stripe.columns()[guess[i]].begin());
        }
      }
    });
  }
  for (unsigned column = raid::kParityMax; column < end; ++column) {
    found = found && stripe.right(column);
  }
  for (unsigned column = 0; column < end; ++column) {
    stripe.restore(column);
  }
  return found;
}

}  // namespace

std::vector<unsigned> losses(unsigned parity_set, std::span<const unsigned> data) {
  std::vector<unsigned> missing;
  for (unsigned row = 0; row < std::bit_width(parity_set); ++row) {
    if ((parity_set >> row & 1U) == 0) {
      missing.push_back(row);
    }
  }
  for (const unsigned column : data) {
    missing.push_back(raid::kParityMax + column);
  }
  return missing;
}

std::vector<Check> verify(const raid::Kernels& kernels, Stripe& stripe, bool skip_work,
                          std::uint64_t seed) {
  std::vector<Check> checks;
  for (unsigned parities = 1; parities <= raid::kParityMax; ++parities) {
    Check check{kGenerateMethods[parities - 1], true, 0, {}};
    for (unsigned row = 0; row < parities; ++row) {
      stripe.destroy(row);
    }
    if (!skip_work) {
      raid::generate(kernels, stripe.data(), stripe.parity().first(parities));
    }
    for (unsigned row = 0; row < parities; ++row) {
      note(check, stripe.right(row), named(std::array{row}));
      stripe.restore(row);
    }
    checks.push_back(std::move(check));
  }

  const unsigned data = stripe.data_columns();
  std::mt19937_64 random(seed);
  const std::uint64_t affordable = std::clamp<std::uint64_t>(
      kCaseBytesMax / std::max<std::size_t>(1, stripe.data_bytes()), kCasesMin, kCasesMax);
  for (unsigned set = 1; set < kRebuildMethods.size(); ++set) {
    const auto lost = static_cast<unsigned>(std::popcount(set));
    if (lost > data) {
      continue;
    }
    Check check{kRebuildMethods[set], true, 0, {}};
    const std::uint64_t possible = choose_count(data, lost);
    combinations(0, data, lost, [&](const std::vector<unsigned>& columns) {
      if (check.cases != 0 && possible > affordable && random() % possible >= affordable) {
        return;
      }
      rebuild_case(kernels, stripe, losses(set, columns), skip_work, check);
    });
    checks.push_back(std::move(check));
  }

  const unsigned end = raid::kParityMax + data;
  std::uint64_t all = 0;
  for (unsigned count = 1; count <= raid::kParityMax; ++count) {
    combinations(0, end, count, [&](const auto&) { ++all; });
  }
  Check mixed{"mixed", true, 0, {}};
  for (unsigned count = 1; count <= raid::kParityMax; ++count) {
    combinations(0, end, count, [&](const std::vector<unsigned>& missing) {
      if (mixed.cases == 0 || all <= affordable || random() % all < affordable) {
        rebuild_case(kernels, stripe, missing, skip_work, mixed);
      }
    });
  }
  checks.push_back(std::move(mixed));

  // A search tries up to all combinations and sums the data each time: on small stripes only.
  constexpr std::size_t kSearchBytes = std::size_t{64} << 20;
  if (all * stripe.data_bytes() <= kSearchBytes * 8) {
    Check search{"search", true, 0, {}};
    const std::uint64_t good_sum = checksum(stripe);
    for (int i = 0; i < kSearchCases; ++i) {
      // One, two or three wrong columns, of which one holds data.
      std::vector<unsigned> wrong{raid::kParityMax + static_cast<unsigned>(random() % data)};
      while (wrong.size() < static_cast<std::size_t>(i) + 1 && wrong.size() < end) {
        const auto column = static_cast<unsigned>(random() % end);
        if (std::ranges::find(wrong, column) == wrong.end()) {
          wrong.push_back(column);
        }
      }
      note(search, found_by_search(kernels, stripe, wrong, good_sum, skip_work), named(wrong));
    }
    checks.push_back(std::move(search));
  }
  return checks;
}

}  // namespace zuse::raidz_test
