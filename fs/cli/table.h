// Text tables as zpool and zfs print them, and the spelling of numbers in them.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

namespace zuse::cli {

enum class Align : std::uint8_t { left, right };

struct Column {
  std::string name;
  Align align = Align::left;
};

// Rows of text under column names. Scripted (-H): no names, tabs between, nothing padded.
class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  // shape: as many cells as there are columns.
  void add(std::vector<std::string> cells);
  std::size_t rows() const noexcept { return rows_.size(); }
  void print(std::ostream& out, bool scripted) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// "1.50G", "0B", "480M"; with `exact`, the number of bytes.
std::string size_text(std::uint64_t bytes, bool exact = false);
// Counts of errors: "12", "1.50K"; with `exact`, all digits.
std::string count_text(std::uint64_t count, bool exact = false);
// "Tue Dec  1 01:02:03 2026", in local time.
std::string time_text(std::uint64_t unix_seconds);
// "00:01:12", "3 days 04:00:00".
std::string duration_text(std::uint64_t seconds);

}  // namespace zuse::cli
