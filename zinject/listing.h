// The tables that `zinject` prints: one for each kind of fault in force.
//
// source: the fault tool's facts, section 4 item 7 (columns).
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "zinject/protocol.h"

namespace zuse::zinject {

// Kinds without a handler have no table; "" where there is none at all.
std::string tables(const std::vector<ListedHandler>& handlers);

// One line about a handler that was just added.
std::string describe(const ListedHandler& listed);

// The result of the action "injections" as a table. What is malformed in it shows as "-".
std::string injection_table(const nlohmann::json& injections);

}  // namespace zuse::zinject
