// How fast parity is made and columns are rebuilt: every implementation, Intel's ISA-L where it is
// installed, and the limit, a loop that reads and writes the same bytes and only XORs. All in one
// run, cell after cell in rounds, the median of the rounds; time is the thread's own. What counts
// are the ratios at the end.
//
// Speeds are GB/s of data columns: data_columns * column_bytes a call.
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "raid/gf256.h"
#include "raid/raidz_math.h"
#include "raid/registry.h"
#include "tests/bench/parity/limits.h"
#ifdef ZUSE_WITH_ISAL
#include <isa-l.h>
#endif

namespace zuse::bench {

const Limits* limits() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") != 0) {
    return &kLimitsAvx512;
  }
  return __builtin_cpu_supports("avx2") != 0 ? &kLimitsAvx2 : &kLimitsSse2;
#else
  return nullptr;
#endif
}

namespace {

using raid::ColumnView;
using raid::kParityMax;
using raid::MutableColumn;

struct Settings {
  unsigned data_columns = 8;
  int rounds = 5;
  int milliseconds = 10;
  std::size_t ring_mib = 256;
};

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Memory in huge pages where there are any, and stripes laid out in it.
class Arena {
 public:
  explicit Arena(std::size_t bytes) : bytes_(bytes) {
    void* const at =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) {
      throw std::bad_alloc();
    }
    madvise(at, bytes, MADV_HUGEPAGE);
    memory_ = static_cast<std::byte*>(at);
    std::mt19937_64 random(1);
    for (std::size_t i = 0; i < bytes; i += sizeof(std::uint64_t)) {
      const std::uint64_t word = random();
      std::memcpy(memory_ + i, &word, sizeof word);
    }
  }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena() { munmap(memory_, bytes_); }
  std::byte* at(std::size_t offset) const { return memory_ + offset; }
  std::size_t size() const { return bytes_; }

 private:
  std::size_t bytes_;
  std::byte* memory_ = nullptr;
};

// Parity first, then data.
struct Stripe {
  std::vector<MutableColumn> columns;
  std::vector<ColumnView> data;
  std::vector<const std::byte*> data_at;
  std::array<std::byte*, kParityMax> parity_at{};

  Stripe(std::byte* at, unsigned data_columns, std::size_t bytes) {
    const std::size_t step = pitch(bytes);
    for (unsigned i = 0; i < kParityMax + data_columns; ++i) {
      // Data lies in front of the parity, as a block and what is computed from it.
      const unsigned place = i < kParityMax ? data_columns + i : i - kParityMax;
      columns.emplace_back(at + place * step, bytes);
      if (i < kParityMax) {
        parity_at[i] = columns.back().data();
      } else {
        data.emplace_back(columns.back());
        data_at.push_back(columns.back().data());
      }
    }
  }
  // Not all columns start in the same set of the cache.
  static std::size_t pitch(std::size_t bytes) {
    return bytes < 4096 ? bytes : (bytes + 4095) / 4096 * 4096 + 64;
  }
  static std::size_t room(unsigned data_columns, std::size_t bytes) {
    return ((data_columns + kParityMax) * pitch(bytes) + 4095) / 4096 * 4096;
  }
};

struct Cell {
  std::string method, by;
  std::function<void(const Stripe&)> work;
  std::vector<double> rounds;  // GB/s
  double median() const {
    auto sorted = rounds;
    std::ranges::sort(sorted);
    return sorted[sorted.size() / 2];
  }
};

// Lost data columns of the recoveries, and the parities that stay.
constexpr std::array<unsigned, 3> kLost{1, 2, 3};

std::vector<unsigned> missing_for(unsigned set) {
  std::vector<unsigned> missing;
  for (unsigned row = 0; row < std::bit_width(set); ++row) {
    if ((set >> row & 1U) == 0) {
      missing.push_back(row);
    }
  }
  for (int i = 0; i < std::popcount(set); ++i) {
    missing.push_back(kParityMax + kLost[static_cast<std::size_t>(i)]);
  }
  return missing;
}

void add_ours(std::deque<Cell>& cells, const raid::Kernels& kernels) {
  const std::string name = kernels.name;
  for (std::size_t method = 0; method < raid::kMethods.size(); ++method) {
    if (method < kParityMax) {
      cells.push_back({raid::kMethods[method],
                       name,
                       [&kernels, count = method + 1](const Stripe& stripe) {
                         raid::generate(kernels, stripe.data,
                                        std::span(stripe.columns).first(count));
                       },
                       {}});
    } else {
      cells.push_back({raid::kMethods[method],
                       name,
                       [&kernels, missing = missing_for(static_cast<unsigned>(method) - 2)](
                           const Stripe& stripe) {
                         raid::reconstruct_data(kernels, stripe.columns, kParityMax, missing);
                       },
                       {}});
    }
  }
}

