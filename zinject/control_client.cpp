// A blocking Unix socket. The daemon may take minutes over a command (waiting for a scrub, say), so
// there is no time limit.
#include "zinject/control_client.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/filesystem.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

namespace zuse::zinject {
namespace {

using nlohmann::json;

constexpr std::string_view kSuffix = ".sock";

// A descriptor that is closed at the end.
class Descriptor {
 public:
  explicit Descriptor(int fd) noexcept : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) {
      close(fd_);
    }
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const noexcept { return fd_; }

 private:
  int fd_;
};

Result<void> connect_to(const Descriptor& socket, const std::string& path,
                        const std::string& pool) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return fail(Errc::name_too_long, fmt::format("{}: too long for a socket's path", path));
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  int result = 0;
  do {
    result = connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  } while (result != 0 && errno == EINTR);
  if (result == 0) {
    return {};
  }
  switch (errno) {
    case ENOENT:
    case ECONNREFUSED:
      return fail(Errc::not_found, fmt::format("pool {} is not imported by any daemon", pool));
    case EACCES:
    case EPERM: return fail(Errc::access, fmt::format("{}: permission denied", path));
    default: return fail(Errc::io, fmt::format("{}: {}", path, std::strerror(errno)));
  }
}

Result<void> send_all(const Descriptor& socket, std::string_view text) {
  while (!text.empty()) {
    const ssize_t sent = send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) {
      continue;
    }
    if (sent <= 0) {
      return fail(Errc::io, "the daemon hung up before it had heard the command");
    }
    text.remove_prefix(static_cast<std::size_t>(sent));
  }
  return {};
}

Result<std::string> receive_line(const Descriptor& socket) {
  std::string line;
  std::array<char, 16 * 1024> piece{};
  for (;;) {
    const ssize_t got = recv(socket.get(), piece.data(), piece.size(), 0);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      return fail(Errc::io, "the daemon hung up before it had answered");
    }
    const std::string_view text(piece.data(), static_cast<std::size_t>(got));
    const std::size_t end = text.find('\n');
    line.append(text.substr(0, end));
    if (line.size() > kReplyMax) {
      return fail(Errc::too_large, "the daemon's answer has no end");
    }
    if (end != std::string_view::npos) {
      return line;
    }
  }
}

bool valid_pool_name(const std::string& pool) noexcept {
  return !pool.empty() && pool.size() < 256 && pool.front() != '.' &&
         pool.find_first_of(std::string_view("/\0", 2)) == std::string::npos;
}

std::string dump(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

Result<std::string> run_directory() {
  if (const char* const given = std::getenv("ZUSE_RUN_DIR"); given != nullptr && *given != '\0') {
    return std::string(given);
  }
  if (geteuid() == 0) {
    return std::string("/run/zuse");
  }
  if (const char* const user = std::getenv("XDG_RUNTIME_DIR"); user != nullptr && *user != '\0') {
    return std::string(user) + "/zuse";
  }
  return fail(Errc::not_found,
              "no folder for control sockets: neither ZUSE_RUN_DIR nor XDG_RUNTIME_DIR is set");
}

Result<std::string> socket_path(const std::string& pool) {
  if (!valid_pool_name(pool)) {
    return fail(Errc::invalid, fmt::format("'{}' is not the name of a pool", pool));
  }
  ZUSE_TRY(const std::string folder, run_directory());
  return fmt::format("{}/{}{}", folder, pool, kSuffix);
}

Result<std::vector<std::string>> pools_with_sockets() {
  namespace fs = boost::filesystem;
  ZUSE_TRY(const std::string folder, run_directory());
  boost::system::error_code error;
  std::vector<std::string> pools;
  fs::directory_iterator entry(folder, error);
  if (error) {
    if (error == boost::system::errc::no_such_file_or_directory) {
      return pools;
    }
    return fail(error == boost::system::errc::permission_denied ? Errc::access : Errc::io,
                fmt::format("{}: {}", folder, error.message()));
  }
  while (entry != fs::directory_iterator()) {
    const std::string name = entry->path().filename().string();
    if (name.size() > kSuffix.size() && name.ends_with(kSuffix)) {
      boost::system::error_code ignored;
      if (entry->status(ignored).type() == fs::socket_file) {
        pools.push_back(name.substr(0, name.size() - kSuffix.size()));
      }
    }
    entry.increment(error);
    if (error) {
      return fail(Errc::io, fmt::format("{}: {}", folder, error.message()));
    }
  }
  std::sort(pools.begin(), pools.end());
  return pools;
}

Result<json> ask(const std::string& pool, const std::string& command, const json& args) {
  ZUSE_TRY(const std::string path, socket_path(pool));
  const Descriptor connection(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connection.get() < 0) {
    return fail(Errc::io, fmt::format("cannot make a socket: {}", std::strerror(errno)));
  }
  ZUSE_TRY_VOID(connect_to(connection, path, pool));
  ZUSE_TRY_VOID(send_all(connection, request_line(command, args)));
  ZUSE_TRY(const std::string line, receive_line(connection));
  return parse_reply(line);
}

std::string request_line(const std::string& command, const json& args) {
  return dump(json{{"command", command}, {"args", args}}) + "\n";
}

std::string reply_line(const Result<json>& result) {
  if (result) {
    return dump(json{{"ok", true}, {"result", *result}}) + "\n";
  }
  return dump(json{{"ok", false},
                   {"kind", to_string(result.error().code())},
                   {"error", result.error().what()}}) +
         "\n";
}

Result<json> parse_reply(const std::string& line) {
  json reply = json::parse(line, nullptr, false);
  if (!reply.is_object() || !reply.contains("ok") || !reply["ok"].is_boolean()) {
    return fail(Errc::io, "the daemon's answer is not a reply");
  }
  if (reply["ok"].get<bool>()) {
    return reply.contains("result") ? std::move(reply["result"]) : json();
  }
  const auto word = [&](const char* key) {
    return reply.contains(key) && reply[key].is_string() ? reply[key].get<std::string>()
                                                         : std::string();
  };
  return fail(errc_of(word("kind")), word("error"));
}

Errc errc_of(const std::string& name) noexcept {
  for (unsigned i = 0; i <= static_cast<unsigned>(Errc::stopped); ++i) {
    if (name == to_string(static_cast<Errc>(i))) {
      return static_cast<Errc>(i);
    }
  }
  return Errc::io;
}

}  // namespace zuse::zinject
