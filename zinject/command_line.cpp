// getopt_long does the letters; what remains is which options go together.
#include "zinject/command_line.h"

#include <fmt/format.h>
#include <getopt.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <initializer_list>
#include <map>
#include <optional>
#include <utility>

namespace zuse::zinject {
namespace {

using Parsed = std::expected<Command, UsageError>;

std::unexpected<UsageError> usage(std::string what) {
  return std::unexpected(UsageError{kExitUsage, std::move(what)});
}
std::unexpected<UsageError> bad_value(std::string what) {
  return std::unexpected(UsageError{kExitRefused, std::move(what)});
}

template <class Number>
std::optional<Number> number(const std::string& text) {
  Number value{};
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

// Long options without a letter.
constexpr int kSeed = 1000;
constexpr int kJson = 1001;
constexpr int kLog = 1002;

// What zinject elsewhere can do and this one refuses, by letter.
const char* refused_form(int letter) {
  switch (letter) {
    case 't':
      return "-t: faults on a file's or an object's blocks are not supported; use -d on devices";
    case 'b': return "-b: faults on a bookmark's blocks are not supported; use -d on devices";
    case 'l':
    case 'r':
    case 'C':
      return "-l, -r and -C belong to faults on blocks, which are not supported; use -d on devices";
    case 'I':
    case 'g': return "-I: ignored writes are not supported; use -d DEVICE -e noop -T write";
    case 'P':
    case 's': return "-P: delays of import and export are not supported";
    case 'p': return "-p: panics are not supported";
    case 'E': return "-E: delays before an I/O is ready are not supported; use -D on devices";
    case 'u': return "-u: a pool is not unloaded; use -a to drop its cache";
    case 'm': return "-m: datasets are not remounted; use -a to drop the cache";
    default: return nullptr;
  }
}

// What was given: the option's letter (or number) and its argument.
struct Given {
  std::map<int, std::string> options;
  std::vector<std::string> operands;

  bool has(int option) const { return options.contains(option); }
  const std::string& value(int option) const { return options.at(option); }
};

std::string name_of(int option) {
  switch (option) {
    case kSeed: return "--seed";
    case kJson: return "--json";
    case kLog: return "--log";
    default: return fmt::format("-{}", static_cast<char>(option));
  }
}

std::expected<Given, UsageError> collect(const std::vector<std::string>& arguments) {
  static constexpr std::array<option, 5> kLong{{{"help", no_argument, nullptr, 'h'},
                                                {"json", no_argument, nullptr, kJson},
                                                {"log", no_argument, nullptr, kLog},
                                                {"seed", required_argument, nullptr, kSeed},
                                                {nullptr, 0, nullptr, 0}}};
  std::vector<std::string> copies{"zinject"};
  copies.insert(copies.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& copy : copies) {
    argv.push_back(copy.data());
  }
  argv.push_back(nullptr);
  Given given;
  optind = 0;  // starts getopt afresh
  opterr = 0;
  for (;;) {
    const int found =
        getopt_long(static_cast<int>(argv.size()) - 1, argv.data(),
                    ":hac:qd:A:D:L:e:T:f:Ft:b:l:r:C:Ig:P:s:p:E:um", kLong.data(), nullptr);
    if (found == -1) {
      break;
    }
    if (found == '?') {
      const char letter = static_cast<char>(optopt);
      return usage(optopt > ' ' && optopt < 127
                       ? fmt::format("unknown option -{}", letter)
                       : fmt::format("unknown option {}",
                                     argv[static_cast<std::size_t>(optind > 0 ? optind - 1 : 0)]));
    }
    if (found == ':') {
      // A form that is refused is refused as such, whatever its argument.
      if (const char* const why = refused_form(optopt)) {
        return usage(why);
      }
      return usage(fmt::format("option {} needs an argument", name_of(optopt)));
    }
    if (const char* const why = refused_form(found)) {
      return usage(why);
    }
    if (!given.options.emplace(found, optarg == nullptr ? "" : optarg).second) {
      return usage(fmt::format("option {} was given twice", name_of(found)));
    }
  }
  for (auto i = static_cast<std::size_t>(optind); i + 1 < argv.size(); ++i) {
    given.operands.emplace_back(argv[i]);
  }
  return given;
}

// Complains about the first option that is given but not among `allowed`.
std::optional<UsageError> only(const Given& given, const char* form,
                               std::initializer_list<int> allowed) {
  for (const auto& [option, value] : given.options) {
    if (std::find(allowed.begin(), allowed.end(), option) == allowed.end()) {
      return UsageError{kExitUsage, fmt::format("{} does not go with {}", name_of(option), form)};
    }
  }
  return std::nullopt;
}

std::optional<UsageError> one_pool(const Given& given, const char* form, Command& command) {
  if (given.operands.size() != 1) {
    return UsageError{kExitUsage, fmt::format("{} needs the name of one pool", form)};
  }
  command.pool = given.operands.front();
  return std::nullopt;
}

std::optional<UsageError> at_most_one_pool(const Given& given, Command& command) {
  if (given.operands.size() > 1) {
    return UsageError{kExitUsage, fmt::format("'{}' is one argument too many", given.operands[1])};
  }
  command.pool = given.operands.empty() ? "" : given.operands.front();
  return std::nullopt;
}

Parsed parse_cancel(const Given& given, Command command) {
  if (auto wrong = only(given, "-c", {'c', kJson, 'q'})) {
    return std::unexpected(*std::move(wrong));
  }
  if (auto wrong = at_most_one_pool(given, command)) {
    return std::unexpected(*std::move(wrong));
  }
  if (given.value('c') == "all") {
    command.kind = Command::Kind::cancel_all;
    return command;
  }
  const auto id = number<std::uint64_t>(given.value('c'));
  if (!id || *id == 0) {
    return bad_value(
        fmt::format("'{}' is no handler's id: give a number or 'all'", given.value('c')));
  }
  command.kind = Command::Kind::cancel;
  command.id = *id;
  return command;
}

Parsed parse_state(const Given& given, Command command) {
  if (auto wrong = only(given, "-A", {'A', 'd', 'a', 'q', kJson})) {
    return std::unexpected(*std::move(wrong));
  }
  if (auto wrong = one_pool(given, "-A", command)) {
    return std::unexpected(*std::move(wrong));
  }
  command.kind = Command::Kind::set_state;
  if (given.value('A') == "degrade") {
    command.state = vdev::VdevState::degraded;
  } else if (given.value('A') == "fault") {
    command.state = vdev::VdevState::faulted;
  } else {
    return bad_value(fmt::format("'{}' is no state: give 'degrade' or 'fault'", given.value('A')));
  }
  return command;
}

// The options that all kinds of rule share.
std::optional<UsageError> parse_common(const Given& given, Rule& rule) {
  if (given.has('T')) {
    const std::string& name = given.value('T');
    if (name == "free" || name == "claim") {
      return UsageError{
          kExitRefused,
          fmt::format("-T {}: never reaches a device, so no fault can be put on it", name)};
    }
    const auto type = io_type_of(name);
    if (!type) {
      return UsageError{kExitRefused,
                        fmt::format("'{}' is no I/O type: give read, write, trim, flush, probe or "
                                    "all",
                                    name)};
    }
    rule.type = *type;
  }
  if (given.has('f')) {
    const auto percent = number<double>(given.value('f'));
    if (!percent || !(*percent >= kPercentMin && *percent <= 100)) {
      return UsageError{kExitRefused, fmt::format("'{}' is no frequency: give {} to 100 percent",
                                                  given.value('f'), kPercentMin)};
    }
    rule.percent = *percent;
  }
  if (given.has(kSeed)) {
    const auto seed = number<std::uint64_t>(given.value(kSeed));
    if (!seed) {
      return UsageError{kExitRefused,
                        fmt::format("'{}' is no seed: give a number", given.value(kSeed))};
    }
    rule.seed = *seed;
  }
  rule.fail_fast = given.has('F');
  return std::nullopt;
}

std::optional<UsageError> parse_delay(const Given& given, Rule& rule) {
  if (auto wrong = only(given, "-D", {'D', 'd', 'T', 'f', 'a', 'q', kSeed, kJson})) {
    return wrong;
  }
  rule.kind = RuleKind::delay;
  const std::string& text = given.value('D');
  const std::size_t colon = text.find(':');
  const auto delay = number<std::uint64_t>(text.substr(0, colon));
  const auto lanes =
      colon == std::string::npos ? std::nullopt : number<unsigned>(text.substr(colon + 1));
  if (!delay || !lanes || *delay == 0 || *delay > kDelayMaxMs || *lanes == 0 ||
      *lanes > kLanesMax) {
    return UsageError{
        kExitRefused,
        fmt::format("'{}' is no delay: give MILLISECONDS:LANES, lanes 1 to {}", text, kLanesMax)};
  }
  rule.delay_ms = *delay;
  rule.lanes = *lanes;
  return std::nullopt;
}

std::optional<UsageError> parse_label(const Given& given, Rule& rule) {
  if (auto wrong = only(given, "-L", {'L', 'd', 'a', 'q', kSeed, kJson})) {
    return wrong;
  }
  rule.kind = RuleKind::label;
  const auto part = label_part_of(given.value('L'));
  if (!part) {
    return UsageError{kExitRefused,
                      fmt::format("'{}' is no part of a label: give nvlist, uber, pad1 or pad2",
                                  given.value('L'))};
  }
  rule.label = *part;
  return std::nullopt;
}

std::optional<UsageError> parse_error(const Given& given, Rule& rule) {
  rule.kind = RuleKind::device;
  if (!given.has('e')) {
    return std::nullopt;
  }
  const std::string& name = given.value('e');
  if (name == "checksum" || name == "decompress" || name == "decrypt") {
    return UsageError{kExitUsage,
                      fmt::format("-e {} is for faults on blocks, which are not supported; on a "
                                  "device use -e corrupt",
                                  name)};
  }
  const auto error = fault_error_of(name);
  if (!error) {
    return UsageError{kExitRefused, fmt::format("'{}' is no error: give io, nxio, corrupt, dtl, "
                                                "noop or io-prefail",
                                                name)};
  }
  rule.error = *error;
  if (rule.error == FaultError::corrupt && !given.has('f')) {
    return UsageError{kExitUsage, "-e corrupt needs -f: how often a bit is to flip"};
  }
  return std::nullopt;
}

Parsed parse_rule(const Given& given, Command command) {
  if (given.has('D') && given.has('L')) {
    return usage("-L does not go with -D");
  }
  if (auto wrong = one_pool(given, "-d", command)) {
    return std::unexpected(*std::move(wrong));
  }
  command.kind = Command::Kind::add;
  command.cache_drop = given.has('a');
  Rule& rule = command.rule;
  auto wrong = given.has('D')   ? parse_delay(given, rule)
               : given.has('L') ? parse_label(given, rule)
                                : parse_error(given, rule);
  if (!wrong) {
    wrong = parse_common(given, rule);
  }
  if (wrong) {
    return std::unexpected(*std::move(wrong));
  }
  if (const auto checked = check(rule); !checked) {
    return usage(checked.error().what());
  }
  return command;
}

}  // namespace

Parsed parse(const std::vector<std::string>& arguments) {
  auto collected = collect(arguments);
  if (!collected) {
    return std::unexpected(std::move(collected).error());
  }
  const Given& given = *collected;
  Command command;
  command.json = given.has(kJson);
  command.quiet = given.has('q');
  if (given.has('h')) {
    command.kind = Command::Kind::help;
    return command;
  }
  if (given.has('c')) {
    return parse_cancel(given, std::move(command));
  }
  if (given.has('d')) {
    if (given.value('d').empty()) {
      return bad_value("-d needs a path, a file name or a guid");
    }
    command.device = given.value('d');
    command.cache_drop = given.has('a');
    if (auto wrong =
            only(given, "-d", {'d', 'a', 'q', 'A', 'D', 'L', 'e', 'T', 'f', 'F', kSeed, kJson})) {
      return std::unexpected(*std::move(wrong));
    }
    return given.has('A') ? parse_state(given, std::move(command))
                          : parse_rule(given, std::move(command));
  }
  const bool drop = given.has('a');
  const bool log = given.has(kLog);
  const char* const form = drop ? "-a" : log ? "--log" : "the list";
  for (const int option : std::initializer_list<int>{'A', 'D', 'L', 'e', 'T', 'f', 'F', kSeed}) {
    if (given.has(option)) {
      return usage(fmt::format("{} needs -d DEVICE", name_of(option)));
    }
  }
  if (auto wrong = only(given, form, {drop ? 'a' : 'q', log ? kLog : kJson, kJson, 'q'})) {
    return std::unexpected(*std::move(wrong));
  }
  if (auto wrong = at_most_one_pool(given, command)) {
    return std::unexpected(*std::move(wrong));
  }
  if (drop && log) {
    return usage("--log does not go with -a");
  }
  command.kind = drop  ? Command::Kind::cache_drop
                 : log ? Command::Kind::injections
                       : Command::Kind::list;
  return command;
}

std::string help() {
  return R"(zinject: make the devices of an imported pool misbehave

  zinject [POOL]                        list the faults in force
  zinject --log [POOL]                  list the latest injections
  zinject -d DEVICE [-e ERROR] [-T TYPE] [-f PERCENT] [-F] [-a] [-q] POOL
                                        put a fault on a device
  zinject -d DEVICE -D MS:LANES [-T read|write] [-f PERCENT] POOL
                                        make it slow: each request takes at least
                                        MS milliseconds, LANES at a time
  zinject -d DEVICE -L nvlist|uber|pad1|pad2 POOL
                                        fail I/O to a part of its labels
  zinject -d DEVICE -A degrade|fault POOL
                                        set its state at once; no fault is listed
  zinject -a [POOL]                     drop cached data, so that reads reach the devices
  zinject -c ID|all [POOL]              cancel one fault, or all of them

DEVICE is a path, a file name or a guid. Label areas are spared but for -L.

  -e ERROR    io          carried out, then reported as failed
              nxio        the device is gone (this is the default)
              corrupt     flip a random bit of what was read; needs -T read and -f
              noop        not carried out, but reported as done
              io-prefail  not carried out, and reported as failed
              dtl         carried out, then reported as failed
  -T TYPE     read, write, trim, flush, probe, or all (the default; all but probes)
  -f PERCENT  how often, 0.0001 to 100 (the default)
  -F          spare repairs, and the opening of the device
  -a          drop cached data as well
  -q          print only the new id
  --seed N    the seed of this fault's draws, to see the same ones again
  --json      print JSON
  -h, --help  print this

Exit status: 0 done, 1 a bad value or refused, 2 options that do not go together.

Examples:
  zinject -d d1.img -e io -T read tank                 all reads of d1.img fail
  zinject -d d1.img -e corrupt -T read -f 5 --seed 7 tank
                                                       5 % of its reads have a flipped bit
  zinject -d d2.img -D 25:2 tank                       d2.img is slow
  zinject -d d3.img -A fault tank && zinject -a        lose d3.img, and read past the cache
  zinject -c all                                       back to normal
)";
}

}  // namespace zuse::zinject
