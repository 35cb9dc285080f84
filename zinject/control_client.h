// The client's end of a daemon's control socket: one JSON object a line each way. Every command
// that talks to a running pool uses it.
//
//   request  {"command":"zinject","args":{...}}
//   reply    {"ok":true,"result":...}  or  {"ok":false,"kind":"not_found","error":"a sentence"}
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "vdev/base/result.h"

namespace zuse::zinject {

// A reply longer than this is refused. units: bytes.
inline constexpr std::size_t kReplyMax = std::size_t{64} * 1024 * 1024;

// Where the sockets are: $ZUSE_RUN_DIR, else /run/zuse for root, else $XDG_RUNTIME_DIR/zuse.
// errors: not_found, where no variable says.
Result<std::string> run_directory();
// The socket of a pool. errors: invalid (no pool can be called so), and those of run_directory().
Result<std::string> socket_path(const std::string& pool);
// Pools that have a socket, sorted; whether a daemon still listens shows when it is asked.
// errors: those of run_directory(), access. A folder that does not exist has no pools.
Result<std::vector<std::string>> pools_with_sockets();

// Asks the daemon of `pool` and waits for as long as it takes.
// errors: not_found (no daemon serves the pool), access, io (the connection broke, or the reply is
// none), and whatever the daemon answers.
Result<nlohmann::json> ask(const std::string& pool, const std::string& command,
                           const nlohmann::json& args);

// The lines of the protocol; a daemon makes its replies with these.
std::string request_line(const std::string& command, const nlohmann::json& args);
std::string reply_line(const Result<nlohmann::json>& result);
// errors: io, where the line is no reply; else the daemon's own.
Result<nlohmann::json> parse_reply(const std::string& line);

// The kind that to_string(Errc) calls so; io for unknown words.
Errc errc_of(const std::string& name) noexcept;

}  // namespace zuse::zinject
