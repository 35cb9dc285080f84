// The benchmark: every implementation and method over block sizes from 4 KiB to 16 MiB.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "raid/raidz_test/options.h"

namespace zuse::raidz_test {

struct Measurement {
  std::string implementation, method;
  unsigned data_columns = 0;
  std::size_t block = 0;       // bytes of data
  double disk_bandwidth = 0;   // MiB/s of one column
  double total_bandwidth = 0;  // MiB/s of all columns, parity included
  std::uint64_t iterations = 0;
};

// Prints rows as they come (or all as JSON). The exit status.
int benchmark(const Options& options);

// A chart a method: block size across, bandwidth upwards, a line an implementation.
std::string plot(const std::vector<Measurement>& measurements);

}  // namespace zuse::raidz_test