void add_limits(std::deque<Cell>& cells) {
  const Limits* const best = limits();
  if (best == nullptr) {
    return;
  }
  for (unsigned count = 1; count <= 3; ++count) {
    cells.push_back({raid::kMethods[count - 1],
                     "limit",
                     [best, count](const Stripe& stripe) {
                       best->xor_to[count - 1](stripe.data_at.data(),
                                               static_cast<unsigned>(stripe.data_at.size()),
                                               stripe.parity_at.data(), stripe.columns[0].size());
                     },
                     {}});
  }
}

#ifdef ZUSE_WITH_ISAL
// ISA-L counts powers from the first column, so its rows are given the columns the other way round.
class Isal {
 public:
  explicit Isal(unsigned data_columns) : k_(data_columns) {
    for (unsigned row = 0; row < kParityMax; ++row) {
      for (unsigned i = 0; i < k_; ++i) {
        rows_[row].push_back(raid::exp2(row * (k_ - 1 - i)));
      }
    }
    std::vector<unsigned char> all;
    for (const auto& row : rows_) {
      all.insert(all.end(), row.begin(), row.end());
    }
    tables_.resize(32UL * k_ * kParityMax);
    ec_init_tables(static_cast<int>(k_), kParityMax, all.data(), tables_.data());
  }

  void add(std::deque<Cell>& cells) {
    cells.push_back({"gen_p", "isa-l", [this](const Stripe& stripe) { xor_or_pq(stripe, 1); }, {}});
    cells.push_back(
        {"gen_pq", "isa-l", [this](const Stripe& stripe) { xor_or_pq(stripe, 2); }, {}});
    cells.push_back({"gen_pqr",
                     "isa-l",
                     [this](const Stripe& stripe) {
                       std::array<unsigned char*, raid::kDataColumnsMax> from;
                       std::array<unsigned char*, kParityMax> into;
                       for (unsigned i = 0; i < k_; ++i) {
                         from[i] = bytes(stripe.data_at[i]);
                       }
                       for (unsigned i = 0; i < kParityMax; ++i) {
                         into[i] = bytes(stripe.parity_at[i]);
                       }
                       ec_encode_data(static_cast<int>(stripe.columns[0].size()),
                                      static_cast<int>(k_), kParityMax, tables_.data(), from.data(),
                                      into.data());
                     },
                     {}});
    for (unsigned set = 1; set < 8; ++set) {
      std::vector<unsigned> parities;
      for (unsigned row = 0; row < kParityMax; ++row) {
        if ((set >> row & 1U) != 0) {
          parities.push_back(row);
        }
      }
      decoders_.push_back(decoder(parities));
      cells.push_back({raid::kMethods[kParityMax + set - 1],
                       "isa-l",
                       [this, parities, tables = &decoders_.back()](const Stripe& stripe) {
                         recover(stripe, parities, *tables);
                       },
                       {}});
    }
  }

