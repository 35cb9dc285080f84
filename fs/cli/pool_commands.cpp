// The subcommands of `zuse pool` that are questions to a running daemon, or orders.
#include "fs/cli/pool_commands.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>
#include <ostream>
#include <thread>

#include "fs/cli/property_text.h"
#include "fs/cli/status_text.h"
#include "fs/cli/table.h"
#include "fs/control/run_directory.h"

namespace zuse::cli {
namespace {

constexpr auto kPollInterval = std::chrono::milliseconds(200);

int list(Context& context, const std::vector<std::string>& pools,
         const std::vector<std::string>& columns, const OutputOptions& how) {
  bool failed = false;
  Json all = Json::array();
  std::vector<Column> header;
  for (const std::string& name : columns) {
    header.push_back(pool_column(name));
  }
  Table table(header);
  for (const std::string& pool : chosen_pools(context, pools, failed)) {
    const auto answer = call_daemon(pool, "list");
    if (!answer) {
      fail_with(context, "cannot open '" + pool + "'", answer.error());
      failed = true;
      continue;
    }
    const Json properties = pool_properties(*answer);
    std::vector<std::string> cells;
    Json object = Json::object();
    for (const std::string& name : columns) {
      const std::string full = full_pool_property(name);
      if (full != "name" && !properties.contains(full)) {
        return fail_with(context, "bad property list: invalid property '" + name + "'");
      }
      const std::string text =
          full == "name" ? pool : pool_property_text(full, properties.at(full), how.exact);
      cells.push_back(text);
      object[full] = text;
    }
    table.add(std::move(cells));
    all.push_back(std::move(object));
  }
  if (how.json) {
    print_json(context, {{"pools", all}});
  } else if (table.rows() != 0) {
    table.print(context.out, how.scripted);
  } else if (!how.scripted && !failed) {
    context.out << "no pools available\n";
  }
  return failed ? kExitFailed : 0;
}

int get(Context& context, const std::string& wanted, const std::vector<std::string>& pools,
        const std::vector<std::string>& columns, const OutputOptions& how) {
  bool failed = false;
  PropertyTable table(columns, false);
  if (const std::string bad = table.unknown_column(); !bad.empty()) {
    context.err << "invalid column name '" << bad << "'\n";
    return kExitUsage;
  }
  for (const std::string& pool : chosen_pools(context, pools, failed)) {
    const auto answer = call_daemon(pool, "list");
    if (!answer) {
      fail_with(context, "cannot open '" + pool + "'", answer.error());
      failed = true;
      continue;
    }
    const Json properties = pool_properties(*answer);
    std::vector<std::string> names = split(wanted);
    if (wanted == "all") {
      names.clear();
      for (const auto& [name, value] : properties.items()) {
        names.push_back(name);
      }
    }
    for (const std::string& name : names) {
      const std::string full = full_pool_property(name);
      if (!properties.contains(full)) {
        return fail_with(context, "bad property list: invalid property '" + name + "'");
      }
      const Json& view = properties.at(full);
      table.add(pool, full, pool_property_text(full, view, how.exact), view);
    }
  }
  table.print(context, how, "pools");
  return failed ? kExitFailed : 0;
}

int scrub(Context& context, const std::vector<std::string>& pools, const std::string& action,
          bool wait) {
  int result = 0;
  for (const std::string& pool : pools) {
    const auto started =
        call_daemon(pool, "scrub", {{"action", action}, {"command_line", context.command_line}});
    if (!started) {
      const std::string verb = action == "start" ? "scrub" : action + " scrubbing";
      result = fail_with(context, "cannot " + verb + " '" + pool + "'", started.error());
      continue;
    }
    while (wait) {
      const auto scan = call_daemon(pool, "scan");
      if (!scan) {
        result = fail_with(context, "cannot wait for '" + pool + "'", scan.error());
        break;
      }
      if (scan->at("state").get<std::string>() != "scanning") {
        break;
      }
      std::this_thread::sleep_for(kPollInterval);
    }
  }
  return result;
}

// The same order for each of several pools.
int order_each(Context& context, const std::vector<std::string>& pools, const std::string& verb,
               const std::string& command, Json args) {
  args["command_line"] = context.command_line;
  int result = 0;
  for (const std::string& pool : pools) {
    if (const auto done = call_daemon(pool, command, args); !done) {
      const std::string what =
          done.error().code() == Errc::not_found && done.error().what() == "no such pool" ? "open"
                                                                                          : verb;
      result = fail_with(context, "cannot " + what + " '" + pool + "'", done.error());
    }
  }
  return result;
}

int status(Context& context, const std::vector<std::string>& pools, const StatusOptions& options,
           bool only_bad, bool json) {
  bool failed = false, first = true;
  const std::vector<std::string> chosen = chosen_pools(context, pools, failed);
  if (chosen.empty() && !failed && !json) {
    context.out << "no pools available\n";
    return 0;
  }
  Json all = Json::array();
  for (const std::string& pool : chosen) {
    const auto answer = call_daemon(pool, "status");
    if (!answer) {
      fail_with(context, "cannot open '" + pool + "'", answer.error());
      failed = true;
      continue;
    }
    if (only_bad && is_healthy(*answer)) {
      continue;
    }
    if (json) {
      all.push_back(*answer);
      continue;
    }
    if (!first) {
      context.out << '\n';
    }
    first = false;
    print_status(context.out, *answer, options);
  }
  if (json) {
    print_json(context, {{"pools", all}});
  } else if (only_bad && first && !failed) {
    if (pools.empty()) {
      context.out << "all pools are healthy\n";
    } else {
      for (const std::string& pool : chosen) {
        context.out << "pool '" << pool << "' is healthy\n";
      }
    }
  }
  return failed ? kExitFailed : 0;
}

int history(Context& context, const std::vector<std::string>& pools, bool json) {
  bool failed = false;
  Json all = Json::array();
  for (const std::string& pool : chosen_pools(context, pools, failed)) {
    const auto answer = call_daemon(pool, "history");
    if (!answer) {
      fail_with(context, "cannot get history for '" + pool + "'", answer.error());
      failed = true;
      continue;
    }
    if (json) {
      all.push_back({{"pool", pool}, {"records", *answer}});
      continue;
    }
    context.out << "History for '" << pool << "':\n";
    for (const Json& record : *answer) {
      context.out << history_time(record.at("time").get<std::uint64_t>()) << ' '
                  << record.at("text").get<std::string>() << '\n';
    }
    context.out << '\n';
  }
  if (json) {
    print_json(context, {{"pools", all}});
  }
  return failed ? kExitFailed : 0;
}

}  // namespace

std::vector<std::string> chosen_pools(Context& context, const std::vector<std::string>& named,
                                      bool& failed) {
  const std::vector<std::string> running = control::running_pools();
  if (named.empty()) {
    return running;
  }
  std::vector<std::string> chosen;
  for (const std::string& pool : named) {
    if (std::ranges::find(running, pool) == running.end()) {
      fail_with(context, "cannot open '" + pool + "': no such pool");
      failed = true;
    } else {
      chosen.push_back(pool);
    }
  }
  return chosen;
}

void add_export(CLI::App& parent, Context& context) {
  struct Words {
    bool force = false, all = false;
    std::vector<std::string> pools;
  };
  const auto words = std::make_shared<Words>();
  CLI::App* const app =
      parent.add_subcommand("export", "Unmount and let go of pools, ready for another host");
  app->add_flag("-f", words->force, "Also where files are open: their users get errors");
  app->add_flag("-a", words->all, "All pools");
  app->add_option("POOL", words->pools, "Pools");
  app->footer("Example:\n  zuse pool export tank");
  app->callback([&context, words] {
    context.chosen = [&context, words] {
      if (words->pools.empty() && !words->all) {
        context.err << "export: no pool given\n";
        return kExitUsage;
      }
      return order_each(context, words->all ? control::running_pools() : words->pools, "export",
                        "export", {{"force", words->force}});
    };
  });
}

void add_destroy(CLI::App& parent, Context& context) {
  struct Words {
    bool force = false;
    std::string pool;
  };
  const auto words = std::make_shared<Words>();
  CLI::App* const app = parent.add_subcommand("destroy", "Destroy a pool and all it holds");
  app->add_flag("-f", words->force, "Also where files are open");
  app->add_option("POOL", words->pool, "The pool")->required();
  app->callback([&context, words] {
    context.chosen = [&context, words] {
      return order_each(context, {words->pool}, "destroy", "destroy", {{"force", words->force}});
    };
  });
}

void add_status(CLI::App& parent, Context& context) {
  struct Words {
    bool only_bad = false, json = false;
    StatusOptions options;
    std::vector<std::string> pools;
  };
  const auto words = std::make_shared<Words>();
  CLI::App* const app =
      parent.add_subcommand("status", "Health of pools: every device, its errors, the last scrub");
  app->add_flag("-v", words->options.verbose, "Name every file that has lost data");
  app->add_flag("-p", words->options.exact, "Print exact counts");
  app->add_flag("-x", words->only_bad, "Only pools that have something wrong");
  app->add_flag("--json", words->json, "Print JSON");
  app->add_option("POOL", words->pools, "Pools (default: all)");
  app->footer("Example:\n  zuse pool status -v tank");
  app->callback([&context, words] {
    context.chosen = [&context, words] {
      return status(context, words->pools, words->options, words->only_bad, words->json);
    };
  });
}

void add_pool_list(CLI::App& parent, Context& context) {
  struct Words {
    OutputOptions how;
    std::string columns =
        "name,size,allocated,free,checkpoint,expandsize,fragmentation,capacity,dedupratio,health,"
        "altroot";
    std::vector<std::string> pools;
  };
  const auto words = std::make_shared<Words>();
  CLI::App* const app = parent.add_subcommand("list", "Pools with their sizes and health");
  add_output_options(*app, words->how);
  app->add_option("-o", words->columns, "Print these properties, separated by commas");
  app->add_option("POOL", words->pools, "Pools (default: all)");
  app->footer("Example:\n  zuse pool list -Hp -o name,free");
  app->callback([&context, words] {
    context.chosen = [&context, words] {
      return list(context, words->pools, split(words->columns), words->how);
    };
  });
}

void add_pool_get(CLI::App& parent, Context& context) {
  struct Words {
    OutputOptions how;
    std::string property, columns = "name,property,value,source";
    std::vector<std::string> pools;
  };
  const auto words = std::make_shared<Words>();
  CLI::App* const app = parent.add_subcommand("get", "Properties of pools");
  add_output_options(*app, words->how);
  app->add_option("-o", words->columns, "Columns: name, property, value, source");
  app->add_option("PROPERTY", words->property, "Properties separated by commas, or 'all'")
      ->required();
  app->add_option("POOL", words->pools, "Pools (default: all)");
  app->footer("Example:\n  zuse pool get all tank");
  app->callback([&context, words] {
    context.chosen = [&context, words] {
      return get(context, words->property, words->pools, split(words->columns), words->how);
    };
  });
}

void add_pool_set(CLI::App& parent, Context& context) {
  struct Words {
    std::string assignment, pool;
  };
  const auto words = std::make_shared<Words>();
  CLI::App* const app = parent.add_subcommand("set", "Set a property of a pool");
  app->add_option("PROPERTY=VALUE", words->assignment, "What to set")->required();
  app->add_option("POOL", words->pool, "The pool")->required();
  app->footer("Example:\n  zuse pool set comment='in the cellar' tank");
  app->callback([&context, words] {
    context.chosen = [&context, words] {
      const auto assignment = parse_assignment(words->assignment);
      if (!assignment) {
        context.err << assignment.error().what() << '\n';
        return kExitUsage;
      }
      return order_each(context, {words->pool}, "set property for", "set",
                        {{"property", assignment->first}, {"value", assignment->second}});
    };
  });
}

void add_scrub(CLI::App& parent, Context& context) {
  struct Words {
    bool pause = false, stop = false, wait = false;
    std::vector<std::string> pools;
  };
  const auto words = std::make_shared<Words>();
  CLI::App* const app =
      parent.add_subcommand("scrub", "Read and verify everything, and repair what is wrong");
  auto* const pause = app->add_flag("-p", words->pause, "Pause; a scrub goes on where it was");
  auto* const stop = app->add_flag("-s", words->stop, "Stop");
  app->add_flag("-w", words->wait, "Wait until it is done")->excludes(pause)->excludes(stop);
  pause->excludes(stop);
  app->add_option("POOL", words->pools, "Pools")->required();
  app->footer("Example:\n  zuse pool scrub -w tank && zuse pool status tank");
  app->callback([&context, words] {
    context.chosen = [&context, words] {
      return scrub(context, words->pools,
                   words->pause  ? "pause"
                   : words->stop ? "stop"
                                 : "start",
                   words->wait);
    };
  });
}

void add_clear(CLI::App& parent, Context& context) {
  struct Words {
    std::string pool, device;
  };
  const auto words = std::make_shared<Words>();
  CLI::App* const app = parent.add_subcommand(
      "clear", "Forget the errors of a pool or device, and use devices that are back");
  app->add_option("POOL", words->pool, "The pool")->required();
  app->add_option("DEVICE", words->device, "Path or guid (default: all)");
  app->callback([&context, words] {
    context.chosen = [&context, words] {
      return order_each(context, {words->pool}, "clear errors for", "clear",
                        {{"device", words->device}});
    };
  });
}

void add_sync(CLI::App& parent, Context& context) {
  const auto pools = std::make_shared<std::vector<std::string>>();
  CLI::App* const app = parent.add_subcommand("sync", "Write everything to disk now");
  app->add_option("POOL", *pools, "Pools (default: all)");
  app->callback([&context, pools] {
    context.chosen = [&context, pools] {
      return order_each(context, pools->empty() ? control::running_pools() : *pools, "sync", "sync",
                        Json::object());
    };
  });
}

void add_history(CLI::App& parent, Context& context) {
  struct Words {
    bool json = false;
    std::vector<std::string> pools;
  };
  const auto words = std::make_shared<Words>();
  CLI::App* const app = parent.add_subcommand("history", "Commands that changed pools");
  app->add_flag("--json", words->json, "Print JSON");
  app->add_option("POOL", words->pools, "Pools (default: all)");
  app->callback([&context, words] {
    context.chosen = [&context, words] { return history(context, words->pools, words->json); };
  });
}

void add_pool_commands(CLI::App& parent, Context& context) {
  add_create(parent, context);
  add_destroy(parent, context);
  add_import(parent, context);
  add_export(parent, context);
  add_status(parent, context);
  add_pool_list(parent, context);
  add_pool_get(parent, context);
  add_pool_set(parent, context);
  add_scrub(parent, context);
  add_clear(parent, context);
  add_sync(parent, context);
  add_history(parent, context);
  add_labelclear(parent, context);
  add_check(parent, context);
}

}  // namespace zuse::cli
