// Starting, running and ending the daemon.
//
//   zuse pool import ── fork ──> daemon: import, mount, listen ─┐
//        │ waits on a pipe <──── one line: served, or why not ──┤
//        └ exits                                                └ main thread: signals, ended
//        mounts
//
// All other threads (FUSE workers, control connections, the pool's own) have signals blocked, since
// the main thread blocks them before it starts any.
#include "fs/control/daemon.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <utility>

#include "fs/control/control_socket.h"
#include "fs/control/devices.h"
#include "fs/control/message.h"
#include "fs/control/pool_service.h"
#include "fs/control/run_directory.h"
#include "fs/fuse/errno.h"
#include "fs/posix/format.h"
#include "vdev/base/log.h"
#include "zinject/control_client.h"

namespace zuse::control {
namespace {

spdlog::logger& log() {
  static auto& logger = layer_log("control");
  return logger;
}

class Fd {
 public:
  explicit Fd(int fd = -1) noexcept : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd() { close(); }
  int get() const noexcept { return fd_; }
  void close() noexcept {
    if (fd_ >= 0) {
      ::close(std::exchange(fd_, -1));
    }
  }

 private:
  int fd_;
};

std::string read_all(int fd) {
  std::string text;
  std::array<char, 65536> chunk;
  for (;;) {
    const ssize_t got = ::read(fd, chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      return text;
    }
    text.append(chunk.data(), static_cast<std::size_t>(got));
  }
}

void put_all(int fd, const std::string& text) {
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t put = ::write(fd, text.data() + sent, text.size() - sent);
    if (put < 0 && errno != EINTR) {
      return;  // nobody listens any more
    }
    sent += put < 0 ? 0 : static_cast<std::size_t>(put);
  }
}

int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

std::string pool_name(const DaemonOptions& options) {
  if (options.create) {
    return options.create->name;
  }
  return options.import.new_name.empty() ? options.import.pool : options.import.new_name;
}

std::string log_level() {
  const char* const level = std::getenv("ZUSE_LOG_LEVEL");
  return level == nullptr ? "info" : level;
}

// Lets go of the terminal and of whatever files the caller had open. `report` stays.
void detach_from_caller(int report, const std::string& log_file) {
  ::setsid();
  ::umask(022);
  if (::chdir("/") != 0) {
    // The directory that the caller was in stays busy; nothing else depends on it.
    log().debug("chdir_failed errno={}", errno);
  }
  const int null = ::open("/dev/null", O_RDWR);
  ::dup2(null, STDIN_FILENO);
  ::dup2(null, STDOUT_FILENO);
  int log_fd = ::open(log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0600);
  ::dup2(log_fd >= 0 ? log_fd : null, STDERR_FILENO);
  if (report != STDERR_FILENO + 1) {
    ::dup2(report, STDERR_FILENO + 1);
  }
  ::close_range(STDERR_FILENO + 2, ~0U, 0);
  ::fcntl(STDERR_FILENO + 1, F_SETFD, FD_CLOEXEC);
}

// Everything from the pool's devices to its mounts, on the daemon's main thread. `serving` is
// called once when the pool is up.
Result<void> serve(const DaemonOptions& options,
                   const std::function<void(const DaemonStarted&)>& serving) {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    sigaddset(&signals, signal);
  }
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  // A leaf is an open file, and so is each ring and connection.
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &files);
  }
  const Fd signal_fd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  const Fd wake_fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  const auto wake = [fd = wake_fd.get()] {
    const std::uint64_t one = 1;
    (void)!::write(fd, &one, sizeof one);
  };

  auto engine = std::make_unique<zinject::Engine>();
  dataset::ImportOptions import = options.import;
  if (options.create) {
    dataset::CreateOptions create = *options.create;
    create.command_line = options.command_line;
    create.format_root = [](object::Objset& objset, object::Tx& tx) {
      return posix::format_file_system(objset, tx);
    };
    ZUSE_TRY_VOID(dataset::Pool::create(create, plain_devices()));
    import.pool = create.name;
    import.new_name.clear();
    import.directories.clear();
    for (const dataset::VdevSpec& vdev : create.vdevs) {
      import.directories.insert(import.directories.end(), vdev.paths.begin(), vdev.paths.end());
    }
  }
  ZUSE_TRY(auto pool, dataset::Pool::import(import, injected_devices(*engine)));
  DaemonStarted started{pool->name(), {}};
  PoolService service(std::move(engine), std::move(pool), options.altroot, wake);
  ZUSE_TRY(const std::string socket, zinject::socket_path(started.pool));
  ZUSE_TRY(auto server, ControlServer::listen(socket, [&](const Request& request) {
             return service.handle(request);
           }));
  service.on_end([raw = server.get()] { raw->remove_name(); });
  // The server dies before the service does.
  const auto let_go = [&](int*) { service.on_end({}); };
  int guarded = 0;
  const std::unique_ptr<int, decltype(let_go)> guard(&guarded, let_go);
  if (!options.create) {
    service.remember(options.command_line);
  }
  if (options.mount) {
    started.warnings = service.mount_all();
  }
  log().info("serving pool={} pid={}", started.pool, ::getpid());
  serving(started);

  while (!service.over()) {
    std::array<pollfd, 2> waits{{{signal_fd.get(), POLLIN, 0}, {wake_fd.get(), POLLIN, 0}}};
    if (::poll(waits.data(), waits.size(), -1) < 0 && errno != EINTR) {
      return std::unexpected(fuse::system_error(errno, "waiting for signals"));
    }
    signalfd_siginfo signal{};
    if (::read(signal_fd.get(), &signal, sizeof signal) == sizeof signal) {
      log().info("signal number={}", signal.ssi_signo);
      if (signal.ssi_signo == SIGHUP && !options.foreground) {
        continue;  // there is no terminal to hang up
      }
      if (auto ended = service.end(PoolEnd::closed, false); !ended) {
        log().warn("in_use pool={} why=\"{}\"", started.pool, ended.error().what());
        ZUSE_TRY_VOID(service.end(PoolEnd::closed, true));
      }
    }
    std::uint64_t count = 0;
    if (::read(wake_fd.get(), &count, sizeof count) == sizeof count && service.reap()) {
      log().info("root_unmounted pool={}", started.pool);
      if (auto ended = service.end(PoolEnd::closed, false); !ended) {
        // Some other file system of the pool is in use: it stays served.
        log().warn("in_use pool={} why=\"{}\"", started.pool, ended.error().what());
      }
    }
  }
  server->stop();
  return {};
}

}  // namespace