 private:
  static unsigned char* bytes(const std::byte* at) {
    return const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(at));
  }
  void xor_or_pq(const Stripe& stripe, unsigned parities) const {
    std::array<void*, raid::kDataColumnsMax + 2> all;
    for (unsigned i = 0; i < k_; ++i) {
      all[i] = bytes(stripe.data_at[k_ - 1 - i]);
    }
    for (unsigned i = 0; i < parities; ++i) {
      all[k_ + i] = bytes(stripe.parity_at[i]);
    }
    const auto size = static_cast<int>(stripe.columns[0].size());
    if (parities == 1) {
      xor_gen(static_cast<int>(k_) + 1, size, all.data());
    } else {
      pq_gen(static_cast<int>(k_) + 2, size, all.data());
    }
  }
  // Tables that make the lost columns from the others: survivors in order, then these parities.
  std::vector<unsigned char> decoder(const std::vector<unsigned>& parities) const {
    std::vector<unsigned char> matrix;
    const auto lost = [&](unsigned i) {
      return std::find(kLost.begin(), kLost.begin() + static_cast<long>(parities.size()), i) !=
             kLost.begin() + static_cast<long>(parities.size());
    };
    for (unsigned i = 0; i < k_; ++i) {
      if (!lost(i)) {
        for (unsigned j = 0; j < k_; ++j) {
          matrix.push_back(i == j);
        }
      }
    }
    for (const unsigned row : parities) {
      matrix.insert(matrix.end(), rows_[row].begin(), rows_[row].end());
    }
    std::vector<unsigned char> inverse(matrix.size());
    gf_invert_matrix(matrix.data(), inverse.data(), static_cast<int>(k_));
    std::vector<unsigned char> chosen;
    for (std::size_t i = 0; i < parities.size(); ++i) {
      const auto row = inverse.begin() + static_cast<long>(kLost[i] * k_);
      chosen.insert(chosen.end(), row, row + static_cast<long>(k_));
    }
    std::vector<unsigned char> tables(32UL * k_ * parities.size());
    ec_init_tables(static_cast<int>(k_), static_cast<int>(parities.size()), chosen.data(),
                   tables.data());
    return tables;
  }
  void recover(const Stripe& stripe, const std::vector<unsigned>& parities,
               const std::vector<unsigned char>& tables) const {
    std::array<unsigned char*, raid::kDataColumnsMax> from;
    std::array<unsigned char*, kParityMax> into;
    unsigned sources = 0;
    unsigned lost = 0;
    for (unsigned i = 0; i < k_; ++i) {
      if (lost < parities.size() && kLost[lost] == i) {
        into[lost++] = bytes(stripe.data_at[i]);
      } else {
        from[sources++] = bytes(stripe.data_at[i]);
      }
    }
    for (const unsigned row : parities) {
      from[sources++] = bytes(stripe.parity_at[row]);
    }
    ec_encode_data(static_cast<int>(stripe.columns[0].size()), static_cast<int>(k_),
                   static_cast<int>(lost), const_cast<unsigned char*>(tables.data()), from.data(),
                   into.data());
  }

  unsigned k_;
  std::array<std::vector<unsigned char>, kParityMax> rows_;
  std::vector<unsigned char> tables_;
  std::deque<std::vector<unsigned char>> decoders_;
};
#endif

double measure(const Cell& cell, const std::vector<Stripe>& stripes, int milliseconds) {
  const double bytes =
      static_cast<double>(stripes[0].columns[0].size() * stripes[0].data_at.size());
  const auto batch = static_cast<std::size_t>(std::max(1.0, 262144 / bytes));
  std::size_t next = 0;
  const auto turn = [&] {
    for (std::size_t i = 0; i < batch; ++i) {
      cell.work(stripes[next]);
      next = next + 1 == stripes.size() ? 0 : next + 1;
    }
  };
  turn();
  std::size_t calls = 0;
  const double start = thread_seconds();
  double took = 0;
  do {
    turn();
    calls += batch;
    took = thread_seconds() - start;
  } while (took * 1000 < milliseconds || (stripes.size() > 1 && calls < stripes.size()));
  return bytes * static_cast<double>(calls) / took / 1e9;
}

// GB/s by method and name.
using Results = std::map<std::pair<std::string, std::string>, double>;

Results run(std::deque<Cell>& cells, const std::vector<Stripe>& stripes, const Settings& settings) {
  for (Cell& cell : cells) {
    cell.rounds.clear();
  }
  for (int round = 0; round < settings.rounds; ++round) {
    for (Cell& cell : cells) {
      cell.rounds.push_back(measure(cell, stripes, settings.milliseconds));
    }
  }
  Results results;
  for (const Cell& cell : cells) {
    results[{cell.method, cell.by}] = cell.median();
  }
  return results;
}

void print(const std::deque<Cell>& cells, const Results& results) {
  std::vector<std::string> names;
  for (const Cell& cell : cells) {
    if (std::ranges::find(names, cell.by) == names.end()) {
      names.push_back(cell.by);
    }
  }
  std::printf("%-8s", "GB/s");
  for (const auto& name : names) {
    std::printf("%10s", name.c_str());
  }
  std::printf("\n");
  for (const char* const method : raid::kMethods) {
    std::printf("%-8s", method);
    for (const auto& name : names) {
      const auto found = results.find({method, name});
      if (found == results.end()) {
        std::printf("%10s", "-");
      } else {
        std::printf("%10.2f", found->second);
      }
    }
    std::printf("\n");
  }
}

struct Goal {
  std::string what;
  double ratio, goal;
};

