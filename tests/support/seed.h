// Randomised tests print how to run them again.
#pragma once

#include <cstdint>
#include <random>
#include <string>

namespace zuse::test {

// The value of ZUSE_SEED, or a fresh one; the same for the whole process.
std::uint64_t seed();
// "rerun: ZUSE_SEED=123", for SCOPED_TRACE.
std::string rerun();

}  // namespace zuse::test
