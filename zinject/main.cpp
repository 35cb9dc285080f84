// The zinject command: parses, asks the daemons, prints. All that decides lives elsewhere.
#include <fmt/format.h>

#include <boost/filesystem.hpp>
#include <cstdio>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "zinject/command_line.h"
#include "zinject/control_client.h"
#include "zinject/listing.h"
#include "zinject/protocol.h"

namespace zuse::zinject {
namespace {

using nlohmann::json;

void print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
}
void print_json(const json& value) {
  print(value.dump(2, ' ', false, json::error_handler_t::replace) + "\n");
}
int refused(const std::string& sentence) {
  const std::string line = "zinject: " + sentence + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
  return kExitRefused;
}

struct Answer {
  std::string pool;
  json result;
};

// Asks the pool that the command names, or else every pool. Sockets without a daemon behind them
// are left over from one that was killed: they are no error as long as nobody named them.
Result<std::vector<Answer>> ask_pools(const Command& command, const json& args) {
  std::vector<Answer> answers;
  if (!command.pool.empty()) {
    ZUSE_TRY(json result, ask(command.pool, "zinject", args));
    answers.push_back({command.pool, std::move(result)});
    return answers;
  }
  ZUSE_TRY(const std::vector<std::string> pools, pools_with_sockets());
  for (const std::string& pool : pools) {
    auto result = ask(pool, "zinject", args);
    if (result) {
      answers.push_back({pool, *std::move(result)});
    } else if (result.error().code() != Errc::not_found) {
      return std::unexpected(std::move(result).error());
    }
  }
  return answers;
}

// The device as the user wrote it, and where that is seen from here.
json device_args(const char* action, const Command& command) {
  boost::system::error_code error;
  const auto absolute = boost::filesystem::canonical(command.device, error);
  return {{"action", action},
          {"device", command.device},
          {"path", error ? std::string() : absolute.string()}};
}

int list(const Command& command) {
  const auto answers = ask_pools(command, {{"action", "list"}});
  if (!answers) {
    return refused(answers.error().what());
  }
  json all = json::array();
  std::vector<ListedHandler> handlers;
  for (const auto& [pool, result] : *answers) {
    if (!result.is_object() || !result.contains("handlers")) {
      return refused(fmt::format("pool {}: the daemon's answer is no list", pool));
    }
    for (const json& entry : result["handlers"]) {
      auto handler = handler_from_json(entry);
      if (!handler) {
        return refused(fmt::format("pool {}: {}", pool, handler.error().what()));
      }
      handlers.push_back(*std::move(handler));
      all.push_back(entry);
    }
  }
  if (command.json) {
    print_json({{"handlers", all}});
    return kExitDone;
  }
  const std::string text = tables(handlers);
  print(text.empty() ? "No faults are in force.\n" : text);
  return kExitDone;
}

int injections(const Command& command) {
  const auto answers = ask_pools(command, {{"action", "injections"}});
  if (!answers) {
    return refused(answers.error().what());
  }
  json all = json::array();
  for (const auto& [pool, result] : *answers) {
    if (!result.is_object() || !result.contains("injections")) {
      return refused(fmt::format("pool {}: the daemon's answer is no list", pool));
    }
    if (command.json) {
      all.push_back(result);
    } else if (const std::string text = injection_table(result["injections"]); !text.empty()) {
      print(fmt::format("pool {}:\n{}", pool, text));
    }
  }
  if (command.json) {
    print_json(all);
  }
  return kExitDone;
}

int add(const Command& command) {
  json args = device_args("add", command);
  args["rule"] = to_json(command.rule);
  args["cache_drop"] = command.cache_drop;
  const auto result = ask(command.pool, "zinject", args);
  if (!result) {
    return refused(result.error().what());
  }
  const auto added = handler_from_json(*result);
  if (!added) {
    return refused(added.error().what());
  }
  if (command.json) {
    print_json(*result);
  } else if (command.quiet) {
    print(fmt::format("{}\n", added->handler.id));
  } else {
    print(describe(*added));
  }
  return kExitDone;
}

int set_state(const Command& command) {
  json args = device_args("set_state", command);
  args["state"] = command.state == vdev::VdevState::faulted ? "faulted" : "degraded";
  auto result = ask(command.pool, "zinject", args);
  if (result && command.cache_drop) {
    const auto dropped = ask(command.pool, "zinject", {{"action", "cache_drop"}});
    if (!dropped) {
      return refused(dropped.error().what());
    }
  }
  if (!result) {
    return refused(result.error().what());
  }
  if (command.json) {
    print_json(*result);
  }
  return kExitDone;
}

int drop_cache(const Command& command) {
  const auto answers = ask_pools(command, {{"action", "cache_drop"}});
  return answers ? kExitDone : refused(answers.error().what());
}

// Ids are counted by each pool: without a pool's name the id has to be one pool's only.
int cancel(Command command) {
  json args{{"action", "cancel"}};
  if (command.kind == Command::Kind::cancel) {
    args["id"] = command.id;
    if (command.pool.empty()) {
      const auto answers = ask_pools(command, {{"action", "list"}});
      if (!answers) {
        return refused(answers.error().what());
      }
      std::vector<std::string> holders;
      for (const auto& [pool, result] : *answers) {
        const json handlers = result.is_object() ? result.value("handlers", json::array()) : json();
        for (const json& entry : handlers) {
          if (entry.is_object() && entry.value("id", json()) == command.id) {
            holders.push_back(pool);
          }
        }
      }
      if (holders.empty()) {
        return refused(fmt::format("no handler has the id {}", command.id));
      }
      if (holders.size() > 1) {
        return refused(fmt::format("several pools have a handler {}: say which of {}", command.id,
                                   fmt::join(holders, ", ")));
      }
      command.pool = holders.front();
    }
  }
  const auto answers = ask_pools(command, args);
  if (!answers) {
    return refused(answers.error().what());
  }
  if (command.json) {
    json all = json::array();
    for (const auto& [pool, result] : *answers) {
      all.push_back({{"pool", pool}, {"cancelled", result.value("cancelled", json::array())}});
    }
    print_json(all);
  }
  return kExitDone;
}

int run(const std::vector<std::string>& arguments) {
  const auto command = parse(arguments);
  if (!command) {
    refused(command.error().what + " (see zinject --help)");
    return command.error().exit_code;
  }
  switch (command->kind) {
    case Command::Kind::help: print(help()); return kExitDone;
    case Command::Kind::list: return list(*command);
    case Command::Kind::injections: return injections(*command);
    case Command::Kind::add: return add(*command);
    case Command::Kind::set_state: return set_state(*command);
    case Command::Kind::cache_drop: return drop_cache(*command);
    case Command::Kind::cancel:
    case Command::Kind::cancel_all: return cancel(*command);
  }
  return kExitUsage;
}

}  // namespace
}  // namespace zuse::zinject

int main(int argc, char** argv) {
  try {
    return zuse::zinject::run({std::next(argv), std::next(argv, argc)});
  } catch (const std::exception& error) {
    // nlohmann-json and memory; what daemons send is checked, so this is a last resort.
    std::fprintf(stderr, "zinject: %s\n", error.what());
    return zuse::zinject::kExitRefused;
  }
}
