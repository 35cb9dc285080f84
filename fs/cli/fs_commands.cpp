// The subcommands of `zuse fs`. A dataset's name begins with its pool's, and so says whom to ask.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <optional>
#include <ostream>
#include <set>

#include "fs/cli/app.h"
#include "fs/cli/property_text.h"
#include "fs/cli/table.h"
#include "fs/control/run_directory.h"
#include "fs/dataset/property.h"

namespace zuse::cli {
namespace {

std::string pool_of(const std::string& dataset) {
  return dataset.substr(0, dataset.find_first_of("/@#"));
}
std::string name_of(const Json& dataset) {
  return dataset.at("name").get<std::string>();
}
std::string type_of(const Json& dataset) {
  return dataset.at("type").get<std::string>();
}

// How deep `name` lies below `top`; nothing if it does not. A snapshot counts one.
std::optional<std::size_t> depth_below(const std::string& name, const std::string& top) {
  if (name == top) {
    return 0;
  }
  if (!name.starts_with(top) || (name[top.size()] != '/' && name[top.size()] != '@')) {
    return std::nullopt;
  }
  return static_cast<std::size_t>(
      std::count_if(name.begin() + static_cast<std::ptrdiff_t>(top.size()), name.end(),
                    [](char c) { return c == '/' || c == '@'; }));
}

struct Selection {
  std::vector<std::string> names;  // datasets or mount points; empty: everything
  bool recursive = false;
  std::optional<std::size_t> depth;
  std::set<std::string> types;  // filesystem, volume, snapshot
  bool types_given = false;
};

Result<Selection> with_types(Selection selection, const std::string& types) {
  selection.types_given = !types.empty();
  for (const std::string& word : split(types.empty() ? "filesystem,volume" : types)) {
    if (word == "all") {
      selection.types.insert({"filesystem", "volume", "snapshot"});
    } else if (word == "filesystem" || word == "fs") {
      selection.types.insert("filesystem");
    } else if (word == "volume" || word == "vol") {
      selection.types.insert("volume");
    } else if (word == "snapshot" || word == "snap") {
      selection.types.insert("snapshot");
    } else if (word == "bookmark") {
      return fail(Errc::unsupported, "bookmarks are not supported");
    } else {
      return fail(Errc::invalid, "invalid type '" + word + "'");
    }
  }
  return selection;
}

// The datasets that a command is about, in the daemons' order. Failures are reported.
std::vector<Json> select(Context& context, const Selection& selection, bool& failed) {
  std::vector<Json> result;
  std::set<std::string> taken;
  const auto take = [&](const Json& dataset) {
    if (taken.insert(name_of(dataset)).second) {
      result.push_back(dataset);
    }
  };
  if (selection.names.empty()) {
    for (const std::string& pool : control::running_pools()) {
      const auto datasets = call_daemon(pool, "datasets");
      if (!datasets) {
        fail_with(context, "cannot open '" + pool + "'", datasets.error());
        failed = true;
        continue;
      }
      for (const Json& dataset : *datasets) {
        const auto depth = depth_below(name_of(dataset), pool);
        if (selection.types.contains(type_of(dataset)) &&
            (!selection.depth || (depth && *depth <= *selection.depth))) {
          take(dataset);
        }
      }
    }
    return result;
  }
  for (const std::string& name : selection.names) {
    std::vector<std::string> pools{pool_of(name)};
    const bool is_path = name.starts_with('/') || name.starts_with('.');
    if (is_path) {
      pools = control::running_pools();
    }
    bool found = false;
    for (const std::string& pool : pools) {
      const auto datasets = call_daemon(pool, "datasets");
      if (!datasets) {
        const bool absent = datasets.error().what() == "no such pool";
        fail_with(context, "cannot open '" + name + "': " +
                               (absent ? "dataset does not exist" : datasets.error().what()));
        failed = found = true;
        continue;
      }
      std::string top = name;
      if (is_path) {
        top.clear();
        for (const Json& dataset : *datasets) {
          if (dataset.at("mounted_at") == name) {
            top = name_of(dataset);
          }
        }
        if (top.empty()) {
          continue;
        }
      }
      for (const Json& dataset : *datasets) {
        const auto depth = depth_below(name_of(dataset), top);
        if (!depth) {
          continue;
        }
        found = found || *depth == 0;
        // What is named is meant, whatever its type, unless types were asked for; `-t snapshot` of
        // a file system means its snapshots.
        const bool type_fits = selection.types.contains(type_of(dataset));
        const bool snapshots_only =
            selection.types_given && selection.types == std::set<std::string>{"snapshot"};
        const std::size_t limit = selection.depth       ? *selection.depth
                                  : selection.recursive ? ~std::size_t{0}
                                  : snapshots_only      ? 1
                                                        : 0;
        if (*depth <= limit && (type_fits || (*depth == 0 && !selection.types_given))) {
          take(dataset);
        }
      }
    }
    if (!found) {
      fail_with(context, "cannot open '" + name + "': dataset does not exist");
      failed = true;
    }
  }
  return result;
}

struct SortKey {
  std::string property;
  bool descending = false;
};

void sort_by(std::vector<Json>& datasets, const std::vector<SortKey>& keys) {
  std::ranges::stable_sort(datasets, [&](const Json& a, const Json& b) {
    for (const SortKey& key : keys) {
      const std::string name = full_dataset_property(key.property);
      const std::uint64_t left = dataset_property_number(a, name),
                          right = dataset_property_number(b, name);
      int order = left < right ? -1 : left > right ? 1 : 0;
      if (order == 0) {
        order = dataset_property_text(a, name, true).compare(dataset_property_text(b, name, true));
      }
      if (order != 0) {
        return key.descending ? order > 0 : order < 0;
      }
    }
    return false;
  });
}

struct ListWords {
  OutputOptions how;
  bool recursive = false;
  std::optional<std::size_t> depth;
  std::string types, columns = "name,used,available,referenced,mountpoint";
  std::vector<std::string> ascending, descending, names;
};

int list(Context& context, const ListWords& words) {
  Selection wanted;
  wanted.names = words.names;
  wanted.recursive = words.recursive;
  wanted.depth = words.depth;
  const auto selection = with_types(std::move(wanted), words.types);
  if (!selection) {
    context.err << selection.error().what() << '\n';
    return kExitUsage;
  }
  std::vector<std::string> columns;
  std::vector<Column> header;
  for (const std::string& name : split(words.columns)) {
    if (!is_dataset_property(name)) {
      context.err << "bad property list: invalid property '" << name << "'\n";
      return kExitUsage;
    }
    columns.push_back(full_dataset_property(name));
    header.push_back(dataset_column(columns.back()));
  }
  std::vector<SortKey> keys;
  for (const std::string& name : words.ascending) {
    keys.push_back({name, false});
  }
  for (const std::string& name : words.descending) {
    keys.push_back({name, true});
  }
  for (const SortKey& key : keys) {
    if (!is_dataset_property(key.property)) {
      context.err << "invalid property '" << key.property << "'\n";
      return kExitUsage;
    }
  }
  bool failed = false;
  std::vector<Json> datasets = select(context, *selection, failed);
  sort_by(datasets, keys);
  Table table(header);
  Json all = Json::array();
  for (const Json& dataset : datasets) {
    std::vector<std::string> cells;
    Json object = Json::object();
    for (const std::string& column : columns) {
      cells.push_back(dataset_property_text(dataset, column, words.how.exact));
      object[column] = cells.back();
    }
    table.add(std::move(cells));
    all.push_back(std::move(object));
  }
  if (words.how.json) {
    print_json(context, {{"datasets", all}});
  } else if (table.rows() != 0) {
    table.print(context.out, words.how.scripted);
  } else if (!words.how.scripted && !failed) {
    context.out << "no datasets available\n";
  }
  return failed ? kExitFailed : 0;
}

struct GetWords {
  OutputOptions how;
  bool recursive = false;
  std::optional<std::size_t> depth;
  std::string property, types, sources, columns = "name,property,value,source";
  std::vector<std::string> names;
};

// The properties that a dataset has, in the order of the table of all properties, user's last.
std::vector<std::string> all_properties(const Json& dataset) {
  std::vector<std::string> names;
  const Json& properties = dataset.at("properties");
  for (const dataset::PropertyInfo& info : dataset::dataset_properties()) {
    const std::string name(info.name);
    if (properties.contains(name) || dataset_property_text(dataset, name, false) != "-") {
      names.push_back(name);
    }
  }
  for (const auto& [name, view] : properties.items()) {
    if (dataset::find_property(name) == nullptr) {
      names.push_back(name);
    }
  }
  return names;
}

bool source_wanted(const std::vector<std::string>& sources, const std::string& source) {
  return sources.empty() || std::ranges::find(sources, source) != sources.end();
}

int get(Context& context, const GetWords& words) {
  Selection wanted;
  wanted.names = words.names;
  wanted.recursive = words.recursive;
  wanted.depth = words.depth;
  const auto selection = with_types(
      std::move(wanted), words.types.empty() && words.names.empty() ? "all" : words.types);
  if (!selection) {
    context.err << selection.error().what() << '\n';
    return kExitUsage;
  }
  PropertyTable table(split(words.columns), true);
  if (const std::string bad = table.unknown_column(); !bad.empty()) {
    context.err << "invalid column name '" << bad << "'\n";
    return kExitUsage;
  }
  const std::vector<std::string> named = split(words.property);
  for (const std::string& name : named) {
    if (name != "all" && !is_dataset_property(name)) {
      context.err << "bad property list: invalid property '" << name << "'\n";
      return kExitUsage;
    }
  }
  const std::vector<std::string> sources = split(words.sources);
  static const Json kNoView = {{"text", "-"}, {"number", 0}, {"source", "none"}, {"from", ""}};
  bool failed = false;
  for (const Json& dataset : select(context, *selection, failed)) {
    const Json& properties = dataset.at("properties");
    for (const std::string& name : words.property == "all" ? all_properties(dataset) : named) {
      const std::string full = full_dataset_property(name);
      const Json& view = properties.contains(full) ? properties.at(full) : kNoView;
      if (source_wanted(sources, view.at("source").get<std::string>())) {
        table.add(name_of(dataset), full, dataset_property_text(dataset, full, words.how.exact),
                  view);
      }
    }
  }
  table.print(context, words.how, "datasets");
  return failed ? kExitFailed : 0;
}

int set(Context& context, std::vector<std::string> words) {
  // PROPERTY=VALUE ... DATASET ...: the first word without '=' ends the assignments.
  std::vector<std::pair<std::string, std::string>> assignments;
  std::size_t at = 0;
  for (; at < words.size(); ++at) {
    auto assignment = parse_assignment(words[at]);
    if (!assignment) {
      break;
    }
    assignments.push_back(*std::move(assignment));
  }
  if (assignments.empty() || at == words.size()) {
    context.err << "set: needs PROPERTY=VALUE and a dataset\n";
    return kExitUsage;
  }
  int result = 0;
  for (; at < words.size(); ++at) {
    const std::string& dataset = words[at];
    for (const auto& [property, value] : assignments) {
      const auto done = call_daemon(pool_of(dataset), "set",
                                    {{"dataset", dataset},
                                     {"property", full_dataset_property(property)},
                                     {"value", value},
                                     {"command_line", context.command_line}});
      if (!done) {
        const bool absent = done.error().what() == "no such pool";
        result =
            absent ? fail_with(context, "cannot open '" + dataset + "': dataset does not exist")
                   : fail_with(context, "cannot set property for '" + dataset + "'", done.error());
      }
    }
  }
  return result;
}

int show_mounted(Context& context, bool json) {
  bool failed = false;
  Selection everything;
  everything.types = {"filesystem"};
  Json all = Json::object();
  for (const Json& dataset : select(context, everything, failed)) {
    if (dataset.at("mounted_at").is_string()) {
      const std::string where = dataset.at("mounted_at").get<std::string>();
      all[name_of(dataset)] = where;
      if (!json) {
        const std::string name = name_of(dataset);
        context.out << name << std::string(name.size() < 30 ? 30 - name.size() : 0, ' ') << "  "
                    << where << '\n';
      }
    }
  }
  if (json) {
    print_json(context, {{"datasets", all}});
  }
  return failed ? kExitFailed : 0;
}

struct MountWords {
  bool all = false, force = false, json = false;
  std::vector<std::string> options;
  std::string dataset;
};

int mount(Context& context, const MountWords& words) {
  bool read_only = false;
  for (const std::string& list : words.options) {
    for (const std::string& option : split(list)) {
      if (option != "ro" && option != "rw") {
        return fail_with(context, "mount option '" + option + "' is not supported: only ro is");
      }
      read_only = option == "ro";
    }
  }
  if (words.all) {
    int result = 0;
    for (const std::string& pool : control::running_pools()) {
      const auto done = call_daemon(pool, "mount", {{"all", true}});
      if (!done) {
        result =
            fail_with(context, "cannot mount the file systems of '" + pool + "'", done.error());
        continue;
      }
      for (const Json& failure : done->at("failures")) {
        result = fail_with(context, failure.get<std::string>());
      }
    }
    return result;
  }
  if (words.dataset.empty()) {
    return show_mounted(context, words.json);
  }
  const auto done = call_daemon(pool_of(words.dataset), "mount",
                                {{"dataset", words.dataset}, {"read_only", read_only}});
  if (!done) {
    const bool absent = done.error().what() == "no such pool";
    return absent
               ? fail_with(context, "cannot open '" + words.dataset + "': dataset does not exist")
               : fail_with(context, "cannot mount '" + words.dataset + "'", done.error());
  }
  return 0;
}

int unmount(Context& context, const MountWords& words) {
  if (!words.all && words.dataset.empty()) {
    context.err << "unmount: needs a file system, a mount point or -a\n";
    return kExitUsage;
  }
  std::vector<std::string> pools = control::running_pools();
  if (!words.all && !words.dataset.starts_with('/')) {
    pools = {pool_of(words.dataset)};
  }
  int result = 0;
  Error last(Errc::not_found, "not currently mounted");
  for (const std::string& pool : pools) {
    const auto done = call_daemon(
        pool, "unmount", {{"all", words.all}, {"dataset", words.dataset}, {"force", words.force}});
    if (done && !words.all) {
      return 0;
    }
    if (!done && words.all) {
      result =
          fail_with(context, "cannot unmount the file systems of '" + pool + "'", done.error());
    } else if (!done && (done.error().code() != Errc::not_found || pools.size() == 1)) {
      last = done.error();
    }
  }
  return words.all ? result : fail_with(context, "cannot unmount '" + words.dataset + "'", last);
}

void add_list(CLI::App& parent, Context& context) {
  const auto words = std::make_shared<ListWords>();
  CLI::App* const app = parent.add_subcommand("list", "Datasets with their space and mount points");
  add_output_options(*app, words->how);
  app->add_flag("-r", words->recursive, "Also what lies below");
  app->add_option("-d", words->depth, "As -r, but only this deep");
  app->add_option("-t", words->types,
                  "Types separated by commas: filesystem, snapshot, volume, all");
  app->add_option("-o", words->columns, "Print these properties, separated by commas");
  app->add_option("-s", words->ascending, "Sort by this property, ascending")
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app->add_option("-S", words->descending, "Sort by this property, descending")
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app->add_option("DATASET", words->names, "Datasets or mount points (default: all)");
  app->footer("Examples:\n  zuse fs list -r tank\n  zuse fs list -Hp -t snapshot -o name,used");
  app->callback(
      [&context, words] { context.chosen = [&context, words] { return list(context, *words); }; });
}

void add_get(CLI::App& parent, Context& context) {
  const auto words = std::make_shared<GetWords>();
  CLI::App* const app = parent.add_subcommand("get", "Properties of datasets");
  add_output_options(*app, words->how);
  app->add_flag("-r", words->recursive, "Also of what lies below");
  app->add_option("-d", words->depth, "As -r, but only this deep");
  app->add_option("-t", words->types,
                  "Types separated by commas: filesystem, snapshot, volume, all");
  app->add_option("-o", words->columns, "Columns: name, property, value, source, or all");
  app->add_option("-s", words->sources,
                  "Only values from these sources: local, default, inherited, received, none");
  app->add_option("PROPERTY", words->property, "Properties separated by commas, or 'all'")
      ->required();
  app->add_option("DATASET", words->names, "Datasets or mount points (default: all)");
  app->footer("Example:\n  zuse fs get -r compression,compressratio tank");
  app->callback(
      [&context, words] { context.chosen = [&context, words] { return get(context, *words); }; });
}

void add_set(CLI::App& parent, Context& context) {
  const auto words = std::make_shared<std::vector<std::string>>();
  CLI::App* const app = parent.add_subcommand("set", "Set properties of datasets");
  app->add_option("PROPERTY=VALUE ... DATASET", *words, "What to set, then where")->required();
  app->footer("Example:\n  zuse fs set compression=zstd atime=off tank/home");
  app->callback(
      [&context, words] { context.chosen = [&context, words] { return set(context, *words); }; });
}

void add_mount(CLI::App& parent, Context& context) {
  const auto words = std::make_shared<MountWords>();
  CLI::App* const app =
      parent.add_subcommand("mount", "Mount file systems; without arguments: list mounted ones");
  app->add_flag("-a", words->all, "All that are to be mounted");
  app->add_option("-o", words->options, "ro: mount read-only")
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app->add_flag("--json", words->json, "List as JSON");
  app->add_option("FILESYSTEM", words->dataset, "The file system");
  app->callback(
      [&context, words] { context.chosen = [&context, words] { return mount(context, *words); }; });
}

void add_unmount(CLI::App& parent, Context& context) {
  const auto words = std::make_shared<MountWords>();
  CLI::App* const app = parent.add_subcommand("unmount", "Unmount file systems");
  app->alias("umount");
  app->add_flag("-a", words->all, "All");
  app->add_flag("-f", words->force, "Also where files are open: their users get errors");
  app->add_option("FILESYSTEM", words->dataset, "The file system or its mount point");
  app->callback([&context, words] {
    context.chosen = [&context, words] { return unmount(context, *words); };
  });
}

}  // namespace

void add_fs_commands(CLI::App& parent, Context& context) {
  add_list(parent, context);
  add_get(parent, context);
  add_set(parent, context);
  add_mount(parent, context);
  add_unmount(parent, context);
}

}  // namespace zuse::cli