class Goals {
 public:
  void add(const std::string& what, const Results& results, const std::string& method,
           const std::string& than, double goal) {
    const auto mine = results.find({method, "fastest"});
    const auto theirs = results.find({method, than});
    if (mine != results.end() && theirs != results.end()) {
      goals_.push_back({what + " " + method + " / " + than, mine->second / theirs->second, goal});
    }
  }
  void add(const std::string& what, double ratio, double goal) {
    goals_.push_back({what, ratio, goal});
  }
  // How many were missed.
  int print() const {
    int missed = 0;
    std::printf("\n%-44s %7s %7s\n", "ratio (fastest)", "seen", "goal");
    for (const Goal& goal : goals_) {
      const bool met = goal.ratio >= goal.goal;
      missed += met ? 0 : 1;
      std::printf("%-44s %7.2f %7.2f %s\n", goal.what.c_str(), goal.ratio, goal.goal,
                  met ? "" : "below");
    }
    std::printf("%d of %zu goals missed\n", missed, goals_.size());
    return missed;
  }

 private:
  std::vector<Goal> goals_;
};

std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  std::string line;
  while (std::getline(info, line)) {
    if (line.starts_with("model name")) {
      return line.substr(line.find(':') + 2);
    }
  }
  return "unknown CPU";
}

// Generation out of memory: a ring of stripes that no cache holds.
void memory_bound(const Arena& arena, const Settings& settings, Goals& goals) {
  const Limits* const best = limits();
  const std::size_t column = 131072 / settings.data_columns / 256 * 256;
  const std::size_t room = Stripe::room(settings.data_columns, column);
  std::vector<Stripe> ring;
  for (std::size_t at = 0; at + room <= arena.size() && at < settings.ring_mib << 20; at += room) {
    ring.emplace_back(arena.at(at), settings.data_columns, column);
  }
  std::deque<Cell> cells;
  for (std::size_t count = 1; count <= 3; ++count) {
    const char* const method = raid::kMethods[count - 1];
    for (const auto stores : {raid::Stores::cached, raid::Stores::streaming}) {
      const bool cached = stores == raid::Stores::cached;
      cells.push_back({method,
                       cached ? "cached" : "streaming",
                       [count, stores](const Stripe& stripe) {
                         raid::generate(raid::fastest(), stripe.data,
                                        std::span(stripe.columns).first(count), stores);
                       },
                       {}});
      if (best != nullptr) {
        const auto* const loops = cached ? best->xor_to : best->xor_to_streaming;
        cells.push_back({method,
                         cached ? "limit" : "limit-nt",
                         [loops, count](const Stripe& stripe) {
                           loops[count - 1](stripe.data_at.data(),
                                            static_cast<unsigned>(stripe.data_at.size()),
                                            stripe.parity_at.data(), stripe.columns[0].size());
                         },
                         {}});
      }
    }
  }
  const Results results = run(cells, ring, settings);
  std::printf("\n128 KiB, out of a ring of %zu MiB\n", settings.ring_mib);
  print(cells, results);
  if (best != nullptr) {
    for (const char* const method : {"gen_p", "gen_pq"}) {
      const auto of = [&](const char* by) { return results.at({method, by}); };
      goals.add(std::string("ring ") + method + " / better limit",
                std::max(of("cached"), of("streaming")) / std::max(of("limit"), of("limit-nt")),
                0.95);
    }
  }
}

void memory_speed(const Arena& arena, const Settings& settings) {
  std::printf("\n%-10s %12s %12s\n", "bytes", "read GB/s", "memcpy GB/s");
  for (const std::size_t size : {std::size_t{32} << 10, std::size_t{256} << 10,
                                 std::size_t{8} << 20, settings.ring_mib << 20}) {
    std::array<std::vector<double>, 2> rounds;
    for (int round = 0; round < settings.rounds; ++round) {
      for (int kind = 0; kind < 2; ++kind) {
        const double start = thread_seconds();
        double took = 0;
        double bytes = 0;
        do {
          if (kind == 0 && limits() != nullptr) {
            volatile std::byte sink = limits()->read(arena.at(0), size);
            static_cast<void>(sink);
            bytes += static_cast<double>(size);
          } else {
            std::memcpy(arena.at(size / 2), arena.at(0), size / 2);
            bytes += static_cast<double>(size / 2);
          }
          took = thread_seconds() - start;
        } while (took * 1000 < settings.milliseconds);
        rounds[static_cast<std::size_t>(kind)].push_back(bytes / took / 1e9);
      }
    }
    for (auto& kind : rounds) {
      std::ranges::sort(kind);
    }
    std::printf("%-10zu %12.2f %12.2f\n", size, rounds[0][rounds[0].size() / 2],
                rounds[1][rounds[1].size() / 2]);
  }
}

