// A mount's life: the connection is made and mounted by libfuse, then our own threads read requests
// from it and hand them to libfuse to decode and dispatch.
//
// Why not libfuse's own multi-threaded loop: it starts and ends threads with the load, cancels them
// at the end (which C++ frames do not survive well), and installs signal handlers; here the threads
// are fixed, end by themselves and never in the middle of a request. A thread that sleeps in
// read(2) on the connection is woken by a signal whose handler does nothing but make read(2)
// return.
#include "fs/fuse/session.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <thread>
#include <vector>

#include "fs/fuse/errno.h"
#include "fs/fuse/mount_point.h"
#include "fs/fuse/operations.h"
#include "vdev/base/log.h"
#include "vdev/base/sync.h"

namespace zuse::fuse {
namespace {

using namespace std::chrono_literals;

constexpr unsigned kThreadsMin = 8;
constexpr unsigned kThreadsMax = 32;
constexpr unsigned kReadAheadKiB = 2048;
constexpr auto kGrace = 1000ms;  // for the connection to end by itself after an unmount
constexpr auto kWakeInterval = 10ms;

spdlog::logger& log() {
  static auto& logger = layer_log("fuse");
  return logger;
}

// What libfuse says while a call of ours is in it: the reason of a failed mount, which it only
// prints.
thread_local std::string* libfuse_words = nullptr;

void take_words(fuse_log_level /*level*/, const char* format, std::va_list arguments) {
  std::array<char, 512> text{};
  std::vsnprintf(text.data(), text.size(), format, arguments);
  std::string line(text.data());
  while (!line.empty() && line.back() == '\n') {
    line.pop_back();
  }
  if (libfuse_words != nullptr) {
    if (libfuse_words->empty()) {
      *libfuse_words = line.starts_with("fuse: ") ? line.substr(6) : line;
    }
  } else {
    log().debug("libfuse says=\"{}\"", line);
  }
}

int wake_signal() {
  return SIGRTMIN + 2;
}

void prepare_process() {
  static std::once_flag once;
  std::call_once(once, [] {
    fuse_set_log_func(take_words);
    struct sigaction action{};
    action.sa_handler = [](int) {};
    sigemptyset(&action.sa_mask);
    sigaction(wake_signal(), &action, nullptr);  // without SA_RESTART: read(2) is to return
    std::signal(SIGPIPE, SIG_IGN);
  });
}

ssize_t read_request(int fd, void* buffer, std::size_t size, void* /*data*/) {
  return ::read(fd, buffer, size);
}

ssize_t write_reply(int fd, iovec* parts, int count, void* data) {
  if (request_marks.offers_promise &&
      add_promise({parts, static_cast<std::size_t>(std::max(count, 0))})) {
    static_cast<Served*>(data)->promised.store(true);
  }
  return ::writev(fd, parts, count);
}

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == ',' || c == '\\') {
      result += '\\';
    }
    result += c;
  }
  return result;
}

std::string mount_options(const MountSettings& settings) {
  // No subtype: with one the type in /proc/mounts would be "fuse.zuse", which test suites and older
  // tools do not take for FUSE.
  std::string options = "fsname=" + escaped(settings.source) +
                        ",default_permissions,max_read=" + std::to_string(kRequestSizeMax);
  const auto add = [&](bool wanted, const char* option) {
    if (wanted) {
      options += ',';
      options += option;
    }
  };
  const bool root = ::geteuid() == 0;
  add(may_allow_other(), "allow_other");
  add(settings.read_only, "ro");
  add(!settings.exec, "noexec");
  add(!settings.atime, "noatime");
  // FUSE's own default is nodev and nosuid; only root may ask for more.
  add(root && settings.devices, "dev");
  add(root && settings.setuid, "suid");
  return options;
}

}  // namespace

struct Mount::Impl {
  struct Worker {
    std::thread thread;
    std::atomic<bool> reading{false};
    std::atomic<bool> gone{false};
  };

  std::unique_ptr<posix::FileSystem> file_system;
  std::string mount_point;
  MountSettings settings;
  DeviceNumber device;
  std::unique_ptr<Served> served;
  fuse_session* session = nullptr;
  std::vector<std::unique_ptr<Worker>> workers;
  std::atomic<unsigned> alive{0};
  Mutex mutex{LockRank::leaf};
  CondVar left;  // `alive` became 0
  std::once_flag finished;
  Result<void> outcome;

  void work(Worker& self);
  Result<void> open_session();
  Result<void> write_back() const;
  void widen_read_ahead() const;
  bool wait_for_end(std::chrono::milliseconds limit);
  void wake_readers();
  void finish();
};

