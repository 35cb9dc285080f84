// raidz_test: proves that all parity implementations agree and rebuild every loss, and times them.
// Exit status: 0 all is well, 1 bad usage or a failed check, 2 a failed sweep.
#include <iostream>
#include <nlohmann/json.hpp>

#include "raid/raidz_test/bench.h"
#include "raid/raidz_test/options.h"
#include "raid/raidz_test/sweep.h"
#include "raid/raidz_test/verify.h"
#include "raid/registry.h"

namespace zuse::raidz_test {
namespace {

int list(bool json) {
  nlohmann::json rows = nlohmann::json::array();
  for (const raid::Compiled& entry : raid::compiled()) {
    if (json) {
      rows.push_back({{"impl", entry.kernels->name}, {"usable", entry.usable()}});
    } else {
      std::cout << entry.kernels->name << (entry.usable() ? "" : " (this CPU cannot run it)")
                << "\n";
    }
  }
  if (json) {
    std::cout << rows.dump(2) << "\n";
  }
  return 0;
}

// One stripe, every implementation.
int run(const Options& options) {
  const std::size_t offset =
      (std::size_t{1} << options.offset_exponent) / 512 * 512 % 4096;  // of a page
  std::mt19937_64 random(options.seed);
  Stripe stripe(
      {std::size_t{1} << options.size_exponent, options.ashift, options.data_columns, offset},
      random);
  bool passed = true;
  nlohmann::json report{{"seed", options.seed}, {"checks", nlohmann::json::array()}};
  if (!options.json) {
    std::cout << "seed " << options.seed << ", " << stripe.data_columns() << " data columns, "
              << stripe.data_bytes() << " bytes\n";
    for (const raid::Compiled& entry : raid::compiled()) {
      if (options.verbosity > 0 && !entry.usable()) {
        std::cout << entry.kernels->name << " SKIP: this CPU cannot run it\n";
      }
    }
  }
  for (const raid::Kernels* const kernels : options.chosen) {
    bool own = true;
    for (const Check& check : verify(*kernels, stripe, options.must_fail, options.seed)) {
      own = own && check.passed;
      if (options.json) {
        report["checks"].push_back({{"impl", kernels->name},
                                    {"check", check.name},
                                    {"cases", check.cases},
                                    {"passed", check.passed},
                                    {"failures", check.failures}});
      } else if (options.verbosity > 0) {
        std::cout << kernels->name << " " << check.name << " " << (check.passed ? "PASS" : "FAIL")
                  << " (" << check.cases << ")\n";
        for (const std::string& columns : check.failures) {
          if (options.verbosity > 1) {
            std::cout << "  wrong columns: " << columns << "\n";
          }
        }
      }
    }
    if (!options.json) {
      std::cout << kernels->name << (own ? " PASS" : " FAIL") << "\n";
    }
    passed = passed && own;
  }
  if (options.json) {
    report["passed"] = passed;
    std::cout << report.dump(2) << "\n";
  }
  return passed ? 0 : 1;
}

}  // namespace
}  // namespace zuse::raidz_test

int main(int argc, char** argv) {
  using namespace zuse::raidz_test;
  try {
    Options options;
    if (const auto answer = parse(argc, argv, options)) {
      (answer->to_stderr ? std::cerr : std::cout) << answer->text;
      return answer->status;
    }
    if (options.list) {
      return list(options.json);
    }
    if (options.benchmark) {
      return benchmark(options);
    }
    if (options.sweep) {
      return sweep(options);
    }
    return run(options);
  } catch (const std::exception& error) {
    std::cerr << "raidz_test: " << error.what() << "\n";
    return 1;
  }
}
