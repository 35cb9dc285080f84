// Property values as text. A view (control::property_view()) brings both the readable text and the
// number; which of them is printed depends on the kind of property and on -p.
#include "fs/cli/property_text.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <ctime>
#include <ostream>
#include <utility>

#include "fs/dataset/property.h"

namespace zuse::cli {
namespace {

constexpr std::array<std::pair<const char*, const char*>, 6> kPoolShort{
    {{"alloc", "allocated"},
     {"cap", "capacity"},
     {"ckpoint", "checkpoint"},
     {"dedup", "dedupratio"},
     {"expandsz", "expandsize"},
     {"frag", "fragmentation"}}};

// In the head of `zpool list`, some columns have short names.
constexpr std::array<std::pair<const char*, const char*>, 6> kPoolHeads{
    {{"allocated", "ALLOC"},
     {"capacity", "CAP"},
     {"checkpoint", "CKPOINT"},
     {"dedupratio", "DEDUP"},
     {"expandsize", "EXPANDSZ"},
     {"fragmentation", "FRAG"}}};

constexpr std::array<std::pair<const char*, const char*>, 5> kDatasetHeads{
    {{"available", "AVAIL"},
     {"referenced", "REFER"},
     {"compressratio", "RATIO"},
     {"recordsize", "RECSIZE"},
     {"reservation", "RESERV"}}};

bool is_pool_size(const std::string& name) {
  return name == "size" || name == "allocated" || name == "free" || name == "freeing" ||
         name == "leaked" || name == "checkpoint" || name == "expandsize";
}

// Computed properties whose number is bytes.
bool is_computed_size(const std::string& name) {
  return name.starts_with("used") || name == "available" || name == "referenced" ||
         name == "written" || name == "volsize" || name == "volblocksize" ||
         name.starts_with("logical");
}

std::string upper(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

template <std::size_t kCount>
std::string replaced(const std::array<std::pair<const char*, const char*>, kCount>& table,
                     const std::string& name, const std::string& otherwise) {
  for (const auto& [from, to] : table) {
    if (name == from) {
      return to;
    }
  }
  return otherwise;
}

std::string text_of(const Json& view) {
  return view.at("text").get<std::string>();
}
std::uint64_t number_of(const Json& view) {
  return view.at("number").get<std::uint64_t>();
}

}  // namespace

void add_output_options(CLI::App& app, OutputOptions& how) {
  app.add_flag("-H", how.scripted, "For scripts: no head, a tab between columns");
  app.add_flag("-p", how.exact, "Print exact numbers");
  app.add_flag("--json", how.json, "Print JSON");
}

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t end = std::min(list.find(',', at), list.size());
    if (end > at) {
      parts.push_back(list.substr(at, end - at));
    }
    at = end + 1;
  }
  return parts;
}

Json pool_properties(const Json& answer) {
  Json properties = answer.at("properties");
  const auto size = answer.at("size").get<std::uint64_t>(),
             allocated = answer.at("allocated").get<std::uint64_t>();
  const auto fill = [&](const char* name, const std::string& text, std::uint64_t number) {
    if (!properties.contains(name)) {
      properties[name] = {{"text", text}, {"number", number}, {"source", "none"}, {"from", ""}};
    }
  };
  const std::uint64_t free = size > allocated ? size - allocated : 0;
  fill("size", size_text(size), size);
  fill("allocated", size_text(allocated), allocated);
  fill("free", size_text(free), free);
  const std::uint64_t percent = size == 0 ? 0 : allocated * 100 / size;
  fill("capacity", std::to_string(percent) + "%", percent);
  fill("dedupratio", "1.00x", 0);
  for (const char* const name : {"checkpoint", "expandsize", "fragmentation", "health"}) {
    fill(name, "-", 0);
  }
  return properties;
}

std::string full_pool_property(const std::string& name) {
  return replaced(kPoolShort, name, name);
}

std::string pool_property_text(const std::string& name, const Json& view, bool exact) {
  std::string text = text_of(view);
  if (text == "-" || text.empty()) {
    return "-";
  }
  if (is_pool_size(name)) {
    return size_text(number_of(view), exact);
  }
  if (exact && (text.ends_with('%') || (name == "dedupratio" && text.ends_with('x')))) {
    text.pop_back();
  }
  return text;
}

Column pool_column(const std::string& name) {
  const std::string full = full_pool_property(name);
  const bool left = full == "name" || full == "altroot" || full == "comment" || full == "bootfs";
  return {replaced(kPoolHeads, full, upper(full)), left ? Align::left : Align::right};
}

