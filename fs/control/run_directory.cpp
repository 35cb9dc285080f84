// The run directory. It is trusted to hold our own sockets, so it has to be ours.
#include "fs/control/run_directory.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/filesystem.hpp>
#include <cerrno>
#include <cstring>

#include "fs/fuse/errno.h"
#include "zinject/control_client.h"

namespace zuse::control {

Result<std::string> make_run_directory() {
  ZUSE_TRY(const std::string path, zinject::run_directory());
  boost::system::error_code error;
  boost::filesystem::create_directories(boost::filesystem::path(path).parent_path(), error);
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return std::unexpected(fuse::system_error(errno, "creating '" + path + "'"));
  }
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) {
    return std::unexpected(fuse::system_error(errno, "'" + path + "'"));
  }
  if (!S_ISDIR(info.st_mode)) {
    return fail(Errc::not_directory, "'" + path + "' is not a directory");
  }
  if (info.st_uid != ::geteuid() && info.st_uid != 0) {
    return fail(Errc::not_permitted, "'" + path + "' belongs to another user");
  }
  return path;
}

std::string log_path(const std::string& run_directory, const std::string& pool) {
  return run_directory + "/" + pool + ".log";
}

bool somebody_listens(const std::string& socket_path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket_path.size() >= sizeof address.sun_path) {
    return false;
  }
  std::memcpy(address.sun_path, socket_path.c_str(), socket_path.size() + 1);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) {
    return false;
  }
  const bool answers =
      ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  ::close(fd);
  return answers;
}

std::vector<std::string> running_pools() {
  std::vector<std::string> running;
  if (const auto pools = zinject::pools_with_sockets()) {
    for (const std::string& pool : *pools) {
      const auto path = zinject::socket_path(pool);
      if (path && somebody_listens(*path)) {
        running.push_back(pool);
      }
    }
  }
  return running;
}

}  // namespace zuse::control
