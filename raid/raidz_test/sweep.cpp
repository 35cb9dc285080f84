// See sweep.h. Sizes, sectors and widths are those that OpenZFS's tool sweeps over, so that results
// can be compared. source: its manual page, raidz_test(1).
#include "raid/raidz_test/sweep.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iostream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "raid/raidz_test/verify.h"

namespace zuse::raidz_test {

namespace {

constexpr std::size_t kSizes[] = {512, 10752, 53248, 131072, 1048576 - 4096, std::size_t{16} << 20};
constexpr unsigned kShifts[] = {9, 12, 14};
constexpr unsigned kWidths[] = {1, 2, 3, 4, 5, 6, 7, 8, 12, 15, 16};

struct Failure {
  Geometry geometry;
  std::string implementation, check;
};

}  // namespace

int sweep(const Options& options) {
  std::vector<Geometry> cases;
  std::mt19937_64 random(options.seed);
  for (const std::size_t size : kSizes) {
    for (const unsigned shift : kShifts) {
      for (const unsigned width : kWidths) {
        if (const std::size_t sector = std::size_t{1} << shift; size >= sector) {
          const std::size_t offset = random() % 8 * sector % 4096;
          cases.push_back({size, shift, width, offset});
        }
      }
    }
  }
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::seconds(options.seconds.value_or(31536000));
  std::atomic<std::size_t> next{0};
  std::atomic<std::size_t> done{0};
  std::atomic<bool> failed{false};
  std::mutex mutex;  // guards failure and the output
  std::optional<Failure> failure;

  const auto work = [&] {
    for (;;) {
      const std::size_t index = next++;
      if (index >= cases.size() || failed || std::chrono::steady_clock::now() >= end) {
        return;
      }
      std::mt19937_64 own(options.seed + index);
      const bool skip = options.must_fail && own() % 4 == 0;
      Stripe stripe(cases[index], own);
      for (const raid::Kernels* const kernels : options.chosen) {
        for (const Check& check : verify(*kernels, stripe, skip, own())) {
          if (!check.passed && !failed.exchange(true)) {
            const std::lock_guard lock(mutex);
            failure = Failure{cases[index], kernels->name, check.name};
          }
        }
      }
      if (const std::size_t count = ++done; count % 20 == 0 && !options.json) {
        const std::lock_guard lock(mutex);
        std::cout << count << "/" << cases.size() << std::endl;
      }
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < std::max(2U, std::thread::hardware_concurrency()); ++i) {
    threads.emplace_back(work);
  }
  for (auto& thread : threads) {
    thread.join();
  }

  if (options.json) {
    nlohmann::json report{{"seed", options.seed},
                          {"cases", cases.size()},
                          {"done", done.load()},
                          {"passed", !failure}};
    if (failure) {
      report["failure"] = {
          {"impl", failure->implementation},         {"check", failure->check},
          {"size", failure->geometry.size},          {"ashift", failure->geometry.ashift},
          {"dcols", failure->geometry.data_columns}, {"offset", failure->geometry.offset}};
    }
    std::cout << report.dump(2) << "\n";
  } else if (failure) {
    std::cout << "FAIL: " << failure->implementation << " " << failure->check << " with size "
              << failure->geometry.size << " ashift " << failure->geometry.ashift
              << " data columns " << failure->geometry.data_columns << " offset "
              << failure->geometry.offset << " (--seed " << options.seed << ")\n";
  } else if (done < cases.size()) {
    std::cout << "time over: " << done << " of " << cases.size() << " cases, all passed\n";
  } else {
    std::cout << "all " << cases.size() << " cases passed\n";
  }
  return failure ? 2 : 0;
}

}  // namespace zuse::raidz_test
