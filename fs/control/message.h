// Requests as the daemon reads them from the control socket. What they look like, and the replies:
// zinject/control_client.h.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "vdev/base/result.h"

namespace zuse::control {

using Json = nlohmann::json;

inline constexpr std::size_t kRequestBytesMax = std::size_t{1} << 20;

struct Request {
  std::string command;
  Json args;  // an object
};

// errors: invalid (not JSON, or not of that shape).
Result<Request> decode_request(const std::string& line);
// Members of `args` with their types checked. errors: invalid (named).
Result<std::string> string_arg(const Json& args, const char* name);
std::string string_arg_or(const Json& args, const char* name, const std::string& otherwise = {});
bool flag_arg(const Json& args, const char* name);

// Reads up to the newline, which is left out; what follows it stays in `pending`. nullopt: the
// other side has closed. errors: too_large, io, stopped (`stop_fd` >= 0 became readable).
Result<std::optional<std::string>> read_line(int fd, std::string& pending, std::size_t limit,
                                             int stop_fd = -1);
Result<void> write_all(int fd, const std::string& text);

}  // namespace zuse::control
