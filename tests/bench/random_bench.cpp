// What randomness costs a mirror: drawing the copy to read, against reading 128 KiB.
//
// A mirror of two draws one number a block read. With getrandom(2) that was 3.18 % of the time of a
// read; with xorshift128+ 0.06 %. The counters say what it is here:
//
//     share   time of the draw as part of draw + read, in percent
//     factor  getrandom's cost per draw over the generator's
//
// The read is pread(2) from a file in the page cache: the cheapest that a real read can be, so the
// share is the largest that it can be.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "vdev/base/random.h"

namespace zuse {
namespace {

constexpr std::size_t kBlock = 131072;

std::uint64_t kernel_draw() {
  std::uint64_t number = 0;
  if (getrandom(&number, sizeof number, 0) != sizeof number) {
    throw std::runtime_error("getrandom failed");
  }
  return number;
}

void per_draw_generator(benchmark::State& state) {
  Xorshift128Plus& random = thread_random();
  for (auto _ : state) {
    benchmark::DoNotOptimize(random());
  }
}
BENCHMARK(per_draw_generator);

void per_draw_thread_random(benchmark::State& state) {
  for (auto _ : state) {
    benchmark::DoNotOptimize(thread_random().bounded(2));
  }
}
BENCHMARK(per_draw_thread_random);

void per_draw_getrandom(benchmark::State& state) {
  for (auto _ : state) {
    benchmark::DoNotOptimize(kernel_draw());
  }
}
BENCHMARK(per_draw_getrandom);

// Two files of some blocks, as the children of a mirror.
class Mirror {
 public:
  static constexpr std::size_t kBlocks = 64;
  Mirror() {
    for (int& child : children_) {
      std::string path = (std::filesystem::temp_directory_path() / "zuse-random-XXXXXX").string();
      child = mkstemp(path.data());
      if (child < 0 || unlink(path.c_str()) != 0) {
        throw std::runtime_error("no temporary file");
      }
      const std::vector<char> block(kBlock, 'z');
      for (std::size_t i = 0; i < kBlocks; ++i) {
        if (write(child, block.data(), block.size()) != static_cast<ssize_t>(block.size())) {
          throw std::runtime_error("short write");
        }
      }
    }
  }
  Mirror(const Mirror&) = delete;
  Mirror& operator=(const Mirror&) = delete;
  ~Mirror() {
    for (const int child : children_) {
      close(child);
    }
  }
  void read(std::uint64_t draw, std::size_t block, std::vector<char>& into) const {
    const auto offset = static_cast<off_t>(block % kBlocks * kBlock);
    if (pread(children_[draw % children_.size()], into.data(), kBlock, offset) !=
        static_cast<ssize_t>(kBlock)) {
      throw std::runtime_error("short read");
    }
  }

 private:
  std::array<int, 2> children_{};
};

double nanoseconds(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double, std::nano>(time).count();
}

// The time that `rounds` calls take, a call.
template <class Call>
double cost(std::size_t rounds, const Call& call) {
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < rounds; ++i) {
    call(i);
  }
  return nanoseconds(std::chrono::steady_clock::now() - start) / static_cast<double>(rounds);
}

// Reads with the draw of `draw`; the counters compare both ways of drawing in this same run.
template <class Draw>
void mirror_read(benchmark::State& state, const Draw& draw) {
  const Mirror mirror;
  std::vector<char> into(kBlock);
  std::size_t block = 0;
  for (auto _ : state) {
    mirror.read(draw(), block++, into);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(kBlock));
  const double read = cost(2000, [&](std::size_t i) { mirror.read(0, i, into); });
  const double own = cost(200000, [&](std::size_t) { benchmark::DoNotOptimize(draw()); });
  const double generator =
      cost(200000, [](std::size_t) { benchmark::DoNotOptimize(thread_random().bounded(2)); });
  const double kernel = cost(20000, [](std::size_t) { benchmark::DoNotOptimize(kernel_draw()); });
  state.counters["share_percent"] = 100 * own / (own + read);
  state.counters["factor"] = kernel / generator;
}

void mirror_read_by_getrandom(benchmark::State& state) {
  mirror_read(state, kernel_draw);
}
BENCHMARK(mirror_read_by_getrandom);

void mirror_read_by_generator(benchmark::State& state) {
  mirror_read(state, [] { return thread_random().bounded(2); });
}
BENCHMARK(mirror_read_by_generator);

}  // namespace
}  // namespace zuse
