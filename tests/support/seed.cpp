#include "tests/support/seed.h"

#include <cstdlib>

namespace zuse::test {

std::uint64_t seed() {
  static const std::uint64_t value = [] {
    const char* const given = std::getenv("ZUSE_SEED");
    return given != nullptr ? std::strtoull(given, nullptr, 0)
                            : std::uint64_t{std::random_device{}()};
  }();
  return value;
}

std::string rerun() {
  return "rerun: ZUSE_SEED=" + std::to_string(seed());
}

}  // namespace zuse::test
