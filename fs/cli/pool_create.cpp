// zuse pool create, import: the two that start a daemon.
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <boost/filesystem.hpp>
#include <memory>
#include <ostream>

#include "fs/cli/pool_commands.h"
#include "fs/cli/status_text.h"
#include "fs/cli/vdev_spec.h"
#include "fs/control/daemon.h"
#include "fs/control/devices.h"
#include "fs/control/json_views.h"
#include "fs/control/mounts.h"
#include "fs/control/run_directory.h"
#include "raid/registry.h"

namespace zuse::cli {
namespace {

struct CreateWords {
  bool force = false, no_mount = false, dry_run = false, foreground = false;
  std::string mount_point, altroot, pool;
  std::vector<std::string> pool_options, fs_options, vdevs;
};

std::string absolute(const std::string& path) {
  return boost::filesystem::absolute(path).lexically_normal().string();
}

Result<bool> on_or_off(const std::string& name, const std::string& value) {
  if (value == "on" || value == "off") {
    return value == "on";
  }
  return fail(Errc::invalid, "'" + name + "' must be one of 'on' or 'off'");
}

// Refused here, before a daemon is started or a byte written.
Result<std::string> raidz_impl(const std::string& name) {
  if (const auto chosen = raid::choose(name); !chosen) {
    return fail(Errc::invalid, chosen.error());
  }
  return name;
}

Result<control::DaemonOptions> create_options(const CreateWords& words) {
  dataset::CreateOptions create;
  control::DaemonOptions options;
  create.name = words.pool;
  create.force = words.force;
  options.altroot = words.altroot;
  options.mount = !words.no_mount;
  options.foreground = words.foreground;
  for (const std::string& text : words.pool_options) {
    ZUSE_TRY(const auto assignment, parse_assignment(text));
    const auto& [name, value] = assignment;
    if (name == "ashift") {
      if (value.empty() || value.size() > 2 ||
          value.find_first_not_of("0123456789") != std::string::npos) {
        return fail(Errc::invalid, "ashift is a number from 9 to 16, not '" + value + "'");
      }
      const int number = std::stoi(value);
      if (number < 9 || number > 16) {
        return fail(Errc::invalid, "ashift is a number from 9 to 16, not '" + value + "'");
      }
      create.ashift = static_cast<unsigned>(number);
    } else if (name == "altroot") {
      options.altroot = value;
    } else if (name == "cachefile") {
      if (value != "none") {
        return fail(Errc::unsupported, "there is no cache file: cachefile can only be 'none'");
      }
    } else if (name == "raidz_impl") {
      ZUSE_TRY(options.import.raidz_impl, raidz_impl(value));
    } else {
      create.pool_properties[name] = value;
    }
  }
  for (const std::string& text : words.fs_options) {
    ZUSE_TRY(const auto assignment, parse_assignment(text));
    create.properties[assignment.first] = assignment.second;
  }
  if (!words.mount_point.empty()) {
    const bool word = words.mount_point == "none" || words.mount_point == "legacy";
    create.properties["mountpoint"] = word ? words.mount_point : absolute(words.mount_point);
  }
  if (!options.altroot.empty()) {
    options.altroot = absolute(options.altroot);
  }
  ZUSE_TRY(create.vdevs, parse_vdevs(words.vdevs, words.force));
  options.create = std::move(create);
  return options;
}

// A pool whose root cannot be mounted is better not made at all.
Result<void> check_mount_point(const control::DaemonOptions& options) {
  if (!options.mount) {
    return {};
  }
  const auto& properties = options.create->properties;
  const auto set = properties.find("mountpoint");
  const std::string where = set == properties.end() ? "/" + options.create->name : set->second;
  const auto canmount = properties.find("canmount");
  if (where == "none" || where == "legacy" ||
      (canmount != properties.end() && canmount->second != "on")) {
    return {};
  }
  const std::string path = control::join_root(options.altroot, where);
  boost::system::error_code error;
  if (!boost::filesystem::exists(path, error)) {
    return {};
  }
  if (!boost::filesystem::is_directory(path, error)) {
    return fail(Errc::not_directory, "mountpoint '" + path + "' exists and is not a directory");
  }
  if (!boost::filesystem::is_empty(path, error) && !error) {
    return fail(Errc::not_empty, "mountpoint '" + path +
                                     "' exists and is not empty; use '-m' to choose another one");
  }
  return {};
}

int warn(Context& context, const control::DaemonStarted& started) {
  for (const std::string& warning : started.warnings) {
    context.err << warning << '\n';
  }
  return started.warnings.empty() ? 0 : kExitFailed;
}

int create(Context& context, const CreateWords& words) {
  const std::string what = "cannot create '" + words.pool + "'";
  auto options = create_options(words);
  if (!options) {
    return fail_with(context, what, options.error());
  }
  options->command_line = context.command_line;
  if (words.dry_run) {
    context.out << "would create '" << words.pool << "' with the following layout:\n\n\t"
                << words.pool << '\n';
    for (const dataset::VdevSpec& vdev : options->create->vdevs) {
      const bool group = vdev.type == vdev::VdevType::mirror || vdev.type == vdev::VdevType::raidz;
      if (group) {
        context.out << "\t  "
                    << (vdev.type == vdev::VdevType::mirror ? std::string("mirror")
                                                            : "raidz" + std::to_string(vdev.parity))
                    << '\n';
      }
      for (const std::string& path : vdev.paths) {
        context.out << (group ? "\t    " : "\t  ") << path << '\n';
      }
    }
    return 0;
  }
  if (auto fit = check_mount_point(*options); !fit) {
    return fail_with(context, what, fit.error());
  }
  const auto started = control::run_daemon(*options);
  if (!started) {
    return fail_with(context, what, started.error());
  }
  return warn(context, *started);
}

struct ImportWords {
  bool all = false, force = false, no_mount = false, foreground = false, json = false;
  std::string altroot, pool, new_name;
  std::vector<std::string> directories, options;
};

std::vector<std::string> default_places() {
  if (const char* const path = std::getenv("ZPOOL_IMPORT_PATH")) {
    std::vector<std::string> places;
    std::string rest = path;
    for (std::size_t at = 0; at <= rest.size();) {
      const std::size_t end = std::min(rest.find(':', at), rest.size());
      if (end > at) {
        places.push_back(rest.substr(at, end - at));
      }
      at = end + 1;
    }
    return places;
  }
  return {boost::filesystem::current_path().string(), "/dev"};
}

// What could be imported, as JSON: found out in a process of its own.
Result<Json> candidates(const std::vector<std::string>& places) {
  ZUSE_TRY(const std::string text, control::run_apart([&]() -> Result<std::string> {
             ZUSE_TRY(const auto found,
                      dataset::Pool::importable(places, control::plain_devices()));
             Json all = Json::array();
             for (const dataset::ImportCandidate& candidate : found) {
               all.push_back(control::candidate_view(candidate));
             }
             return all.dump(-1, ' ', false, Json::error_handler_t::replace);
           }));
  return Json::parse(text);
}

Result<control::DaemonOptions> import_options(const ImportWords& words,
                                              const std::vector<std::string>& places) {
  control::DaemonOptions options;
  options.import.directories = places;
  options.import.pool = words.pool;
  options.import.new_name = words.new_name;
  options.import.force = words.force;
  options.altroot = words.altroot;
  options.mount = !words.no_mount;
  options.foreground = words.foreground;
  for (const std::string& text : words.options) {
    ZUSE_TRY(const auto assignment, parse_assignment(text));
    const auto& [name, value] = assignment;
    if (name == "readonly") {
      ZUSE_TRY(options.import.read_only, on_or_off(name, value));
    } else if (name == "altroot") {
      options.altroot = value;
    } else if (name == "raidz_impl") {
      ZUSE_TRY(options.import.raidz_impl, raidz_impl(value));
    } else if (name == "cachefile" && value == "none") {
      continue;
    } else {
      return fail(Errc::unsupported, "property '" + name + "' cannot be set at import");
    }
  }
  if (!options.altroot.empty()) {
    options.altroot = absolute(options.altroot);
  }
  return options;
}

int import_one(Context& context, const ImportWords& words, const std::vector<std::string>& places) {
  const std::string what = "cannot import '" + words.pool + "'";
  auto options = import_options(words, places);
  if (!options) {
    return fail_with(context, what, options.error());
  }
  options->command_line = context.command_line;
  const auto started = control::run_daemon(*options);
  if (!started) {
    return fail_with(context, what, started.error());
  }
  return warn(context, *started);
}

int import(Context& context, const ImportWords& words) {
  std::vector<std::string> places;
  for (const std::string& directory : words.directories) {
    places.push_back(absolute(directory));
  }
  if (places.empty()) {
    places = default_places();
  }
  if (!words.pool.empty()) {
    return import_one(context, words, places);
  }
  const auto found = candidates(places);
  if (!found) {
    return fail_with(context, "cannot look for pools", found.error());
  }
  // Pools that are served already are not on offer.
  const std::vector<std::string> served = control::running_pools();
  Json offered = Json::array();
  for (const Json& candidate : *found) {
    if (std::ranges::find(served, candidate.at("name").get<std::string>()) == served.end()) {
      offered.push_back(candidate);
    }
  }
  if (!words.all) {
    if (words.json) {
      print_json(context, {{"pools", offered}});
    } else if (offered.empty()) {
      context.out << "no pools available to import\n";
    } else {
      print_candidates(context.out, offered);
    }
    return 0;
  }
  int result = 0;
  for (const Json& candidate : offered) {
    if (!candidate.at("problem").get<std::string>().empty()) {
      result = fail_with(context, "cannot import '" + candidate.at("name").get<std::string>() +
                                      "': " + candidate.at("problem").get<std::string>());
      continue;
    }
    ImportWords one = words;
    one.pool = candidate.at("guid").get<std::string>();
    if (const int failed = import_one(context, one, places); failed != 0) {
      result = failed;
    }
  }
  return result;
}

}  // namespace

void add_create(CLI::App& parent, Context& context) {
  const auto words = std::make_shared<CreateWords>();
  CLI::App* const app = parent.add_subcommand("create", "Create a pool, and mount its file system");
  app->add_flag("-f", words->force,
                "Use images that belong to another pool, and vdevs that differ in redundancy");
  app->add_option("-m", words->mount_point,
                  "Where the root file system is mounted: an absolute path, 'none' or 'legacy' "
                  "(default: /POOL)");
  app->add_option("-o", words->pool_options, "Set a pool property: ashift=12, comment=..., ...")
      ->type_name("PROPERTY=VALUE")
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app->add_option("-O", words->fs_options,
                  "Set a property of the root file system: compression=zstd, ...")
      ->type_name("PROPERTY=VALUE")
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app->add_option("-R,--altroot", words->altroot, "Put all mount points below this directory");
  app->add_flag("-N", words->no_mount, "Mount nothing");
  app->add_flag("-n", words->dry_run, "Show the layout, create nothing");
  app->add_flag("--foreground", words->foreground,
                "Serve the pool from this process, until it is exported");
  app->add_option("POOL", words->pool, "The pool's name")->required();
  app->add_option("VDEVS", words->vdevs,
                  "Images or disks; the words mirror, raidz, raidz1, raidz2, raidz3 begin a group")
      ->required();
  app->footer(
      "Examples:\n"
      "  zuse pool create -m /mnt/tank tank raidz2 d0.img d1.img d2.img d3.img\n"
      "  zuse pool create -o ashift=12 -O compression=lz4 tank mirror a.img b.img mirror c.img "
      "d.img");
  app->callback([&context, words] {
    context.chosen = [&context, words] { return create(context, *words); };
  });
}

void add_import(CLI::App& parent, Context& context) {
  const auto words = std::make_shared<ImportWords>();
  CLI::App* const app =
      parent.add_subcommand("import", "Import a pool; without a name: list what can be imported");
  app->add_option("-d", words->directories,
                  "Look in this directory, or at this image or disk (default: here and /dev)")
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app->add_option("-R,--altroot", words->altroot, "Put all mount points below this directory");
  app->add_flag("-N", words->no_mount, "Mount nothing");
  app->add_flag("-f", words->force, "Import a pool that another host used last");
  app->add_option("-o", words->options, "readonly=on: write nothing to the pool")
      ->type_name("PROPERTY=VALUE")
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app->add_flag("-a", words->all, "Import every pool found");
  app->add_flag("--foreground", words->foreground,
                "Serve the pool from this process, until it is exported");
  app->add_flag("--json", words->json, "List as JSON");
  app->add_option("POOL", words->pool, "The pool's name or guid");
  app->add_option("NEWNAME", words->new_name, "Give the pool this name from now on");
  app->footer(
      "Examples:\n"
      "  zuse pool import -d /images\n"
      "  zuse pool import -d /images -R /mnt tank\n"
      "  zuse pool import -d d0.img -d d1.img -o readonly=on 1234567890 rescued");
  app->callback([&context, words] {
    context.chosen = [&context, words] { return import(context, *words); };
  });
}

}  // namespace zuse::cli
