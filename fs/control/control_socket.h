// ControlServer: the daemon's end of the control socket. One thread accepts, one more serves each
// connection, so that a long command delays nobody.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <thread>

#include "fs/control/message.h"
#include "vdev/base/result.h"
#include "vdev/base/sync.h"

namespace zuse::control {

// Thread-safe.
class ControlServer {
 public:
  // Carries out a command. Called on several threads at once.
  using Handler = std::function<Result<Json>(const Request& request)>;

  // Listens (mode 0600) and serves. A socket file that nobody listens on is replaced.
  // errors: busy (a daemon listens there), name_too_long, those of bind(2).
  static Result<std::unique_ptr<ControlServer>> listen(const std::string& path, Handler handler);
  ~ControlServer();  // stop()
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

  // Takes the socket's name away, so that another daemon may take it. Who is connected stays so.
  void remove_name();
  // No new commands; commands in progress are waited for and answered.
  void stop();

 private:
  struct Connection {
    std::thread thread;
    int fd = -1;
    bool over = false;
  };

  ControlServer(std::string path, Handler handler);
  void accept_all();
  void serve(Connection& connection);
  void reap(bool all);

  const std::string path_;
  const Handler handler_;
  int listen_fd_ = -1;
  int stop_fd_ = -1;  // an eventfd: readable once stop() has begun
  std::thread accepting_;
  Mutex mutex_{LockRank::leaf};
  std::list<Connection> connections_ ZUSE_GUARDED_BY(mutex_);
  bool name_is_ours_ ZUSE_GUARDED_BY(mutex_) = false;
  bool stopped_ ZUSE_GUARDED_BY(mutex_) = false;
};

}  // namespace zuse::control
