// Mount points. Everything here may be asked of a directory on a mount that hangs or has died, so
// each call is one system call whose failure is answered, and nothing is retried.
#include "fs/fuse/mount_point.h"

#include <dirent.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "fs/fuse/errno.h"

namespace zuse::fuse {
namespace {

bool is_empty_directory(const std::string& path) {
  DIR* const directory = ::opendir(path.c_str());
  if (directory == nullptr) {
    return true;  // the mount itself will say what is wrong
  }
  bool empty = true;
  while (const dirent* const entry = ::readdir(directory)) {
    if (std::strcmp(entry->d_name, ".") != 0 && std::strcmp(entry->d_name, "..") != 0) {
      empty = false;
      break;
    }
  }
  ::closedir(directory);
  return empty;
}

// Runs fusermount3 -u. Its sentence, without the program's name, is the error's.
Result<void> helper_unmount(const std::string& path, bool detach) {
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) {
    return std::unexpected(system_error(errno, "unmounting '" + path + "'"));
  }
  std::string program = "fusermount3", unmount = "-u", lazy = "-z", end_of_options = "--",
              where = path;
  std::array<char*, 6> arguments{program.data(), unmount.data()};
  std::size_t count = 2;
  if (detach) {
    arguments[count++] = lazy.data();
  }
  arguments[count++] = end_of_options.data();
  arguments[count++] = where.data();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pipe[1], STDERR_FILENO);
  pid_t child = 0;
  const int failed =
      ::posix_spawnp(&child, program.c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(pipe[1]);
  if (failed != 0) {
    ::close(pipe[0]);
    return std::unexpected(system_error(failed, "running fusermount3"));
  }
  std::string text;
  std::array<char, 512> chunk{};
  for (;;) {
    const ssize_t got = ::read(pipe[0], chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      break;
    }
    text.append(chunk.data(), static_cast<std::size_t>(got));
  }
  ::close(pipe[0]);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
    return {};
  }
  text = text.substr(0, text.find('\n'));
  const bool busy = text.find("busy") != std::string::npos;
  return fail(busy ? Errc::busy : Errc::io,
              "unmounting '" + path + "': " + (text.empty() ? "fusermount3 failed" : text));
}

}  // namespace

Result<void> prepare_mount_point(const std::string& path, bool over_files) {
  const int fuse = ::open("/dev/fuse", O_RDWR | O_CLOEXEC);
  if (fuse < 0) {
    const int number = errno;
    if (number == ENOENT || number == ENODEV || number == ENXIO) {
      return fail(Errc::gone, "/dev/fuse is not there: load the fuse module (modprobe fuse)");
    }
    return std::unexpected(system_error(number, "/dev/fuse cannot be opened"));
  }
  ::close(fuse);

  struct stat info{};
  int result = ::stat(path.c_str(), &info);
  // Several dead mounts may lie on top of each other.
  for (int tries = 0; result != 0 && errno == ENOTCONN && tries < 8; ++tries) {
    if (auto detached = unmount(path, true); !detached) {
      return std::unexpected(
          std::move(detached).error().within("a dead mount is in the way and does not go"));
    }
    result = ::stat(path.c_str(), &info);
  }
  if (result != 0) {
    return std::unexpected(system_error(errno, "'" + path + "'"));
  }
  if (!S_ISDIR(info.st_mode)) {
    return fail(Errc::not_directory, "'" + path + "' is not a directory");
  }
  if (!over_files && !is_empty_directory(path)) {
    return fail(Errc::not_empty, "directory is not empty");
  }
  return {};
}

Result<void> unmount(const std::string& path, bool detach) {
  if (::umount2(path.c_str(), UMOUNT_NOFOLLOW | (detach ? MNT_DETACH : 0)) == 0) {
    return {};
  }
  const int number = errno;
  if (number == EPERM) {
    return helper_unmount(path, detach);
  }
  if (number == EBUSY) {
    return fail(Errc::busy, "'" + path + "' is busy: files are open there");
  }
  if (number == EINVAL) {
    return fail(Errc::invalid, "'" + path + "' is not a mount point");
  }
  return std::unexpected(system_error(number, "unmounting '" + path + "'"));
}

bool may_allow_other() {
  if (::geteuid() == 0) {
    return true;
  }
  std::ifstream conf("/etc/fuse.conf");
  for (std::string line; std::getline(conf, line);) {
    const std::size_t first = line.find_first_not_of(" \t");
    if (first == std::string::npos) {
      continue;
    }
    const std::size_t last = line.find_last_not_of(" \t\r");
    if (line.substr(first, last - first + 1) == "user_allow_other") {
      return true;
    }
  }
  return false;
}

Result<DeviceNumber> device_number(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) {
    return std::unexpected(system_error(errno, "'" + path + "'"));
  }
  return DeviceNumber{major(info.st_dev), minor(info.st_dev)};
}

}  // namespace zuse::fuse
