// zuse pool check, labelclear: what is done to images that no daemon has. The devices are opened
// here, with an exclusive lock where they are written: a pool that is served is not touched.
#include <CLI/CLI.hpp>
#include <boost/filesystem.hpp>
#include <memory>
#include <ostream>

#include "fs/cli/pool_commands.h"
#include "fs/cli/table.h"
#include "fs/control/devices.h"
#include "fs/dataset/check.h"
#include "fs/pool/config.h"
#include "fs/pool/label.h"

namespace zuse::cli {
namespace {

const char* state_word(pool::PoolState state) {
  switch (state) {
    case pool::PoolState::active: return "potentially active";
    case pool::PoolState::exported: return "exported";
    case pool::PoolState::destroyed: return "destroyed";
    case pool::PoolState::spare: return "spare";
    case pool::PoolState::l2cache: return "cache";
  }
  return "unknown";
}

Result<void> clear_label(const std::string& path, bool force) {
  ZUSE_TRY(const auto device, control::plain_devices()(path, false));
  const auto labels = pool::read_labels(*device);
  if (!labels) {
    return fail(Errc::not_found, "no label there");
  }
  const auto config = pool::decode_label_config(labels->config());
  if (!force && config && config->pool.state != pool::PoolState::destroyed) {
    return fail(Errc::busy, "it belongs to the " + std::string(state_word(config->pool.state)) +
                                " pool '" + config->pool.name +
                                "'; use -f to clear its label all the same");
  }
  ZUSE_TRY_VOID(pool::clear_labels(*device));
  return device->flush();
}

struct CheckWords {
  bool json = false, verbose = false;
  std::vector<std::string> places, what;
};

Result<dataset::ImportOptions> check_options(const CheckWords& words) {
  dataset::ImportOptions options;
  options.read_only = true;
  options.force = true;  // nothing is written, so it does not matter whose it is
  boost::system::error_code error;
  for (const std::string& word : words.what) {
    if (boost::filesystem::exists(word, error)) {
      options.directories.push_back(boost::filesystem::absolute(word).lexically_normal().string());
    } else if (options.pool.empty()) {
      options.pool = word;
    } else {
      return fail(Errc::invalid, "there are two pool names: '" + options.pool + "' and '" + word +
                                     "' (neither is an image)");
    }
  }
  for (const std::string& place : words.places) {
    options.directories.push_back(boost::filesystem::absolute(place).lexically_normal().string());
  }
  if (options.directories.empty()) {
    options.directories = {boost::filesystem::current_path().string()};
  }
  if (options.pool.empty()) {
    ZUSE_TRY(const auto found,
             dataset::Pool::importable(options.directories, control::plain_devices()));
    if (found.empty()) {
      return fail(Errc::not_found, "no pool there");
    }
    if (found.size() > 1) {
      return fail(Errc::invalid, "several pools are there: name one");
    }
    options.pool = std::to_string(found.front().guid);
  }
  return options;
}

Json totals_view(const pool::CheckTotals& totals) {
  return {{"blocks", totals.blocks},
          {"logical", totals.lsize},
          {"physical", totals.psize},
          {"allocated", totals.asize}};
}

int check(Context& context, const CheckWords& words) {
  const auto options = check_options(words);
  if (!options) {
    return fail_with(context, "cannot check", options.error());
  }
  const auto checked = dataset::check_pool(*options, control::plain_devices());
  if (!checked) {
    return fail_with(context, "cannot check '" + options->pool + "'", checked.error());
  }
  const pool::CheckReport& report = checked->report;
  if (words.json) {
    Json counts = Json::object(), findings = Json::array();
    for (const auto& [problem, count] : report.counts) {
      counts[pool::to_string(problem)] = count;
    }
    for (const pool::CheckFinding& finding : report.findings) {
      findings.push_back({{"problem", pool::to_string(finding.problem)}, {"what", finding.what}});
    }
    print_json(context, {{"pool", checked->name},
                         {"clean", checked->clean()},
                         {"problems", std::move(counts)},
                         {"findings", std::move(findings)},
                         {"accounting", checked->accounting},
                         {"objects", report.objects},
                         {"totals", totals_view(report.all)},
                         {"indirect", totals_view(report.indirect)},
                         {"allocated", report.allocated},
                         {"claimed", report.claimed},
                         {"examined", report.examined}});
    return checked->clean() ? 0 : kExitFailed;
  }
  context.out << "  pool: " << checked->name << "\n  read: " << report.objects << " objects, "
              << report.all.blocks << " blocks, " << size_text(report.examined)
              << " examined\n space: " << size_text(report.allocated) << " allocated, "
              << size_text(report.claimed) << " referenced\n";
  for (const auto& [problem, count] : report.counts) {
    context.out << " wrong: " << count << " x " << pool::to_string(problem) << '\n';
  }
  constexpr std::size_t kShown = 20;
  std::size_t shown = 0;
  for (const pool::CheckFinding& finding : report.findings) {
    if (!words.verbose && shown == kShown) {
      context.out << "        ... (-v names all)\n";
      break;
    }
    context.out << "        " << finding.what << '\n';
    ++shown;
  }
  for (const std::string& sentence : checked->accounting) {
    context.out << " wrong: " << sentence << '\n';
  }
  context.out << (checked->clean() ? "result: clean\n" : "result: damaged\n");
  return checked->clean() ? 0 : kExitFailed;
}

}  // namespace

void add_labelclear(CLI::App& parent, Context& context) {
  struct Words {
    bool force = false;
    std::vector<std::string> paths;
  };
  const auto words = std::make_shared<Words>();
  CLI::App* const app = parent.add_subcommand(
      "labelclear", "Remove the labels of images or disks from a former pool");
  app->add_flag("-f", words->force, "Also those of a pool that is exported or in use elsewhere");
  app->add_option("DEVICE", words->paths, "Images or disks")->required();
  app->callback([&context, words] {
    context.chosen = [&context, words] {
      int result = 0;
      for (const std::string& path : words->paths) {
        if (auto done = clear_label(path, words->force); !done) {
          result = fail_with(context, "cannot clear the label of '" + path + "'", done.error());
        }
      }
      return result;
    };
  });
}

void add_check(CLI::App& parent, Context& context) {
  const auto words = std::make_shared<CheckWords>();
  CLI::App* const app = parent.add_subcommand(
      "check", "Verify everything in a pool that is not imported; nothing is written");
  app->add_option("-d", words->places, "Look in this directory, or at this image (default: here)")
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app->add_flag("-v", words->verbose, "Name every finding");
  app->add_flag("--json", words->json, "Print JSON");
  app->add_option("POOL|IMAGES", words->what, "A pool's name or guid, or all of its images");
  app->footer(
      "Examples:\n"
      "  zuse pool check d*.img\n"
      "  zuse pool check -d /images tank");
  app->callback(
      [&context, words] { context.chosen = [&context, words] { return check(context, *words); }; });
}

}  // namespace zuse::cli