Result<DaemonStarted> run_daemon(const DaemonOptions& options) {
  const std::string name = pool_name(options);
  ZUSE_TRY(const std::string directory, make_run_directory());
  const auto socket = zinject::socket_path(name);
  if (socket && somebody_listens(*socket)) {
    return fail(Errc::exists, "a pool with that name is already imported");
  }
  if (options.foreground) {
    configure_log({}, log_level());
    DaemonStarted started;
    ZUSE_TRY_VOID(serve(options, [&](const DaemonStarted& up) { started = up; }));
    return started;
  }

  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return std::unexpected(fuse::system_error(errno, "starting the daemon"));
  }
  Fd reading(ends[0]);
  Fd writing(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) {
    return std::unexpected(fuse::system_error(errno, "starting the daemon"));
  }
  if (child == 0) {
    detach_from_caller(writing.get(), log_path(directory, name));
    const int report = STDERR_FILENO + 1;
    configure_log({}, log_level());
    bool reported = false;
    const auto served = serve(options, [&](const DaemonStarted& up) {
      put_all(report, zinject::reply_line(Json{{"pool", up.pool}, {"warnings", up.warnings}}));
      ::close(report);
      reported = true;
    });
    if (!served) {
      if (reported) {
        log().error("daemon_failed why=\"{}\"", served.error().what());
      } else {
        put_all(report, zinject::reply_line(std::unexpected(served.error())));
      }
    }
    spdlog::shutdown();
    ::_exit(served ? 0 : 1);
  }
  writing.close();
  const std::string line = read_all(reading.get());
  if (line.empty()) {
    const int status = wait_for(child);
    return fail(Errc::io,
                "the daemon died" +
                    (WIFSIGNALED(status) ? " of signal " + std::to_string(WTERMSIG(status))
                                         : std::string()) +
                    "; its log is " + log_path(directory, name));
  }
  const auto reply = zinject::parse_reply(line);
  if (!reply) {
    wait_for(child);
    return std::unexpected(reply.error());
  }
  return DaemonStarted{string_arg_or(*reply, "pool", name),
                       reply->value("warnings", std::vector<std::string>())};
}

Result<std::string> run_apart(const std::function<Result<std::string>()>& body) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return std::unexpected(fuse::system_error(errno, "starting a process"));
  }
  Fd reading(ends[0]);
  Fd writing(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) {
    return std::unexpected(fuse::system_error(errno, "starting a process"));
  }
  if (child == 0) {
    auto result = body();
    put_all(writing.get(),
            zinject::reply_line(result ? Result<Json>(Json(*result))
                                       : Result<Json>(std::unexpected(std::move(result).error()))));
    ::_exit(0);
  }
  writing.close();
  const std::string line = read_all(reading.get());
  const int status = wait_for(child);
  if (line.empty()) {
    return fail(Errc::io,
                "a helper process died" + (WIFSIGNALED(status)
                                               ? " of signal " + std::to_string(WTERMSIG(status))
                                               : std::string()));
  }
  ZUSE_TRY(const Json reply, zinject::parse_reply(line));
  return reply.is_string() ? reply.get<std::string>() : std::string();
}

}  // namespace zuse::control
