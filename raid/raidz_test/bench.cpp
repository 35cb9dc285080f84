// See bench.h. Rows are those of OpenZFS's tool, so that one script reads both. source: its manual
// page, raidz_test(1).
#include "raid/raidz_test/bench.h"

#include <chrono>
#include <cstdio>
#include <deque>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "raid/raidz_test/verify.h"

namespace zuse::raidz_test {

namespace {

constexpr unsigned kSmallest = 12;
constexpr unsigned kLargest = 24;
// A measurement ends at this much data or this much time, whichever is first.
constexpr std::uint64_t kGenerateBytes = std::uint64_t{4} << 30;
constexpr std::uint64_t kRebuildBytes = std::uint64_t{512} << 20;
constexpr double kSeconds = 0.2;

template <class Work>
void measure(Measurement& result, std::uint64_t bytes, unsigned parities, std::size_t data_bytes,
             const Work& work) {
  work();  // warm
  const auto start = std::chrono::steady_clock::now();
  const std::uint64_t wanted = std::max<std::uint64_t>(1, bytes / result.block);
  double seconds = 0;
  // The clock is read once in about 256 KiB of data: often enough, and not measured itself.
  const std::uint64_t batch = std::max<std::uint64_t>(1, 262144 / result.block);
  while (result.iterations < wanted && seconds < kSeconds) {
    for (std::uint64_t i = 0; i < batch; ++i) {
      work();
    }
    result.iterations += batch;
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  const double mib = static_cast<double>(data_bytes) / result.data_columns / 1048576.0;
  result.disk_bandwidth = mib * static_cast<double>(result.iterations) / seconds;
  result.total_bandwidth = result.disk_bandwidth * (result.data_columns + parities);
}

// The block: one stripe, or the rows of an expanded one.
std::deque<Stripe> rows_of(const Geometry& block, const Options& options, std::mt19937_64& random) {
  std::deque<Stripe> rows;
  if (!options.expanded) {
    rows.emplace_back(block, random);
    return rows;
  }
  for (const Geometry& row : expanded_rows(block, options.reflow)) {
    rows.emplace_back(row, random);
  }
  return rows;
}

void print(const Measurement& row) {
  std::printf("%s, %s, %u, %zu, %.1f, %.1f, %llu\n", row.implementation.c_str(), row.method.c_str(),
              row.data_columns, row.block, row.disk_bandwidth, row.total_bandwidth,
              static_cast<unsigned long long>(row.iterations));
  std::fflush(stdout);
}

}  // namespace

int benchmark(const Options& options) {
  constexpr const char* kHeader = "impl, math, dcols, iosize, disk_bw, total_bw, iter\n";
  std::vector<Measurement> all;
  std::mt19937_64 random(options.seed);
  const auto add = [&](Measurement row) {
    if (!options.json) {
      print(row);
    }
    all.push_back(std::move(row));
  };
  if (!options.json) {
    std::cout << kHeader << std::flush;
  }
  for (const raid::Kernels* const kernels : options.chosen) {
    for (unsigned parities = 1; parities <= raid::kParityMax; ++parities) {
      for (unsigned exponent = kSmallest; exponent <= kLargest; ++exponent) {
        const std::size_t block = std::size_t{1} << exponent;
        const auto rows =
            rows_of({block, options.ashift, options.data_columns, 0}, options, random);
        std::size_t data_bytes = 0;
        for (const Stripe& stripe : rows) {
          data_bytes += stripe.data_bytes();
        }
        Measurement row{
            kernels->name, kGenerateMethods[parities - 1], options.data_columns, block, 0, 0, 0};
        measure(row, kGenerateBytes, parities, data_bytes, [&] {
          for (const Stripe& stripe : rows) {
            raid::generate(*kernels, stripe.data(), stripe.parity().first(parities));
          }
        });
        add(std::move(row));
      }
    }
  }
  if (!options.json) {
    std::cout << kHeader << std::flush;
  }
  for (const raid::Kernels* const kernels : options.chosen) {
    for (unsigned set = 1; set < kRebuildMethods.size(); ++set) {
      std::vector<unsigned> data;
      for (unsigned bits = set; bits != 0; bits &= bits - 1) {
        data.push_back(static_cast<unsigned>(data.size()));
      }
      if (data.size() > options.data_columns) {
        continue;
      }
      for (unsigned exponent = kSmallest; exponent <= kLargest; ++exponent) {
        const std::size_t block = std::size_t{1} << exponent;
        if (block / options.data_columns < std::size_t{1} << options.ashift) {
          continue;  // columns below a sector
        }
        const Stripe stripe({block, options.ashift, options.data_columns, 0}, random);
        Measurement row{kernels->name, kRebuildMethods[set], options.data_columns, block, 0, 0, 0};
        const auto missing = losses(set, data);
        // The parities that are not to be used count as lost; they are not made anew.
        measure(row, kRebuildBytes, raid::kParityMax, stripe.data_bytes(), [&] {
          raid::reconstruct_data(*kernels, stripe.columns(), raid::kParityMax, missing);
        });
        add(std::move(row));
      }
    }
  }
  if (options.json) {
    nlohmann::json rows = nlohmann::json::array();
    for (const Measurement& row : all) {
      rows.push_back({{"impl", row.implementation},
                      {"math", row.method},
                      {"dcols", row.data_columns},
                      {"iosize", row.block},
                      {"disk_bw", row.disk_bandwidth},
                      {"total_bw", row.total_bandwidth},
                      {"iter", row.iterations}});
    }
    std::cout << nlohmann::json{{"seed", options.seed}, {"rows", rows}}.dump(2) << "\n";
  }
  if (!options.plot.empty()) {
    std::ofstream file(options.plot);
    file << plot(all);
    if (!file.flush()) {
      std::cerr << "raidz_test: cannot write " << options.plot << "\n";
      return 1;
    }
  }
  return 0;
}

}  // namespace zuse::raidz_test
