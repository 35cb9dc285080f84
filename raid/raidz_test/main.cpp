// raidz_test: proves that all parity implementations agree and rebuild every loss, and times them.
// Exit status: 0 all is well, 1 bad usage or a failed check, 2 a failed sweep.
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <deque>
#include <iomanip>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "raid/raidz_test/bench.h"
#include "raid/raidz_test/options.h"
#include "raid/raidz_test/sweep.h"
#include "raid/raidz_test/verify.h"
#include "raid/registry.h"

namespace zuse::raidz_test {
namespace {

int list(bool json) {
  std::vector<std::pair<std::string, bool>> rows;
  for (const raid::Compiled& entry : raid::compiled()) {
    if (rows.empty() || rows.back().first != entry.kernels->name) {
      rows.emplace_back(entry.kernels->name, false);
    }
    rows.back().second = rows.back().second || entry.usable();
  }
  const raid::FastestChoice& fastest = raid::fastest_choice();
  constexpr std::array kSizes{"small", "medium", "large"};
  if (json) {
    nlohmann::json report{{"implementations", nlohmann::json::array()},
                          {"fastest", nlohmann::json::object()},
                          {"fastest_seconds", fastest.seconds}};
    for (const auto& [name, usable] : rows) {
      report["implementations"].push_back({{"impl", name}, {"usable", usable}});
    }
    for (std::size_t method = 0; method < raid::kMethods.size(); ++method) {
      for (std::size_t size = 0; size < kSizes.size(); ++size) {
        report["fastest"][raid::kMethods[method]][kSizes[size]] =
            fastest.by_method[method][size]->name;
      }
    }
    std::cout << report.dump(2) << "\n";
    return 0;
  }
  for (const auto& [name, usable] : rows) {
    std::cout << name << (usable ? "" : " (this CPU cannot run it)") << "\n";
  }
  std::cout << "\nfastest, measured in " << std::fixed << std::setprecision(1)
            << fastest.seconds * 1000 << " ms, for columns of up to 2K, up to 64K, above:\n";
  for (std::size_t method = 0; method < raid::kMethods.size(); ++method) {
    std::cout << std::left << std::setw(8) << raid::kMethods[method];
    for (const raid::Kernels* const kernels : fastest.by_method[method]) {
      std::cout << " " << std::setw(9) << kernels->name;
    }
    std::cout << "\n";
  }
  return 0;
}

// A crash, under the debugger: gdb is started on this process, which waits for it to go.
extern "C" void attach_debugger(int signal) {
  std::array<char, 16> process{};
  std::snprintf(process.data(), process.size(), "%d", static_cast<int>(getpid()));
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
  if (const pid_t child = fork(); child == 0) {
    execlp("gdb", "gdb", "-q", "-p", process.data(), static_cast<char*>(nullptr));
    _exit(127);
  } else if (child > 0) {
    int status = 0;
    waitpid(child, &status, 0);
  }
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

// The checks of one implementation on all stripes, by name.
std::vector<Check> verify_all(const raid::Kernels& kernels, std::deque<Stripe>& stripes,
                              const Options& options) {
  std::vector<Check> sum;
  for (Stripe& stripe : stripes) {
    for (Check& check : verify(kernels, stripe, options.must_fail, options.seed)) {
      const auto same =
          std::ranges::find_if(sum, [&](const Check& one) { return one.name == check.name; });
      if (same == sum.end()) {
        sum.push_back(std::move(check));
      } else {
        same->passed = same->passed && check.passed;
        same->cases += check.cases;
        std::ranges::move(check.failures, std::back_inserter(same->failures));
      }
    }
  }
  return sum;
}

// One block, every implementation.
int run(const Options& options) {
  const std::size_t offset =
      (std::size_t{1} << options.offset_exponent) / 512 * 512 % 4096;  // of a page
  std::mt19937_64 random(options.seed);
  const Geometry block{std::size_t{1} << options.size_exponent, options.ashift,
                       options.data_columns, offset};
  std::deque<Stripe> stripes;
  if (options.expanded) {
    for (const Geometry& row : expanded_rows(block, options.reflow)) {
      stripes.emplace_back(row, random);
    }
  } else {
    stripes.emplace_back(block, random);
  }
  std::size_t data_bytes = 0;
  for (const Stripe& stripe : stripes) {
    data_bytes += stripe.data_bytes();
  }
  bool passed = true;
  nlohmann::json report{{"seed", options.seed}, {"checks", nlohmann::json::array()}};
  if (!options.json) {
    std::cout << "seed " << options.seed << ", " << stripes[0].data_columns() << " data columns, "
              << data_bytes << " bytes";
    if (options.expanded) {
      std::cout << " in " << stripes.size() << " rows";
    }
    std::cout << "\n";
    for (const raid::Compiled& entry : raid::compiled()) {
      if (options.verbosity > 0 && !entry.usable()) {
        std::cout << entry.kernels->name << " SKIP: this CPU cannot run it\n";
      }
    }
  }
  for (const raid::Kernels* const kernels : options.chosen) {
    bool own = true;
    for (const Check& check : verify_all(*kernels, stripes, options)) {
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
    if (options.debugger) {
      std::signal(SIGSEGV, attach_debugger);
      std::signal(SIGABRT, attach_debugger);
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
