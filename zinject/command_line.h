// The command line of zinject: options to one command, or to a sentence about what is wrong.
//
// source: the fault tool's facts, sections 1 and 3.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <vector>

#include "vdev/tree.h"
#include "zinject/rule.h"

namespace zuse::zinject {

struct Command {
  enum class Kind : std::uint8_t {
    help,
    list,
    injections,  // --log
    add,
    cancel,
    cancel_all,
    cache_drop,
    set_state,
  };
  Kind kind = Kind::list;
  std::string pool;    // "": every pool that a daemon serves
  std::string device;  // add, set_state
  Rule rule;           // add
  std::uint64_t id = 0;
  vdev::VdevState state = vdev::VdevState::unknown;
  bool cache_drop = false;  // add: afterwards
  bool quiet = false;       // add: print the id and nothing else
  bool json = false;
};

// The tool's exit codes.
inline constexpr int kExitDone = 0;
inline constexpr int kExitRefused = 1;  // a bad value, or the pool said no
inline constexpr int kExitUsage = 2;    // options that do not go together or do not exist

struct UsageError {
  int exit_code = kExitUsage;
  std::string what;
};

// shape: without the program's name. Not thread-safe (getopt).
std::expected<Command, UsageError> parse(const std::vector<std::string>& arguments);

// The text of --help.
std::string help();

}  // namespace zuse::zinject
