// What is compiled in and what this CPU can run. This file is built for the baseline CPU, so asking
// is always safe.
#include "raid/registry.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
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
    {&kGfniAvx2,
     [] {
       return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("gfni") != 0 &&
              __builtin_cpu_supports("avx512bw") == 0;
     }},
    {&kGfni,
     [] {
       return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
              __builtin_cpu_supports("gfni") != 0;
     }},
#endif
};

std::string names() {
  std::string list = "fastest, cycle";
  for (const Compiled& entry : kCompiled) {
    if (entry.kernels != &kGfniAvx2) {  // has the name of the next
      list += std::string(", ") + entry.kernels->name;
    }
  }
  return list;
}

// Where measuring happens: columns of up to 128 KiB, page after page, none starting in the same
// set of a cache.
class Bench {
 public:
  static constexpr unsigned kData = 8;
  static constexpr std::size_t kColumn = 131072;
  static constexpr std::size_t kPitch = kColumn + 4096 + 64;

  Bench() : memory_((kData + kParityMax) * kPitch + kKernelStep, std::byte{0x5a}) {
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
    const std::size_t skip = (kKernelStep - address % kKernelStep) % kKernelStep;
    for (unsigned i = 0; i < kData; ++i) {
      data_[i] = memory_.data() + skip + i * kPitch;
    }
    for (unsigned i = 0; i < kParityMax; ++i) {
      parity_[i] = memory_.data() + skip + (kData + i) * kPitch;
    }
  }

