// Properties on the way to the screen: abbreviations, columns, exact and readable values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fs/cli/app.h"
#include "fs/cli/table.h"

namespace zuse::cli {

// What every command that prints a table takes.
struct OutputOptions {
  bool scripted = false;  // -H
  bool exact = false;     // -p
  bool json = false;
};
void add_output_options(CLI::App& app, OutputOptions& how);

// "a,b,c" -> {"a", "b", "c"}; empty parts are left out.
std::vector<std::string> split(const std::string& list);

// Pool properties by name, from the daemon's answer to "list"; sizes and the like that the pool
// does not list itself are filled in from its totals, and what does not apply is "-".
Json pool_properties(const Json& answer);
std::string full_pool_property(const std::string& name);  // "alloc" -> "allocated"
std::string pool_property_text(const std::string& name, const Json& view, bool exact);
Column pool_column(const std::string& name);

std::string full_dataset_property(const std::string& name);  // "refer" -> "referenced"
// The value of a dataset's property; "-" where it has none. `dataset` is control::dataset_view().
std::string dataset_property_text(const Json& dataset, const std::string& name, bool exact);
// What rows are sorted by: sizes as numbers.
std::uint64_t dataset_property_number(const Json& dataset, const std::string& name);
Column dataset_column(const std::string& name);
// Every native property that `zfs get` and `-o` know.
bool is_dataset_property(const std::string& name);

// "local", "inherited from tank", "default", "-".
std::string source_text(const Json& view);

// "2026-12-01.01:02:03", in local time: how histories show it.
std::string history_time(std::uint64_t unix_seconds);

// The table of `get`: one row a property.
class PropertyTable {
 public:
  PropertyTable(std::vector<std::string> columns, bool with_received);
  std::string unknown_column() const;  // empty: all are known
  void add(const std::string& name, const std::string& property, const std::string& value,
           const Json& view);
  // `group`: the key of the JSON object.
  void print(Context& context, const OutputOptions& how, const std::string& group) const;

 private:
  struct Row {
    std::string name, property, value, source;
  };
  std::vector<std::string> columns_;
  std::vector<Row> rows_;
};

}  // namespace zuse::cli
