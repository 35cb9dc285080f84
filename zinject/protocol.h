// What the zinject command and a pool's daemon say to each other: the `args` and `result` of the
// control command "zinject", and the daemon's answer to them.
//
//   args                                                              result
//   {"action":"list"}                                                 {"pool":P,"handlers":[H...]}
//   {"action":"add","device":D,"path":A,"rule":R,"cache_drop":bool}   H
//   {"action":"cancel","id":N}      (without id: all)                 {"cancelled":[N...]}
//   {"action":"cache_drop"}                                           {}
//   {"action":"set_state","device":D,"path":A,"state":"degraded"}     {"guid":G}   (or "faulted")
//   {"action":"injections"} {"pool":P,"injections":[I...]}
//
// D is what the user wrote (a guid, a path, a file name), A the absolute path it had where the user
// stands, or "". H = {"id","pool","guid","device","kind","type","error","label","percent",
// "fail_fast","delay_ms","lanes","seed","matches","injected"}, R the part of H that is the rule.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "vdev/base/result.h"
#include "vdev/tree.h"
#include "zinject/engine.h"
#include "zinject/rule.h"

namespace zuse::zinject {

// A leaf of the pool, present or not.
struct LeafName {
  std::uint64_t guid = 0;
  std::string path;
};

// What the daemon lends to the command.
struct Hooks {
  std::string pool;
  std::function<std::vector<LeafName>()> leaves;
  std::function<Result<void>()> drop_cache;
  // state: degraded or faulted.
  std::function<Result<void>(std::uint64_t guid, vdev::VdevState state)> set_leaf_state;
};

// Carries out one request. Nothing in `args` is trusted. Does not throw.
// errors: invalid (malformed, or a rule that cannot be), not_found (leaf, id), and the hooks' own.
Result<nlohmann::json> handle(Engine& engine, const nlohmann::json& args, const Hooks& hooks);

// The leaf that `device` names: by guid (decimal or 0x...), by path, or by file name where only one
// leaf has it. errors: not_found, invalid (several leaves have that file name).
Result<LeafName> find_leaf(const std::vector<LeafName>& leaves, const std::string& device,
                           const std::string& absolute_path);

nlohmann::json to_json(const Rule& rule);
// errors: invalid.
Result<Rule> rule_from_json(const nlohmann::json& value);
nlohmann::json to_json(const Handler& handler, const std::string& pool, const std::string& device);

// A handler as a client reads it.
struct ListedHandler {
  Handler handler;
  std::string pool;
  std::string device;
};
// errors: invalid.
Result<ListedHandler> handler_from_json(const nlohmann::json& value);

}  // namespace zuse::zinject