void Mount::Impl::work(Worker& self) {
  fuse_buf buffer{};
  while (fuse_session_exited(session) == 0) {
    self.reading.store(true);
    const int got = fuse_session_receive_buf(session, &buffer);
    self.reading.store(false);
    if (got == -EINTR || got == -EAGAIN) {
      continue;
    }
    if (got <= 0) {
      if (got < 0) {
        log().error("connection_broken source={} errno={}", settings.source, -got);
      }
      fuse_session_exit(session);
      break;
    }
    request_marks =
        marks_of({static_cast<const std::byte*>(buffer.mem), static_cast<std::size_t>(got)});
    fuse_session_process_buf(session, &buffer);
    request_marks = {};
  }
  std::free(buffer.mem);
  self.gone.store(true);
  std::function<void()> ended;
  {
    const LockGuard guard(mutex);
    if (alive.fetch_sub(1) == 1) {
      ended = std::move(settings.ended);
      left.notify_all();
    }
  }
  if (ended) {
    ended();
  }
}

// One thread may have seen the end while others still sleep in read(2): they see it, too, when the
// kernel has ended the connection, but not when only we have decided to.
void Mount::Impl::wake_readers() {
  for (const auto& worker : workers) {
    if (worker->reading.load() && !worker->gone.load()) {
      ::pthread_kill(worker->thread.native_handle(), wake_signal());
    }
  }
}

bool Mount::Impl::wait_for_end(std::chrono::milliseconds limit) {
  const auto until = std::chrono::steady_clock::now() + limit;
  const LockGuard guard(mutex);
  while (alive.load() != 0) {
    const auto now = std::chrono::steady_clock::now();
    if (now >= until) {
      return false;
    }
    left.wait_for(mutex, until - now);
  }
  return true;
}

void Mount::Impl::finish() {
  std::call_once(finished, [this] {
    for (const auto& worker : workers) {
      if (worker->thread.joinable()) {
        worker->thread.join();
      }
    }
    // The connection is closed here, and whoever still has files open gets errors from now on. If
    // it is mounted still, somewhere, libfuse detaches it.
    if (session != nullptr) {
      fuse_session_unmount(session);
      fuse_session_destroy(session);
      session = nullptr;
    }
    if (file_system) {
      outcome = file_system->unmount();
      file_system.reset();
    }
    log().info("unmounted source={} at=\"{}\"", settings.source, mount_point);
  });
}

// Has the kernel hand over what it holds.
Result<void> Mount::Impl::write_back() const {
  const int fd = ::open(mount_point.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) {
    return {};
  }
  const int number = ::syncfs(fd) == 0 ? 0 : errno;
  ::close(fd);
  // A full pool was reported to whoever wrote, at fsync or close; anything else is news.
  if (number == ENOSPC) {
    log().warn("unwritten_no_space source={}", settings.source);
  } else if (number != 0) {
    return std::unexpected(
        system_error(number, "writing back what was last written to " + settings.source));
  }
  return {};
}

Result<void> Mount::Impl::open_session() {
  std::string program = "zuse", flag = "-o", options = mount_options(settings);
  std::array<char*, 3> arguments{program.data(), flag.data(), options.data()};
  fuse_args args{static_cast<int>(arguments.size()), arguments.data(), 0};
  const fuse_lowlevel_ops table = operations();
  std::string words;
  libfuse_words = &words;
  session = fuse_session_new(&args, &table, sizeof table, served.get());
  int result = -1;
  if (session != nullptr) {
    errno = 0;
    result = fuse_session_mount(session, mount_point.c_str());
    if (result == 0) {
      served->session = session;
      fuse_custom_io io{};
      io.read = read_request;
      io.writev = write_reply;
      result = fuse_session_custom_io(session, &io, fuse_session_fd(session));
    }
  }
  const int number = errno;
  libfuse_words = nullptr;
  fuse_opt_free_args(&args);
  if (result == 0) {
    return {};
  }
  if (session != nullptr) {
    fuse_session_unmount(session);
    fuse_session_destroy(session);
    session = nullptr;
  }
  return fail(number == EPERM || number == EACCES ? Errc::not_permitted : Errc::io,
              words.empty() ? "the mount was refused" : words);
}

// The kernel starts with 128 KiB of read-ahead for FUSE, whatever is negotiated; only root may
// raise it, and only here.
void Mount::Impl::widen_read_ahead() const {
  std::ofstream file("/sys/class/bdi/" + std::to_string(device.major) + ":" +
                     std::to_string(device.minor) + "/read_ahead_kb");
  file << kReadAheadKiB << '\n';
}

