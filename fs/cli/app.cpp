// Parsing of the command line down to the subcommand, and what all of them need.
#include "fs/cli/app.h"

#include <CLI/CLI.hpp>
#include <boost/filesystem.hpp>
#include <ostream>

#include "fs/control/run_directory.h"
#include "zinject/control_client.h"

namespace zuse::cli {
namespace {

constexpr const char* kVersion = "zuse 0.1.0";

// Blanks in an argument are put in quotes, so that the history can be read back.
std::string joined(const std::string& program, int argc, const char* const* argv) {
  std::string line = program;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const bool quote = argument.empty() || argument.find_first_of(" \t\n'\"") != std::string::npos;
    line += ' ';
    line += quote ? "'" + argument + "'" : argument;
  }
  return line;
}

std::string one_line(std::string text) {
  for (char& c : text) {
    if (c == '\n') {
      c = ' ';
    }
  }
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

}  // namespace

int fail_with(Context& context, const std::string& sentence) {
  context.err << one_line(sentence) << '\n';
  return kExitFailed;
}

int fail_with(Context& context, const std::string& what, const Error& why) {
  return fail_with(context, what + ": " + why.what());
}

Result<Json> call_daemon(const std::string& pool, const std::string& command, const Json& args) {
  auto answer = zinject::ask(pool, command, args);
  if (!answer &&
      (answer.error().code() == Errc::not_found || answer.error().code() == Errc::invalid)) {
    const auto socket = zinject::socket_path(pool);
    if (!socket || !control::somebody_listens(*socket)) {
      return fail(Errc::not_found, "no such pool");
    }
  }
  return answer;
}

Result<std::pair<std::string, std::string>> parse_assignment(const std::string& text) {
  const std::size_t at = text.find('=');
  if (at == std::string::npos || at == 0) {
    return fail(Errc::invalid, "'" + text + "' is not of the form property=value");
  }
  return std::pair(text.substr(0, at), text.substr(at + 1));
}

void print_json(Context& context, const Json& value) {
  context.out << value.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

int run(int argc, const char* const* argv, std::ostream& out, std::ostream& err) {
  const std::string called =
      argc > 0 ? boost::filesystem::path(argv[0]).filename().string() : "zuse";
  const bool is_zpool = called == "zpool", is_zfs = called == "zfs";
  const std::string program = is_zpool || is_zfs ? called : "zuse";
  Context context{out, err, joined(program, argc, argv), {}};

  CLI::App app("ZFS in user space", program);
  app.set_version_flag("-V,--version", kVersion);
  app.require_subcommand(1);
  app.get_formatter()->column_width(28);
  if (is_zpool) {
    app.description("Storage pools on image files and disks, served by zuse.");
    add_pool_commands(app, context);
  } else if (is_zfs) {
    app.description("The datasets of pools that zuse serves.");
    add_fs_commands(app, context);
  } else {
    app.footer(
        "Examples:\n"
        "  truncate -s 1G d0.img d1.img d2.img\n"
        "  zuse pool create -m /mnt/tank tank raidz1 d0.img d1.img d2.img\n"
        "  zuse pool status tank\n"
        "  zuse pool export tank");
    CLI::App* const pool = app.add_subcommand("pool", "Storage pools: what zpool does");
    pool->require_subcommand(1);
    add_pool_commands(*pool, context);
    CLI::App* const fs = app.add_subcommand("fs", "Datasets: what zfs does");
    fs->require_subcommand(1);
    add_fs_commands(*fs, context);
  }

  try {
    app.parse(argc, argv);
    return context.chosen ? context.chosen() : kExitUsage;
  } catch (const CLI::Success& asked) {  // --help, --version
    return app.exit(asked, out, err);
  } catch (const CLI::ParseError& error) {
    std::string where = program;
    for (const CLI::App* at = &app; !at->get_subcommands().empty();) {
      at = at->get_subcommands().front();
      where += " " + at->get_name();
    }
    err << where << ": " << one_line(error.what()) << " (" << where << " --help tells more)\n";
    return kExitUsage;
  } catch (const std::exception& error) {  // an answer of an unexpected shape
    return fail_with(context, std::string("internal error: ") + error.what());
  }
}

}  // namespace zuse::cli
