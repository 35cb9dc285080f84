// Accepting and serving control connections with plain poll(2): a handful of connections, each idle
// or in one command.
#include "fs/control/control_socket.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "fs/control/run_directory.h"
#include "fs/fuse/errno.h"
#include "vdev/base/log.h"
#include "zinject/control_client.h"

namespace zuse::control {
namespace {

constexpr int kBacklog = 16;

spdlog::logger& log() {
  static auto& logger = layer_log("control");
  return logger;
}

bool may_command(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         (peer.uid == 0 || peer.uid == ::geteuid());
}

}  // namespace

ControlServer::ControlServer(std::string path, Handler handler)
    : path_(std::move(path)), handler_(std::move(handler)) {}

Result<std::unique_ptr<ControlServer>> ControlServer::listen(const std::string& path,
                                                             Handler handler) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return fail(Errc::name_too_long, "'" + path + "' is too long for a socket");
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  if (somebody_listens(path)) {
    return fail(Errc::busy, "a daemon listens on '" + path + "' already");
  }
  ::unlink(path.c_str());
  auto server = std::unique_ptr<ControlServer>(new ControlServer(path, std::move(handler)));
  server->listen_fd_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  server->stop_fd_ = ::eventfd(0, EFD_CLOEXEC);
  const mode_t mask = ::umask(0177);
  const int bound =
      ::bind(server->listen_fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  const int number = errno;
  ::umask(mask);
  if (bound != 0) {
    return std::unexpected(fuse::system_error(number, "'" + path + "'"));
  }
  {
    const LockGuard guard(server->mutex_);
    server->name_is_ours_ = true;
  }
  if (::listen(server->listen_fd_, kBacklog) != 0) {
    return std::unexpected(fuse::system_error(errno, "'" + path + "'"));
  }
  server->accepting_ = std::thread([raw = server.get()] { raw->accept_all(); });
  return server;
}

ControlServer::~ControlServer() {
  stop();
  if (listen_fd_ >= 0) {
    ::close(listen_fd_);
  }
  if (stop_fd_ >= 0) {
    ::close(stop_fd_);
  }
}

void ControlServer::remove_name() {
  const LockGuard guard(mutex_);
  if (std::exchange(name_is_ours_, false)) {
    ::unlink(path_.c_str());
  }
}

void ControlServer::stop() {
  remove_name();
  {
    const LockGuard guard(mutex_);
    if (std::exchange(stopped_, true)) {
      return;
    }
  }
  const std::uint64_t one = 1;
  if (stop_fd_ >= 0 && ::write(stop_fd_, &one, sizeof one) != sizeof one) {
    log().error("stop_failed errno={}", errno);
  }
  if (accepting_.joinable()) {
    accepting_.join();
  }
  reap(true);
}

void ControlServer::accept_all() {
  for (;;) {
    std::array<pollfd, 2> waits{{{listen_fd_, POLLIN, 0}, {stop_fd_, POLLIN, 0}}};
    if (::poll(waits.data(), waits.size(), -1) < 0 && errno != EINTR) {
      log().error("accept_failed errno={}", errno);
      return;
    }
    if (waits[1].revents != 0) {
      return;
    }
    reap(false);
    const int fd = ::accept4(listen_fd_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) {
      continue;
    }
    if (!may_command(fd)) {
      ::close(fd);
      continue;
    }
    const LockGuard guard(mutex_);
    Connection& connection = connections_.emplace_back();
    connection.fd = fd;
    connection.thread = std::thread([this, &connection] { serve(connection); });
  }
}

void ControlServer::serve(Connection& connection) {
  std::string pending;
  for (;;) {
    auto line = read_line(connection.fd, pending, kRequestBytesMax, stop_fd_);
    if (!line) {
      if (line.error().code() == Errc::too_large) {
        (void)write_all(connection.fd, zinject::reply_line(std::unexpected(line.error())));
      }
      break;
    }
    if (!*line) {
      break;
    }
    Result<Json> reply = fail(Errc::invalid);
    if (auto request = decode_request(**line); !request) {
      reply = std::unexpected(std::move(request).error());
    } else {
      log().debug("command name={}", request->command);
      reply = handler_(*request);
      if (!reply) {
        log().debug("command_failed name={} why=\"{}\"", request->command, reply.error().what());
      }
    }
    if (!write_all(connection.fd, zinject::reply_line(reply))) {
      break;
    }
  }
  const LockGuard guard(mutex_);
  ::close(connection.fd);
  connection.fd = -1;
  connection.over = true;
}

// Joins the threads of connections that are over; with `all`, of all.
void ControlServer::reap(bool all) {
  std::list<Connection> ending;
  {
    const LockGuard guard(mutex_);
    for (auto it = connections_.begin(); it != connections_.end();) {
      const auto next = std::next(it);
      if (all || it->over) {
        ending.splice(ending.end(), connections_, it);
      }
      it = next;
    }
  }
  for (Connection& connection : ending) {
    connection.thread.join();
  }
}

}  // namespace zuse::control