  // Seconds of `calls` calls of kMethods[method] on columns of so many bytes.
  double seconds(const Kernels& kernels, std::size_t method, std::size_t bytes, int calls) const {
    using Clock = std::chrono::steady_clock;
    if (method < kParityMax) {
      const Row row{data_.data(), parity_.data(), kData, bytes, false};
      const auto start = Clock::now();
      for (int call = 0; call < calls; ++call) {
        kernels.generate[method](row);
      }
      return std::chrono::duration<double>(Clock::now() - start).count();
    }
    const auto set = static_cast<unsigned>(method) - kParityMax + 1;
    std::array<const std::byte*, kData> there = data_;
    std::array<std::byte*, kParityMax> out{};
    for (int i = 0; i < std::popcount(set); ++i) {
      const unsigned missing[]{1, 4, 6};
      out[i] = memory_at(there[missing[i]]);
      there[missing[i]] = nullptr;
    }
    const Rebuild work{there.data(), parity_.data(),
                       out.data(),   kData,
                       bytes,        {{17, 34, 51}, {85, 102, 119}, {153, 170, 187}}};
    const auto start = Clock::now();
    for (int call = 0; call < calls; ++call) {
      kernels.rebuild[set](work);
    }
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

 private:
  std::byte* memory_at(const std::byte* at) const {
    return const_cast<std::byte*>(memory_.data()) + (at - memory_.data());
  }
  std::vector<std::byte> memory_;
  std::array<const std::byte*, kData> data_{};
  std::array<std::byte*, kParityMax> parity_{};
};

FastestChoice measure_fastest() {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  struct Size {
    std::size_t bytes;
    int calls, tries;
  };
  constexpr std::array<Size, kFastestSizes.size()> kSizes{
      {{512, 16, 5}, {16384, 1, 5}, {131072, 1, 3}}};
  constexpr double kClose = 1.05;
  constexpr double kHopeless = 1.6;  // so many times the best: not tried again, or larger

  std::vector<const Kernels*> candidates = usable();
  std::erase_if(candidates, [](const Kernels* kernels) {
    return kernels == &kOriginal || !self_test(*kernels);
  });
  FastestChoice choice;
  if (candidates.empty()) {
    for (auto& sizes : choice.by_method) {
      sizes.fill(&kOriginal);
    }
    return choice;
  }
  const Bench bench;
  for (std::size_t method = 0; method < kMethods.size(); ++method) {
    std::vector<std::pair<double, const Kernels*>> running;
    for (auto kernels = candidates.rbegin(); kernels != candidates.rend(); ++kernels) {
      running.emplace_back(0, *kernels);
    }
    for (std::size_t size = 0; size < kSizes.size(); ++size) {
      for (auto& [best, kernels] : running) {
        best = std::numeric_limits<double>::max();
      }
      for (int attempt = 0; attempt < kSizes[size].tries; ++attempt) {
        for (auto& [best, kernels] : running) {
          best = std::min(best,
                          bench.seconds(*kernels, method, kSizes[size].bytes, kSizes[size].calls));
        }
        const double limit = kHopeless * std::ranges::min(running).first;
        std::erase_if(running, [=](const auto& one) { return one.first > limit; });
      }
      // A wider one that is as good, but for what measurements differ by, is the better guess.
      const double close = kClose * std::ranges::min(running).first;
      choice.by_method[method][size] = std::ranges::find_if(running, [=](const auto& one) {
                                         return one.first <= close;
                                       })->second;
    }
  }
  choice.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return choice;
}

// One table a size, of the best of each method.
std::array<Kernels, kFastestSizes.size()> composed(const FastestChoice& choice) {
  std::array<Kernels, kFastestSizes.size()> tables{};
  for (std::size_t size = 0; size < tables.size(); ++size) {
    tables[size] = *choice.by_method[1][size];
    tables[size].name = "fastest";
    for (std::size_t method = 0; method < kMethods.size(); ++method) {
      const Kernels& best = *choice.by_method[method][size];
      if (method < kParityMax) {
        tables[size].generate[method] = best.generate[method];
      } else {
        const std::size_t set = method - kParityMax + 1;
        tables[size].rebuild[set] = best.rebuild[set];
      }
    }
  }
  return tables;
}

const Kernels& pick_fastest(std::size_t column_bytes) noexcept {
  static const auto tables = composed(fastest_choice());
  std::size_t size = 0;
  while (column_bytes > kFastestSizes[size]) {
    ++size;
  }
  return tables[size];
}

const Kernels& pick_next(std::size_t) noexcept {
  static const auto all = usable();
  static std::atomic<std::size_t> turn{0};
  return *all[turn.fetch_add(1, std::memory_order_relaxed) % all.size()];
}

constexpr Kernels kFastest{
    .name = "fastest", .generate = {}, .mul_add = nullptr, .rebuild = {}, .pick = pick_fastest};
constexpr Kernels kCycle{
    .name = "cycle", .generate = {}, .mul_add = nullptr, .rebuild = {}, .pick = pick_next};

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
  if (name == kFastest.name) {
    return &fastest();
  }
  if (name == kCycle.name) {
    return &kCycle;
  }
  bool known = false;
  for (const Compiled& entry : kCompiled) {
    if (name == entry.kernels->name) {
      known = true;
      if (entry.usable()) {
        return entry.kernels;
      }
    }
  }
  if (known) {
    return std::unexpected("this CPU cannot run the parity implementation '" + std::string(name) +
                           "'");
  }
  return std::unexpected("no parity implementation is called '" + std::string(name) +
                         "'; there are " + names());
}

const Kernels& fastest() {
  pick_fastest(0);  // measures now, not amid the first write
  return kFastest;
}

const FastestChoice& fastest_choice() {
  static const FastestChoice choice = measure_fastest();
  return choice;
}

std::string fastest_in_words() {
  const FastestChoice& choice = fastest_choice();
  const Kernels* const usual = choice.by_method[1][1];
  std::string rest;
  for (std::size_t method = 0; method < kMethods.size(); ++method) {
    for (std::size_t size = 0; size < kFastestSizes.size(); ++size) {
      if (const Kernels* const one = choice.by_method[method][size]; one != usual) {
        rest += std::string(rest.empty() ? " (" : ", ") + kMethods[method] + " " +
                std::array{"small", "medium", "large"}[size] + ": " + one->name;
      }
    }
  }
  return usual->name + rest + (rest.empty() ? "" : ")");
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
