// What is compiled in and what this CPU can run. This file is built for the baseline CPU, so asking
// is always safe.
#include "raid/registry.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <limits>

#include "raid/gf256.h"
#include "raid/implementations.h"
#include "raid/raidz_math.h"

namespace zuse::raid {

namespace {

// Slowest first; a new implementation adds one line here.
constexpr Compiled kCompiled[] = {
    {&kOriginal, [] { return true; }},
    {&kScalar, [] { return true; }},
#if defined(__x86_64__)
    {&kSse2, [] { return __builtin_cpu_supports("sse2") != 0; }},
    {&kSsse3, [] { return __builtin_cpu_supports("ssse3") != 0; }},
    {&kAvx2, [] { return __builtin_cpu_supports("avx2") != 0; }},
    {&kAvx512f, [] { return __builtin_cpu_supports("avx512f") != 0; }},
    {&kAvx512bw,
     [] {
       return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0;
     }},
    {&kGfni,
     [] { return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("gfni") != 0; }},
#endif
};

std::string names() {
  std::string list = "fastest";
  for (const Compiled& entry : kCompiled) {
    list += std::string(", ") + entry.kernels->name;
  }
  return list;
}

// Seconds for some rounds of P and Q over four columns of 32 KiB, the best of a few tries.
double seconds_needed(const Kernels& kernels) {
  constexpr std::size_t kSize = 32768;
  constexpr unsigned kData = 4;
  std::vector<std::byte> memory((kData + 2) * kSize + kKernelStep, std::byte{0x5a});
  std::array<ColumnView, kData> data;
  std::array<MutableColumn, 2> parity;
  for (unsigned i = 0; i < kData; ++i) {
    data[i] = std::span(memory).subspan(i * kSize, kSize);
  }
  for (unsigned i = 0; i < 2; ++i) {
    parity[i] = std::span(memory).subspan((kData + i) * kSize, kSize);
  }
  double best = std::numeric_limits<double>::max();
  for (int attempt = 0; attempt < 5; ++attempt) {
    const auto start = std::chrono::steady_clock::now();
    for (int round = 0; round < 4; ++round) {
      generate(kernels, data, parity);
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count());
  }
  return best;
}

const Kernels& measure_fastest() {
  const Kernels* fastest = &kOriginal;
  double best = std::numeric_limits<double>::max();
  for (const Kernels* const kernels : usable()) {
    if (kernels == &kOriginal || !self_test(*kernels)) {
      continue;
    }
    if (const double seconds = seconds_needed(*kernels); seconds < best) {
      best = seconds;
      fastest = kernels;
    }
  }
  return *fastest;
}

}  // namespace

std::span<const Compiled> compiled() {
  return kCompiled;
}

std::vector<const Kernels*> usable() {
  std::vector<const Kernels*> result;
  for (const Compiled& entry : kCompiled) {
    if (entry.usable()) {
      result.push_back(entry.kernels);
    }
  }
  return result;
}

std::expected<const Kernels*, std::string> choose(std::string_view name) {
  if (name == "fastest") {
    return &fastest();
  }
  for (const Compiled& entry : kCompiled) {
    if (name == entry.kernels->name) {
      if (!entry.usable()) {
        return std::unexpected("this CPU cannot run the parity implementation '" +
                               std::string(name) + "'");
      }
      return entry.kernels;
    }
  }
  return std::unexpected("no parity implementation is called '" + std::string(name) +
                         "'; there are " + names());
}

const Kernels& fastest() {
  static const Kernels& kernels = measure_fastest();
  return kernels;
}

std::expected<void, std::string> self_test(const Kernels& kernels) {
  constexpr unsigned kParities = 3;
  constexpr unsigned kData = 5;
  constexpr unsigned kColumns = kParities + kData;
  constexpr std::size_t kSize = 4 * kKernelStep + 5;
  using Columns = std::array<std::array<std::byte, kSize>, kColumns>;
  Columns good;
  std::uint64_t state = 0x9e3779b97f4a7c15U;
  for (std::size_t at = 0; at < kSize; ++at) {
    std::array<std::uint8_t, kParities> sums{};
    for (unsigned i = 0; i < kData; ++i) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      const auto value = static_cast<std::uint8_t>(state >> 56U);
      good[kParities + i][at] = std::byte{value};
      for (unsigned row = 0; row < kParities; ++row) {
        sums[row] = static_cast<std::uint8_t>(sums[row] ^ mul(value, exp2(row * (kData - 1 - i))));
      }
    }
    for (unsigned row = 0; row < kParities; ++row) {
      good[row][at] = std::byte{sums[row]};
    }
  }
  const auto check = [&](std::span<const unsigned> missing) -> bool {
    Columns columns = good;
    std::array<MutableColumn, kColumns> views;
    for (unsigned i = 0; i < kColumns; ++i) {
      views[i] = columns[i];
    }
    for (const unsigned column : missing) {
      columns[column].fill(std::byte{0xaa});
    }
    return reconstruct(kernels, views, kParities, missing) && columns == good;
  };
  for (unsigned a = 0; a < kColumns; ++a) {
    for (unsigned b = a; b < kColumns; ++b) {
      for (unsigned c = b; c < kColumns; ++c) {
        const std::array<unsigned, 3> three{a, b, c};
        const unsigned count = a == b ? (b == c ? 1U : 0U) : (b == c ? 2U : 3U);
        if (count != 0 && !check(std::span(three).first(count))) {
          return std::unexpected(std::string(kernels.name) + " rebuilds columns " +
                                 std::to_string(a) + ", " + std::to_string(b) + ", " +
                                 std::to_string(c) + " wrongly");
        }
      }
    }
  }
  return {};
}

}  // namespace zuse::raid