int bench(const Settings& settings, bool check) {
  std::printf("%s; %u data columns; medians of %d; fastest: %s (chosen in %.1f ms)\n",
              cpu_name().c_str(), settings.data_columns, settings.rounds,
              raid::fastest_in_words().c_str(), raid::fastest_choice().seconds * 1000);
  if (limits() != nullptr) {
    std::printf("limit: XOR of the same columns with %s\n", limits()->name);
  }
  const Arena arena(std::max(settings.ring_mib << 20, std::size_t{64} << 20));
  std::deque<Cell> cells;
  add_ours(cells, raid::fastest());
  for (const raid::Kernels* const kernels : raid::usable()) {
    add_ours(cells, *kernels);
  }
  add_limits(cells);
#ifdef ZUSE_WITH_ISAL
  Isal isal(settings.data_columns);
  isal.add(cells);
#endif
  Goals goals;
  std::map<std::size_t, Results> all;
  for (const std::size_t block : {std::size_t{4096}, std::size_t{131072}, std::size_t{1048576}}) {
    // Whole steps of the limit's loop.
    const std::size_t column =
        std::max<std::size_t>(256, block / settings.data_columns / 256 * 256);
    const std::vector<Stripe> one{{arena.at(0), settings.data_columns, column}};
    const Results& results = all[block] = run(cells, one, settings);
    std::printf("\n%zu KiB, columns of %zu bytes\n", block / 1024, column);
    print(cells, results);
    const std::string size = std::to_string(block / 1024) + "K";
    if (block >= 131072) {
      goals.add(size, results, "gen_p", "limit", 0.95);
      goals.add(size, results, "gen_pq", "limit", 0.9);
      goals.add(size, results, "gen_pqr", "limit", 0.82);
    }
    for (const char* const method : raid::kMethods) {
      goals.add(size, results, method, "avx2", 0.97);  // 1.0, less what runs differ by
      if (block == 4096) {
        goals.add(size, results, method, "original", 5);
      }
    }
    if (block == 131072) {
      goals.add(size, results, "gen_p", "isa-l", 1);
      goals.add(size, results, "gen_pq", "isa-l", 1.2);
      goals.add(size, results, "gen_pqr", "isa-l", 3.5);
      goals.add(size, results, "rec_q", "isa-l", 1.8);
      goals.add(size, results, "rec_r", "isa-l", 1.8);
      goals.add(size, results, "rec_pq", "isa-l", 2.5);
      goals.add(size, results, "rec_pr", "isa-l", 2.5);
      goals.add(size, results, "rec_qr", "isa-l", 2.5);
      goals.add(size, results, "rec_pqr", "isa-l", 2.8);
    }
  }
  for (const char* const method : raid::kMethods) {
    goals.add(std::string("4K / 128K of fastest ") + method,
              all[4096].at({method, "fastest"}) / all[131072].at({method, "fastest"}), 0.5);
  }
  memory_bound(arena, settings, goals);
  memory_speed(arena, settings);
  const int missed = goals.print();
  return check && missed != 0 ? 1 : 0;
}

}  // namespace
}  // namespace zuse::bench

int main(int argc, char** argv) {
  zuse::bench::Settings settings;
  bool check = false;
  const auto usage = [] {
    std::fprintf(stderr,
                 "usage: parity_bench [-d DATA_COLUMNS (8)] [--rounds N (5)] [--ms PER_CELL (10)]\n"
                 "       [--ring MIB (256)] [--check: exit with 1 if a goal is missed]\n");
    return 2;
  };
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--check") {
      check = true;
      continue;
    }
    const int value = i + 1 < argc ? std::atoi(argv[++i]) : 0;
    if (option == "-d" && value >= 4 && value <= 252) {
      settings.data_columns = static_cast<unsigned>(value);
    } else if (option == "--rounds" && value >= 1 && value <= 99) {
      settings.rounds = value;
    } else if (option == "--ms" && value >= 1 && value <= 1000) {
      settings.milliseconds = value;
    } else if (option == "--ring" && value >= 8 && value <= 4096) {
      settings.ring_mib = static_cast<std::size_t>(value);
    } else {
      return usage();
    }
  }
  return zuse::bench::bench(settings, check);
}
