// Tables and numbers. A size has at most three digits before its suffix, and as many decimals as
// fit into a width of five: 1.50G, 15.0G, 150G.
#include "fs/cli/table.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <ostream>

#include "vdev/base/result.h"

namespace zuse::cli {
namespace {

constexpr std::array<const char*, 7> kSuffixes{"", "K", "M", "G", "T", "P", "E"};

std::string scaled(std::uint64_t value, double step, const char* unit_of_ones) {
  std::size_t index = 0;
  double shown = static_cast<double>(value);
  // 1023.6K would round up to four digits: it is 1.00M.
  while (shown >= step - 0.5 && index + 1 < kSuffixes.size()) {
    shown /= step;
    ++index;
  }
  if (index == 0) {
    return std::to_string(value) + unit_of_ones;
  }
  const int decimals = shown < 9.995 ? 2 : shown < 99.95 ? 1 : 0;
  // A whole multiple needs no decimals: 128K, not 128.00K.
  double whole = step;
  for (std::size_t i = 1; i < index; ++i) {
    whole *= step;
  }
  const bool even = value % static_cast<std::uint64_t>(whole) == 0;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.*f%s", even ? 0 : decimals, shown, kSuffixes[index]);
  return text.data();
}

}  // namespace

void Table::add(std::vector<std::string> cells) {
  ZUSE_CHECK(cells.size() == columns_.size());
  rows_.push_back(std::move(cells));
}

void Table::print(std::ostream& out, bool scripted) const {
  if (scripted) {
    for (const auto& row : rows_) {
      for (std::size_t i = 0; i < row.size(); ++i) {
        out << (i == 0 ? "" : "\t") << row[i];
      }
      out << '\n';
    }
    return;
  }
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    std::size_t width = columns_[i].name.size();
    for (const auto& row : rows_) {
      width = std::max(width, row[i].size());
    }
    widths.push_back(width);
  }
  const auto line = [&](const auto& cell_of) {
    std::string text;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const std::string& cell = cell_of(i);
      const std::string pad(widths[i] - cell.size(), ' ');
      if (i != 0) {
        text += "  ";
      }
      text += columns_[i].align == Align::right ? pad + cell : cell + pad;
    }
    text.erase(text.find_last_not_of(' ') + 1);
    out << text << '\n';
  };
  line([&](std::size_t i) -> const std::string& { return columns_[i].name; });
  for (const auto& row : rows_) {
    line([&](std::size_t i) -> const std::string& { return row[i]; });
  }
}

std::string size_text(std::uint64_t bytes, bool exact) {
  return exact ? std::to_string(bytes) : scaled(bytes, 1024, "B");
}

std::string count_text(std::uint64_t count, bool exact) {
  return exact || count < 1000 ? std::to_string(count) : scaled(count, 1024, "");
}

std::string time_text(std::uint64_t unix_seconds) {
  const auto when = static_cast<std::time_t>(unix_seconds);
  std::tm parts{};
  localtime_r(&when, &parts);
  std::array<char, 64> text{};
  std::strftime(text.data(), text.size(), "%a %b %e %H:%M:%S %Y", &parts);
  return text.data();
}

std::string duration_text(std::uint64_t seconds) {
  const std::uint64_t days = seconds / 86400;
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%02llu:%02llu:%02llu",
                static_cast<unsigned long long>(seconds / 3600 % 24),
                static_cast<unsigned long long>(seconds / 60 % 60),
                static_cast<unsigned long long>(seconds % 60));
  return days == 0 ? text.data() : std::to_string(days) + " days " + text.data();
}

}  // namespace zuse::cli
