// The implementations compiled in, which of them this CPU runs, and the choice among them.
#pragma once

#include <array>
#include <cstdint>
#include <expected>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "raid/kernels.h"

namespace zuse::raid {

struct Compiled {
  const Kernels* kernels;
  bool (*usable)();  // can this CPU run it? Safe to ask anywhere
};

// All, the slowest first. "gfni" is there twice, with and without AVX-512; a CPU runs at most one.
std::span<const Compiled> compiled();
// Those that this CPU runs; never empty.
std::vector<const Kernels*> usable();

// By name: an implementation; "fastest"; or "cycle", which takes the usable ones in turn, stripe by
// stripe, for tests. errors: a sentence, for a name that is unknown (lists those there are) or that
// this CPU cannot run.
std::expected<const Kernels*, std::string> choose(std::string_view name);

// The quickest usable implementation of each method for the size of the columns at hand: measured
// at the first call over eight data columns, remembered. Implementations that fail their self test
// are left out. Thread-safe.
const Kernels& fastest();

// The methods: 0..2 gen_p gen_pq gen_pqr; 3..9 rebuilding by the parities of set 1..7.
inline constexpr std::array<const char*, 10> kMethods{"gen_p",  "gen_pq", "gen_pqr", "rec_p",
                                                      "rec_q",  "rec_pq", "rec_r",   "rec_pr",
                                                      "rec_qr", "rec_pqr"};
// The sizes that "fastest" tells apart: columns of up to so many bytes, the last for all above.
inline constexpr std::array<std::size_t, 3> kFastestSizes{2048, 65536, SIZE_MAX};

struct FastestChoice {
  std::array<std::array<const Kernels*, kFastestSizes.size()>, kMethods.size()> by_method{};
  double seconds = 0;  // that measuring took
};
const FastestChoice& fastest_choice();
// In words: "avx2", or "avx2 (gen_p: sse2 to 2K; ...)" where not all are the same.
std::string fastest_in_words();

// Runs generation and every rebuild on small columns against arithmetic byte by byte. errors: what
// was wrong.
std::expected<void, std::string> self_test(const Kernels& kernels);

}  // namespace zuse::raid
