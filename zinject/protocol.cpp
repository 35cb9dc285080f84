// JSON to rules and back, and the answers.
#include "zinject/protocol.h"

#include <fmt/format.h>

#include <boost/filesystem.hpp>
#include <charconv>
#include <optional>
#include <utility>

namespace zuse::zinject {
namespace {

using nlohmann::json;

std::string text_at(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::optional<std::uint64_t> number_at(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_integer() ||
      (!found->is_number_unsigned() && found->get<std::int64_t>() < 0)) {
    return std::nullopt;
  }
  return found->get<std::uint64_t>();
}

std::optional<std::uint64_t> parse_guid(const std::string& text) {
  const bool hexadecimal = text.starts_with("0x") || text.starts_with("0X");
  const char* const first = text.data() + (hexadecimal ? 2 : 0);
  const char* const end = text.data() + text.size();
  std::uint64_t value = 0;
  const auto [stop, error] = std::from_chars(first, end, value, hexadecimal ? 16 : 10);
  if (first == end || error != std::errc() || stop != end) {
    return std::nullopt;
  }
  return value;
}

bool same_file(const std::string& left, const std::string& right) {
  if (left.empty() || right.empty()) {
    return false;
  }
  if (left == right) {
    return true;
  }
  boost::system::error_code error;
  const auto left_path = boost::filesystem::canonical(left, error);
  if (error) {
    return false;
  }
  const auto right_path = boost::filesystem::canonical(right, error);
  return !error && left_path == right_path;
}

std::unexpected<Error> malformed(const char* what) {
  return fail(Errc::invalid, fmt::format("malformed request: {}", what));
}

Result<json> add(Engine& engine, const json& args, const Hooks& hooks) {
  ZUSE_TRY(const LeafName leaf,
           find_leaf(hooks.leaves(), text_at(args, "device"), text_at(args, "path")));
  const auto given = args.find("rule");
  if (given == args.end()) {
    return malformed("no rule");
  }
  ZUSE_TRY(const Rule rule, rule_from_json(*given));
  ZUSE_TRY(const Handler handler, engine.add(leaf.guid, rule));
  if (args.contains("cache_drop") && args["cache_drop"] == true) {
    ZUSE_TRY_VOID(hooks.drop_cache());
  }
  return to_json(handler, hooks.pool, leaf.path);
}

Result<json> list(const Engine& engine, const Hooks& hooks) {
  json handlers = json::array();
  const std::vector<LeafName> leaves = hooks.leaves();
  for (const Handler& handler : engine.list()) {
    std::string device;
    for (const LeafName& leaf : leaves) {
      if (leaf.guid == handler.leaf_guid) {
        device = leaf.path;
      }
    }
    handlers.push_back(to_json(handler, hooks.pool, device));
  }
  return json{{"pool", hooks.pool}, {"handlers", std::move(handlers)}};
}

Result<json> cancel(Engine& engine, const json& args) {
  if (!args.contains("id")) {
    return json{{"cancelled", engine.cancel_all()}};
  }
  const auto id = number_at(args, "id");
  if (!id) {
    return malformed("the id is no number");
  }
  ZUSE_TRY_VOID(engine.cancel(*id));
  return json{{"cancelled", {*id}}};
}

Result<json> set_state(const json& args, const Hooks& hooks) {
  ZUSE_TRY(const LeafName leaf,
           find_leaf(hooks.leaves(), text_at(args, "device"), text_at(args, "path")));
  const std::string state = text_at(args, "state");
  if (state != "degraded" && state != "faulted") {
    return malformed("a leaf can be made degraded or faulted");
  }
  ZUSE_TRY_VOID(hooks.set_leaf_state(
      leaf.guid, state == "faulted" ? vdev::VdevState::faulted : vdev::VdevState::degraded));
  return json{{"guid", leaf.guid}};
}

json injections(const Engine& engine, const Hooks& hooks) {
  json list = json::array();
  for (const Injection& done : engine.injections()) {
    list.push_back({{"number", done.number},
                    {"id", done.handler},
                    {"guid", done.leaf_guid},
                    {"device", done.device},
                    {"op", vdev::to_string(done.op)},
                    {"offset", done.offset},
                    {"length", done.length},
                    {"effect", done.effect}});
  }
  return {{"pool", hooks.pool}, {"injections", std::move(list)}};
}

}  // namespace

Result<json> handle(Engine& engine, const json& args, const Hooks& hooks) {
  if (!args.is_object()) {
    return malformed("args is no object");
  }
  const std::string action = text_at(args, "action");
  if (action == "add") {
    return add(engine, args, hooks);
  }
  if (action == "list") {
    return list(engine, hooks);
  }
  if (action == "cancel") {
    return cancel(engine, args);
  }
  if (action == "cache_drop") {
    ZUSE_TRY_VOID(hooks.drop_cache());
    return json::object();
  }
  if (action == "set_state") {
    return set_state(args, hooks);
  }
  if (action == "injections") {
    return injections(engine, hooks);
  }
  return fail(Errc::invalid, fmt::format("malformed request: unknown action '{}'", action));
}

Result<LeafName> find_leaf(const std::vector<LeafName>& leaves, const std::string& device,
                           const std::string& absolute_path) {
  if (device.empty()) {
    return malformed("no device");
  }
  if (const auto guid = parse_guid(device)) {
    for (const LeafName& leaf : leaves) {
      if (leaf.guid == *guid) {
        return leaf;
      }
    }
  }
  for (const LeafName& leaf : leaves) {
    if (same_file(leaf.path, device) || same_file(leaf.path, absolute_path)) {
      return leaf;
    }
  }
  const LeafName* found = nullptr;
  for (const LeafName& leaf : leaves) {
    if (boost::filesystem::path(leaf.path).filename() == boost::filesystem::path(device)) {
      if (found != nullptr) {
        return fail(Errc::invalid, fmt::format("several devices of the pool are called '{}': give "
                                               "the path or the guid",
                                               device));
      }
      found = &leaf;
    }
  }
  if (found == nullptr) {
    return fail(Errc::not_found, fmt::format("no device of the pool is called '{}'", device));
  }
  return *found;
}

json to_json(const Rule& rule) {
  json value{{"kind", to_string(rule.kind)},
             {"type", to_string(rule.type)},
             {"percent", rule.percent},
             {"fail_fast", rule.fail_fast}};
  switch (rule.kind) {
    case RuleKind::device: value["error"] = to_string(rule.error); break;
    case RuleKind::label: value["label"] = to_string(rule.label); break;
    case RuleKind::delay:
      value["delay_ms"] = rule.delay_ms;
      value["lanes"] = rule.lanes;
      break;
  }
  if (rule.seed) {
    value["seed"] = *rule.seed;
  }
  return value;
}

Result<Rule> rule_from_json(const json& value) {
  if (!value.is_object()) {
    return malformed("the rule is no object");
  }
  Rule rule;
  const auto kind = rule_kind_of(text_at(value, "kind"));
  if (!kind) {
    return malformed("unknown kind of rule");
  }
  rule.kind = *kind;
  if (value.contains("type")) {
    const auto type = io_type_of(text_at(value, "type"));
    if (!type) {
      return malformed("unknown I/O type");
    }
    rule.type = *type;
  }
  if (value.contains("percent")) {
    if (!value["percent"].is_number()) {
      return malformed("the percentage is no number");
    }
    rule.percent = value["percent"].get<double>();
  }
  if (value.contains("fail_fast")) {
    if (!value["fail_fast"].is_boolean()) {
      return malformed("fail_fast is neither true nor false");
    }
    rule.fail_fast = value["fail_fast"].get<bool>();
  }
  if (value.contains("seed")) {
    rule.seed = number_at(value, "seed");
    if (!rule.seed) {
      return malformed("the seed is no number");
    }
  }
  switch (rule.kind) {
    case RuleKind::device: {
      const auto error = fault_error_of(text_at(value, "error"));
      if (!error) {
        return malformed("unknown error name");
      }
      rule.error = *error;
      break;
    }
    case RuleKind::label: {
      const auto label = label_part_of(text_at(value, "label"));
      if (!label) {
        return malformed("unknown part of a label");
      }
      rule.label = *label;
      break;
    }
    case RuleKind::delay: {
      const auto delay = number_at(value, "delay_ms");
      const auto lanes = number_at(value, "lanes");
      if (!delay || !lanes || *lanes > kLanesMax) {
        return malformed("a delay has delay_ms and lanes");
      }
      rule.delay_ms = *delay;
      rule.lanes = static_cast<unsigned>(*lanes);
      break;
    }
  }
  ZUSE_TRY_VOID(check(rule));
  return rule;
}

json to_json(const Handler& handler, const std::string& pool, const std::string& device) {
  json value = to_json(handler.rule);
  value["id"] = handler.id;
  value["pool"] = pool;
  value["guid"] = handler.leaf_guid;
  value["device"] = device;
  value["matches"] = handler.matches;
  value["injected"] = handler.injected;
  return value;
}

Result<ListedHandler> handler_from_json(const json& value) {
  ListedHandler listed;
  ZUSE_TRY(listed.handler.rule, rule_from_json(value));
  const auto id = number_at(value, "id");
  const auto guid = number_at(value, "guid");
  const auto matches = number_at(value, "matches");
  const auto injected = number_at(value, "injected");
  if (!id || !guid || !matches || !injected) {
    return malformed("a handler without id, guid or counts");
  }
  listed.handler.id = *id;
  listed.handler.leaf_guid = *guid;
  listed.handler.matches = *matches;
  listed.handler.injected = *injected;
  listed.pool = text_at(value, "pool");
  listed.device = text_at(value, "device");
  return listed;
}

}  // namespace zuse::zinject
