// See options.h. Values out of range are refused, never adjusted.
#include "raid/raidz_test/options.h"

#include <CLI/CLI.hpp>
#include <random>

#include "raid/registry.h"

namespace zuse::raidz_test {

std::optional<Answer> parse(int argc, const char* const* argv, Options& options) {
  CLI::App app(
      "Checks that every parity implementation gives the same parity and rebuilds every loss, and "
      "times them. Works on memory only.",
      "raidz_test");
  std::string implementation;
  std::optional<std::uint64_t> seed;
  constexpr unsigned kDataMax = raid::kDataColumnsMax;
  app.set_help_flag("-h,--help", "Print this text");
  const auto* const ashift =
      app.add_option("-a,--ashift", options.ashift, "Sector size: 2^N bytes (a benchmark: 12)")
          ->check(CLI::Range(9, 13))
          ->capture_default_str();
  app.add_option("-o", options.offset_exponent,
                 "Offset of the block in memory: 2^N bytes, none below 512")
      ->check(CLI::Range(0, 12))
      ->capture_default_str();
  app.add_option("-d", options.data_columns, "Data columns")
      ->check(CLI::Range(1U, kDataMax))
      ->capture_default_str();
  app.add_option("-s", options.size_exponent, "Block size: 2^N bytes")
      ->check(CLI::Range(9, 24))
      ->capture_default_str();
  app.add_flag(
      "-S", options.sweep,
      "Sweep over many sizes, sectors and widths; of losses in a large block, a random part");
  app.add_option("-t", options.seconds, "Time limit of the sweep in seconds")
      ->check(CLI::Range(1U, 31536000U));
  app.add_flag("-B", options.benchmark, "Benchmark (wins over -S)");
  app.add_flag("-e", options.expanded,
               "Lay the block out as after an expansion: rows of one sector a column");
  const auto* const reflow =
      app.add_option("-r", options.reflow,
                     "With -e: bytes of the block already moved; rows beyond are a column "
                     "narrower (all)");
  app.add_flag("-D", options.debugger, "Attach gdb when the program crashes");
  app.add_flag("-v", options.verbosity, "A line for each check; twice: failing columns");
  app.add_flag("-T", options.must_fail,
               "Leave the work out, so that every check has to fail; in a sweep, of every fourth "
               "case at random");
  app.add_option("--seed", seed, "Seed of the data (random, and printed, if not given)");
  app.add_flag("--json", options.json, "Results as JSON");
  app.add_option("--impl", implementation,
                 "Only this implementation: a name of --list, fastest, or cycle for all in turn");
  app.add_flag("--list", options.list, "List implementations");
  app.add_option("--plot", options.plot, "Write the benchmark as a chart into this SVG file");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return Answer{app.help(), false, 0};
  } catch (const CLI::ParseError& error) {
    return Answer{std::string("raidz_test: ") + error.what() + "\n" + app.help(), true, 1};
  }
  const auto refused = [](const std::string& why) {
    return Answer{"raidz_test: " + why + "\n", true, 1};
  };
  if (!options.plot.empty() && !options.benchmark) {
    return refused("--plot draws a benchmark: it needs -B");
  }
  if (options.seconds && (!options.sweep || options.benchmark)) {
    return refused("-t limits a sweep: it needs -S");
  }
  if (options.must_fail && options.benchmark) {
    return refused("-T checks the checks: it does not go with -B");
  }
  if (reflow->count() != 0 && !options.expanded) {
    return refused("-r is about an expanded block: it needs -e");
  }
  if (options.expanded && options.sweep) {
    return refused("a sweep (-S) has no expanded blocks (-e)");
  }
  if (options.benchmark && ashift->count() == 0) {
    options.ashift = 12;
  }
  if (!options.benchmark && options.size_exponent < options.ashift) {
    return refused("a block (-s) cannot be smaller than a sector (-a)");
  }
  if (implementation.empty()) {
    options.chosen = raid::usable();
  } else {
    const auto chosen = raid::choose(implementation);
    if (!chosen) {
      return refused(chosen.error());
    }
    options.chosen = {*chosen};
  }
  options.seed = seed ? *seed : std::uint64_t{std::random_device{}()};
  return std::nullopt;
}

}  // namespace zuse::raidz_test
