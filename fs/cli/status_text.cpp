// Pool states in words. The layout (labels, columns, the closing errors line) is what scripts
// around zpool read; the advice is our own, since it names what zuse can do.
#include "fs/cli/status_text.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <ostream>
#include <vector>

#include "fs/cli/table.h"

namespace zuse::cli {
namespace {

std::string text(const Json& object, const char* name) {
  return object.at(name).get<std::string>();
}
std::uint64_t number(const Json& object, const char* name) {
  return object.at(name).get<std::uint64_t>();
}

struct Row {
  std::string name;
  const Json* vdev;
};

void flatten(const Json& vdev, const std::string& name, std::size_t depth, std::vector<Row>& rows) {
  rows.push_back({std::string(2 * depth, ' ') + name, &vdev});
  for (const Json& child : vdev.at("children")) {
    flatten(child, text(child, "name"), depth + 1, rows);
  }
}

std::vector<Row> rows_of(const Json& tree, const std::string& pool) {
  std::vector<Row> rows;
  flatten(tree, pool, 0, rows);
  return rows;
}

std::size_t name_width(const std::vector<Row>& rows) {
  std::size_t width = 10;
  for (const Row& row : rows) {
    width = std::max(width, row.name.size());
  }
  return width;
}

std::string padded(const std::string& value, std::size_t width) {
  return value + std::string(width > value.size() ? width - value.size() : 0, ' ');
}
std::string right(const std::string& value, std::size_t width) {
  return std::string(width > value.size() ? width - value.size() : 0, ' ') + value;
}

struct Advice {
  std::string status, action;
};

// What is wrong with a pool, the worst first; empty: nothing.
Advice advice(const Json& status) {
  bool missing = false, faulted = false, offline = false, counted = false;
  for (const Row& row : rows_of(status.at("config"), {})) {
    const std::string state = text(*row.vdev, "state");
    if (row.vdev->at("children").empty()) {
      missing = missing || state == "UNAVAIL" || state == "REMOVED";
      faulted = faulted || state == "FAULTED" || state == "DEGRADED";
      offline = offline || state == "OFFLINE";
    }
    counted =
        counted ||
        number(*row.vdev, "read") + number(*row.vdev, "write") + number(*row.vdev, "checksum") != 0;
  }
  const std::string state = text(status, "state");
  const bool lost = state == "FAULTED" || state == "UNAVAIL" || state == "SUSPENDED";
  if (!status.at("errors").empty()) {
    return {"Some data could not be read from any copy or rebuilt from parity.",
            "Restore the files named by 'zuse pool status -v' from a backup, then clear the errors "
            "with\n\t'zuse pool clear' and scrub."};
  }
  if (lost) {
    return {"Too many devices are missing or damaged for the pool to go on.",
            "Bring the missing images back, export and import the pool again."};
  }
  if (missing) {
    return {
        "One or more devices are missing or have no usable label. The redundancy that is left\n"
        "\tserves all data: the pool is degraded.",
        "Bring the device back and run 'zuse pool clear', then scrub."};
  }
  if (faulted) {
    return {
        "One or more devices are faulted or degraded. The redundancy that is left serves all\n"
        "\tdata: the pool is degraded.",
        "Repair the device and run 'zuse pool clear', then scrub."};
  }
  if (offline) {
    return {"One or more devices have been taken offline. The pool is degraded.",
            "Bring the device back with 'zuse pool clear'."};
  }
  if (counted) {
    return {"Errors happened on one or more devices. No data has been lost.",
            "Find out whether the device is to be replaced; forget the errors with 'zuse pool "
            "clear'."};
  }
  return {};
}

}  // namespace

bool is_healthy(const Json& status) {
  return text(status, "state") == "ONLINE" && advice(status).status.empty();
}

std::string scan_text(const Json& scan, std::uint64_t now) {
  const std::string function = text(scan, "function"), state = text(scan, "state");
  if (function == "none" || state == "none") {
    return "none requested";
  }
  const bool resilver = function == "resilver";
  const std::string done_word = resilver ? "resilvered " : "scrub repaired ";
  const std::uint64_t start = number(scan, "start"), end = number(scan, "end"),
                      total = number(scan, "to_examine"), seen = number(scan, "examined");
  const std::string repaired = size_text(number(scan, "repaired"));
  if (state == "finished") {
    return done_word + repaired + " in " + duration_text(end > start ? end - start : 0) + " with " +
           std::to_string(number(scan, "errors")) + " errors on " + time_text(end);
  }
  if (state == "canceled") {
    return function + " canceled on " + time_text(end);
  }
  const double part =
      total == 0 ? 1.0 : std::min(1.0, static_cast<double>(seen) / static_cast<double>(total));
  std::array<char, 32> percent{};
  std::snprintf(percent.data(), percent.size(), "%.2f%%", 100.0 * part);
  std::string result;
  if (state == "paused") {
    result = function + " paused, started on " + time_text(start);
  } else {
    result = function + " in progress since " + time_text(start);
  }
  const double rate = scan.at("rate").get<double>();
  result += "\n\t" + size_text(seen) + " / " + size_text(total) + " examined";
  if (state != "paused" && rate >= 1) {
    result += " at " + size_text(static_cast<std::uint64_t>(rate)) + "/s";
  }
  result +=
      "\n\t" + repaired + (resilver ? " resilvered, " : " repaired, ") + percent.data() + " done";
  if (state != "paused" && rate >= 1 && total > seen) {
    result += ", " +
              duration_text(static_cast<std::uint64_t>(static_cast<double>(total - seen) / rate)) +
              " to go";
  } else if (state != "paused" && now > start) {
    result += ", running for " + duration_text(now - start);
  }
  return result;
}

void print_status(std::ostream& out, const Json& status, const StatusOptions& options) {
  const std::string pool = text(status, "name");
  out << "  pool: " << pool << "\n state: " << text(status, "state") << '\n';
  if (const Advice said = advice(status); !said.status.empty()) {
    out << "status: " << said.status << "\naction: " << said.action << '\n';
  }
  out << "  scan: " << scan_text(status.at("scan"), static_cast<std::uint64_t>(std::time(nullptr)))
      << "\nconfig:\n\n";
  const std::vector<Row> rows = rows_of(status.at("config"), pool);
  const std::size_t width = name_width(rows);
  out << '\t' << padded("NAME", width) << "  STATE     READ WRITE CKSUM\n";
  for (const Row& row : rows) {
    const auto count = [&](const char* name) {
      return right(count_text(number(*row.vdev, name), options.exact), 5);
    };
    out << '\t' << padded(row.name, width) << "  " << padded(text(*row.vdev, "state"), 8) << ' '
        << count("read") << ' ' << count("write") << ' ' << count("checksum");
    if (const std::string aux = text(*row.vdev, "aux"); !aux.empty()) {
      out << "  " << aux;
    }
    out << '\n';
  }
  const Json& errors = status.at("errors");
  out << '\n';
  if (errors.empty()) {
    out << "errors: No known data errors\n";
  } else if (!options.verbose) {
    out << "errors: " << errors.size() << " data errors, use '-v' for a list\n";
  } else {
    out << "errors: Permanent errors have been detected in the following files:\n\n";
    for (const Json& error : errors) {
      const std::string path = text(error, "path");
      out << "        " << text(error, "dataset") << (path.starts_with('/') ? "" : ":") << path
          << '\n';
    }
  }
}

void print_candidates(std::ostream& out, const Json& candidates) {
  bool first = true;
  for (const Json& candidate : candidates) {
    if (!first) {
      out << '\n';
    }
    first = false;
    const std::string pool = text(candidate, "name");
    const Json& tree = candidate.at("config");
    out << "   pool: " << pool << "\n     id: " << text(candidate, "guid")
        << "\n  state: " << text(tree, "state") << '\n';
    const std::string problem = text(candidate, "problem");
    std::string status = text(candidate, "status"), action = text(candidate, "action");
    if (status.empty()) {
      status = problem;
    }
    if (!status.empty()) {
      out << " status: " << status << '\n';
    }
    if (action.empty()) {
      action = problem.empty() ? "The pool can be imported using its name or numeric identifier."
                               : "The pool cannot be imported.";
    }
    out << " action: " << action << "\n config:\n\n";
    const std::vector<Row> rows = rows_of(tree, pool);
    const std::size_t width = name_width(rows);
    for (const Row& row : rows) {
      out << '\t' << padded(row.name, width) << "  " << text(*row.vdev, "state");
      if (const std::string aux = text(*row.vdev, "aux"); !aux.empty()) {
        out << "  " << aux;
      }
      out << '\n';
    }
  }
}

}  // namespace zuse::cli
