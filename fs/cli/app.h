// The program `zuse`: `zuse pool ...` behaves as zpool, `zuse fs ...` as zfs; through a link called
// zpool or zfs, the word after it is the subcommand at once.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>

#include "fs/control/message.h"
#include "vdev/base/result.h"

namespace CLI {
class App;
}

namespace zuse::cli {

using control::Json;

inline constexpr int kExitFailed = 1;  // it could not be done
inline constexpr int kExitUsage = 2;   // it was asked wrongly

// What the subcommands share: where text goes, and the one that was chosen.
struct Context {
  std::ostream& out;
  std::ostream& err;
  std::string command_line;     // as typed, for the pool's history
  std::function<int()> chosen;  // set while parsing, run after it
};

// Runs the program. Answers its exit code; never throws.
int run(int argc, const char* const* argv, std::ostream& out, std::ostream& err);

void add_pool_commands(CLI::App& parent, Context& context);
void add_fs_commands(CLI::App& parent, Context& context);

// One line on err: "cannot create 'tank': <why>". Answers kExitFailed.
int fail_with(Context& context, const std::string& what, const Error& why);
int fail_with(Context& context, const std::string& sentence);

// Calls the daemon of a pool. errors: not_found ("no such pool"), the command's own.
Result<Json> call_daemon(const std::string& pool, const std::string& command,
                         const Json& args = Json::object());

// "a=b" -> {a, b}. errors: invalid.
Result<std::pair<std::string, std::string>> parse_assignment(const std::string& text);

void print_json(Context& context, const Json& value);

}  // namespace zuse::cli