std::string full_dataset_property(const std::string& name) {
  const dataset::PropertyInfo* const info = dataset::find_property(name);
  return info == nullptr ? name : std::string(info->name);
}

bool is_dataset_property(const std::string& name) {
  return name == "name" || name.find(':') != std::string::npos ||
         dataset::find_property(name) != nullptr;
}

std::uint64_t dataset_property_number(const Json& dataset, const std::string& name) {
  for (const char* const total : {"used", "available", "referenced"}) {
    if (name == total && !dataset.at("properties").contains(name)) {
      return dataset.at(name).get<std::uint64_t>();
    }
  }
  const auto it = dataset.at("properties").find(name);
  return it == dataset.at("properties").end() ? 0 : number_of(*it);
}

std::string dataset_property_text(const Json& dataset, const std::string& name, bool exact) {
  if (name == "name") {
    return dataset.at("name").get<std::string>();
  }
  const Json& properties = dataset.at("properties");
  const auto it = properties.find(name);
  if (it == properties.end()) {
    const bool total = name == "used" || name == "referenced" ||
                       (name == "available" && dataset.at("type") != "snapshot");
    return total ? size_text(dataset_property_number(dataset, name), exact) : "-";
  }
  std::string text = text_of(*it);
  const dataset::PropertyInfo* const info = dataset::find_property(name);
  if (is_computed_size(name)) {
    return size_text(number_of(*it), exact);
  }
  if (info != nullptr && info->kind == dataset::PropertyKind::size) {
    return exact ? std::to_string(number_of(*it)) : text;
  }
  if (exact && name == "creation") {
    return std::to_string(number_of(*it));
  }
  if (exact && name == "compressratio" && text.ends_with('x')) {
    text.pop_back();
  }
  return text.empty() ? "-" : text;
}

Column dataset_column(const std::string& name) {
  const dataset::PropertyInfo* const info = dataset::find_property(name);
  const bool right = is_computed_size(name) || name == "compressratio" ||
                     (info != nullptr && info->kind == dataset::PropertyKind::size);
  return {replaced(kDatasetHeads, name, upper(name)), right ? Align::right : Align::left};
}

std::string source_text(const Json& view) {
  const auto source = view.at("source").get<std::string>();
  if (source == "none") {
    return "-";
  }
  if (source == "inherited") {
    return "inherited from " + view.at("from").get<std::string>();
  }
  return source;
}

std::string history_time(std::uint64_t unix_seconds) {
  const auto when = static_cast<std::time_t>(unix_seconds);
  std::tm parts{};
  localtime_r(&when, &parts);
  std::array<char, 64> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d.%H:%M:%S", &parts);
  return text.data();
}

PropertyTable::PropertyTable(std::vector<std::string> columns, bool with_received)
    : columns_(std::move(columns)) {
  if (columns_ == std::vector<std::string>{"all"}) {
    columns_ = {"name", "property", "value", "source"};
    if (with_received) {
      columns_.insert(columns_.begin() + 3, "received");
    }
  }
}

std::string PropertyTable::unknown_column() const {
  for (const std::string& column : columns_) {
    if (column != "name" && column != "property" && column != "value" && column != "source" &&
        column != "received") {
      return column;
    }
  }
  return {};
}

void PropertyTable::add(const std::string& name, const std::string& property,
                        const std::string& value, const Json& view) {
  rows_.push_back({name, property, value, source_text(view)});
}

void PropertyTable::print(Context& context, const OutputOptions& how,
                          const std::string& group) const {
  if (how.json) {
    Json all = Json::object();
    for (const Row& row : rows_) {
      all[row.name][row.property] = {{"value", row.value}, {"source", row.source}};
    }
    print_json(context, {{group, std::move(all)}});
    return;
  }
  std::vector<Column> header;
  for (const std::string& column : columns_) {
    header.push_back({upper(column), Align::left});
  }
  Table table(header);
  for (const Row& row : rows_) {
    std::vector<std::string> cells;
    for (const std::string& column : columns_) {
      cells.push_back(column == "name"       ? row.name
                      : column == "property" ? row.property
                      : column == "value"    ? row.value
                      : column == "source"   ? row.source
                                             : "-");
    }
    table.add(std::move(cells));
  }
  if (table.rows() != 0) {
    table.print(context.out, how.scripted);
  }
}

}  // namespace zuse::cli