Result<std::unique_ptr<Mount>> Mount::start(std::unique_ptr<posix::FileSystem> file_system,
                                            const std::string& mount_point,
                                            MountSettings settings) {
  prepare_process();
  auto impl = std::make_unique<Impl>();
  impl->mount_point = mount_point;
  impl->settings = std::move(settings);
  const auto give_up = [&](Error error) -> Result<std::unique_ptr<Mount>> {
    if (auto closed = file_system->unmount(); !closed) {
      log().error("unmount_failed source={} why=\"{}\"", impl->settings.source,
                  closed.error().what());
    }
    file_system.reset();
    return std::unexpected(std::move(error));
  };
  if (auto fit = prepare_mount_point(mount_point, impl->settings.over_files); !fit) {
    return give_up(std::move(fit).error());
  }
  impl->served.reset(new Served{*file_system, file_system->root(), impl->settings.posix_acl,
                                impl->settings.writeback && !impl->settings.read_only});
  if (auto opened = impl->open_session(); !opened) {
    return give_up(std::move(opened).error());
  }
  impl->file_system = std::move(file_system);

  unsigned threads = impl->settings.threads;
  if (threads == 0) {
    threads = std::clamp(2 * std::thread::hardware_concurrency(), kThreadsMin, kThreadsMax);
  }
  impl->alive.store(threads);
  // Signals are for the daemon's main thread.
  sigset_t all, before;
  sigfillset(&all);
  sigdelset(&all, wake_signal());
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  for (unsigned i = 0; i < threads; ++i) {
    impl->workers.push_back(std::make_unique<Impl::Worker>());
  }
  for (const auto& worker : impl->workers) {
    worker->thread = std::thread([&mount = *impl, &self = *worker] { mount.work(self); });
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);

  auto mount = std::unique_ptr<Mount>(new Mount(std::move(impl)));
  if (auto device = device_number(mount_point); device) {
    mount->impl_->device = *device;
    mount->impl_->widen_read_ahead();
  }
  log().info("mounted source={} at=\"{}\" threads={}", mount->impl_->settings.source, mount_point,
             threads);
  return mount;
}

Mount::Mount(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Mount::~Mount() {
  if (auto stopped = stop(StopMode::detach); !stopped) {
    log().error("unmount_failed source={} why=\"{}\"", impl_->settings.source,
                stopped.error().what());
  }
}

const std::string& Mount::mount_point() const noexcept {
  return impl_->mount_point;
}

bool Mount::running() const noexcept {
  return impl_->alive.load() != 0;
}

void Mount::wait() {
  while (!impl_->wait_for_end(60s)) {
  }
  impl_->finish();
}

Result<void> Mount::stop(StopMode mode) {
  Impl& impl = *impl_;
  Result<void> written;
  if (running()) {
    // Is what lies at the path ours? Somebody may have unmounted it, or mounted over it.
    const auto there = device_number(impl.mount_point);
    const bool ours =
        there && there->major == impl.device.major && there->minor == impl.device.minor;
    if (ours) {
      written = impl.write_back();
      if (auto unmounted = unmount(impl.mount_point, mode == StopMode::detach); !unmounted) {
        if (mode == StopMode::if_unused) {
          return unmounted;
        }
        log().warn("detach_failed source={} why=\"{}\"", impl.settings.source,
                   unmounted.error().what());
      }
    } else if (mode == StopMode::if_unused && there && running()) {
      return fail(Errc::busy, "something else is mounted over '" + impl.mount_point + "'");
    }
    if (!impl.wait_for_end(kGrace)) {
      // Detached, with files open still: what was written to them since is fetched now.
      invalidate_all();
      fuse_session_exit(impl.session);
      do {
        impl.wake_readers();
      } while (!impl.wait_for_end(kWakeInterval));
    }
  }
  impl.finish();
  ZUSE_TRY_VOID(written);
  return impl.outcome;
}

void Mount::invalidate(posix::Inode inode) {
  if (running()) {
    fuse_lowlevel_notify_inval_inode(impl_->session, impl_->served->node(inode), 0, 0);
  }
}

void Mount::invalidate_all() {
  if (!running()) {
    return;
  }
  invalidate(impl_->file_system->root());
  for (const posix::Inode inode : impl_->file_system->held()) {
    invalidate(inode);
  }
}

Result<std::string> Mount::path_of(std::uint64_t object) {
  if (!running()) {
    return fail(Errc::not_found, "not mounted");
  }
  return impl_->file_system->path_of(object);
}

void Mount::invalidate_name(posix::Inode parent, std::string_view name) {
  if (running()) {
    fuse_lowlevel_notify_inval_entry(impl_->session, impl_->served->node(parent), name.data(),
                                     name.size());
  }
}

}  // namespace zuse::fuse
