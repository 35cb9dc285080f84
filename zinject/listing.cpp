// Columns as wide as their widest cell.
#include "zinject/listing.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace zuse::zinject {
namespace {

using Row = std::vector<std::string>;

std::string table(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += fmt::format("{:<{}}", row[i], i + 1 == row.size() ? 0 : widths[i] + 2);
    }
    text += line + "\n";
  }
  return text;
}

std::string frequency(double percent) {
  return fmt::format("{:.4f}%", percent);
}

Row row_of(const ListedHandler& listed) {
  const Handler& handler = listed.handler;
  const Rule& rule = handler.rule;
  Row row{fmt::format("{}", handler.id), listed.pool, fmt::format("{:x}", handler.leaf_guid)};
  switch (rule.kind) {
    case RuleKind::device:
      row.insert(row.end(), {to_string(rule.type), to_string(rule.error), frequency(rule.percent)});
      break;
    case RuleKind::label: row.emplace_back(to_string(rule.label)); break;
    case RuleKind::delay:
      row.insert(row.end(), {fmt::format("{}", rule.delay_ms), fmt::format("{}", rule.lanes),
                             frequency(rule.percent)});
      break;
  }
  row.push_back(fmt::format("{}", handler.matches));
  row.push_back(fmt::format("{}", handler.injected));
  return row;
}

}  // namespace

std::string tables(const std::vector<ListedHandler>& handlers) {
  const std::vector<std::pair<RuleKind, Row>> kinds{
      {RuleKind::device, {"ID", "POOL", "GUID", "TYPE", "ERROR", "FREQ", "MATCH", "INJECT"}},
      {RuleKind::delay, {"ID", "POOL", "GUID", "DELAY(ms)", "LANES", "FREQ", "MATCH", "INJECT"}},
      {RuleKind::label, {"ID", "POOL", "GUID", "LABEL", "MATCH", "INJECT"}}};
  std::string text;
  for (const auto& [kind, heading] : kinds) {
    std::vector<Row> rows{heading};
    for (const ListedHandler& listed : handlers) {
      if (listed.handler.rule.kind == kind) {
        rows.push_back(row_of(listed));
      }
    }
    if (rows.size() > 1) {
      text += (text.empty() ? "" : "\n") + table(rows);
    }
  }
  return text;
}

std::string describe(const ListedHandler& listed) {
  const Rule& rule = listed.handler.rule;
  return fmt::format("handler {} on {} of {} (guid {:x}): {}\n", listed.handler.id, listed.device,
                     listed.pool, listed.handler.leaf_guid, fmt::join(to_options(rule), " "));
}

std::string injection_table(const nlohmann::json& injections) {
  std::vector<Row> rows{{"NUMBER", "ID", "DEVICE", "OP", "OFFSET", "LENGTH", "EFFECT"}};
  for (const auto& injection : injections) {
    Row row;
    for (const char* const key : {"number", "id", "device", "op", "offset", "length", "effect"}) {
      const auto found = injection.is_object() ? injection.find(key) : injection.end();
      if (!injection.is_object() || found == injection.end()) {
        row.emplace_back("-");
      } else {
        row.push_back(found->is_string() ? found->get<std::string>() : found->dump());
      }
    }
    rows.push_back(std::move(row));
  }
  return rows.size() == 1 ? std::string() : table(rows);
}

}  // namespace zuse::zinject
