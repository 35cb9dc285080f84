// The implementations compiled in, which of them this CPU runs, and the choice among them.
#pragma once

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

// All, the slowest first.
std::span<const Compiled> compiled();
// Those that this CPU runs; never empty.
std::vector<const Kernels*> usable();

// By name, or "fastest". errors: a sentence, for a name that is unknown (lists those there are) or
// that this CPU cannot run.
std::expected<const Kernels*, std::string> choose(std::string_view name);

// The quickest usable one at two parities over four data columns: measured at the first call (some
// milliseconds), remembered. Implementations that fail their self test are left out. Thread-safe.
const Kernels& fastest();

// Runs generation and every rebuild on small columns against arithmetic byte by byte. errors: what
// was wrong.
std::expected<void, std::string> self_test(const Kernels& kernels);

}  // namespace zuse::raid
