// Decoding of requests, and lines on a socket.
#include "fs/control/message.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

#include "fs/fuse/errno.h"

namespace zuse::control {
Result<Request> decode_request(const std::string& line) {
  const Json message = Json::parse(line, nullptr, false);
  if (!message.is_object() || !message.contains("command") || !message["command"].is_string()) {
    return fail(Errc::invalid, "not a request: {\"command\": ..., \"args\": {...}} is one");
  }
  Request request{message["command"].get<std::string>(), Json::object()};
  if (message.contains("args")) {
    if (!message["args"].is_object()) {
      return fail(Errc::invalid, "the args of a request are an object");
    }
    request.args = message["args"];
  }
  return request;
}

Result<std::string> string_arg(const Json& args, const char* name) {
  const auto it = args.find(name);
  if (it == args.end() || !it->is_string()) {
    return fail(Errc::invalid, std::string("the argument '") + name + "' is missing");
  }
  return it->get<std::string>();
}

std::string string_arg_or(const Json& args, const char* name, const std::string& otherwise) {
  const auto it = args.find(name);
  return it != args.end() && it->is_string() ? it->get<std::string>() : otherwise;
}

bool flag_arg(const Json& args, const char* name) {
  const auto it = args.find(name);
  return it != args.end() && it->is_boolean() && it->get<bool>();
}

Result<std::optional<std::string>> read_line(int fd, std::string& pending, std::size_t limit,
                                             int stop_fd) {
  std::size_t searched = 0;
  for (;;) {
    if (const std::size_t end = pending.find('\n', searched); end != std::string::npos) {
      std::string line = pending.substr(0, end);
      pending.erase(0, end + 1);
      return line;
    }
    searched = pending.size();
    if (pending.size() > limit) {
      return fail(Errc::too_large, "a control message is too long");
    }
    std::array<pollfd, 2> waits{{{fd, POLLIN, 0}, {stop_fd, POLLIN, 0}}};
    if (::poll(waits.data(), stop_fd < 0 ? 1 : 2, -1) < 0) {
      if (errno == EINTR) {
        continue;
      }
      return std::unexpected(fuse::system_error(errno, "control socket"));
    }
    if (waits[0].revents == 0 && waits[1].revents != 0) {
      return fail(Errc::stopped, "the daemon is stopping");
    }
    std::array<char, 65536> chunk;
    const ssize_t got = ::recv(fd, chunk.data(), chunk.size(), 0);
    if (got == 0) {
      return std::nullopt;
    }
    if (got < 0) {
      if (errno == EINTR) {
        continue;
      }
      return std::unexpected(fuse::system_error(errno, "control socket"));
    }
    pending.append(chunk.data(), static_cast<std::size_t>(got));
  }
}

Result<void> write_all(int fd, const std::string& text) {
  std::size_t sent = 0;
  while (sent < text.size()) {
    const ssize_t put = ::send(fd, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (put < 0) {
      if (errno == EINTR) {
        continue;
      }
      return std::unexpected(fuse::system_error(errno, "control socket"));
    }
    sent += static_cast<std::size_t>(put);
  }
  return {};
}

}  // namespace zuse::control
