// What raidz_test is asked to do.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "raid/kernels.h"

namespace zuse::raidz_test {

struct Options {
  unsigned ashift = 9;           // log2 of the sector; of a benchmark 12, if not given
  unsigned offset_exponent = 0;  // the block starts 2^n bytes into its memory, rounded down to 512
  unsigned data_columns = 8;
  unsigned size_exponent = 19;  // block of 2^n bytes
  bool sweep = false;
  std::optional<unsigned> seconds;  // limit of the sweep
  bool benchmark = false;
  bool expanded = false;                     // rows of one sector a column, as after an expansion
  std::uint64_t reflow = ~std::uint64_t{0};  // bytes of the block that have been moved already
  bool debugger = false;                     // attach gdb to a crash
  int verbosity = 0;
  bool must_fail = false;  // leave the work out: every check has to notice
  std::uint64_t seed = 0;
  bool json = false;
  bool list = false;
  std::string plot;                          // path of an SVG file; empty: none
  std::vector<const raid::Kernels*> chosen;  // implementations to run
};

// An answer instead of options: what to print, where, and the exit status.
struct Answer {
  std::string text;
  bool to_stderr = false;
  int status = 0;
};

// nullopt: go on with `options`.
std::optional<Answer> parse(int argc, const char* const* argv, Options& options);

}  // namespace zuse::raidz_test
