// PoolService: what the daemon of a pool does when asked. It owns the pool, its injection engine
// and its mounts, carries out the commands of the control socket, and closes everything in order.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fs/control/message.h"
#include "fs/control/mounts.h"
#include "fs/dataset/pool.h"
#include "vdev/base/sync.h"
#include "zinject/engine.h"

namespace zuse::control {

// How a pool is left behind.
enum class PoolEnd : std::uint8_t {
  closed,    // on disk as after an orderly stop of this host: nobody else's without force
  exported,  // free for any host
  destroyed,
};

// Thread-safe.
class PoolService {
 public:
  // `wake` is called when the daemon's main thread should look: a mount has ended, or the service.
  PoolService(std::unique_ptr<zinject::Engine> engine, std::unique_ptr<dataset::Pool> pool,
              std::string altroot, std::function<void()> wake);
  ~PoolService();

  // The failures, as sentences; the pool is served all the same.
  std::vector<std::string> mount_all();
  // Into the pool's history, where the pool can be written.
  void remember(const std::string& command_line);

  // A command of the control socket. errors: invalid (an unknown command, an argument missing),
  // stopped (the pool has been closed), and what the command says.
  Result<Json> handle(const Request& request);

  // Unmounts, syncs, and lets the pool go. `force`: mounts in use are detached. Nothing has changed
  // where it fails with busy. Once over, more calls do nothing. errors: busy, io.
  Result<void> end(PoolEnd how, bool force);
  bool over() const;
  // Looks after mounts that have ended by themselves. True if the root file system was one.
  bool reap();

  // Called before end() of `exported` or `destroyed` answers: takes the socket's name away.
  void on_end(std::function<void()> action);

 private:
  struct Command;
  static const std::vector<Command>& commands();

  Result<Json> status(const Json& args);
  Result<Json> list(const Json& args);
  Result<Json> datasets(const Json& args);
  Result<Json> set(const Json& args);
  Result<Json> scrub(const Json& args);
  Result<Json> scan(const Json& args);
  Result<Json> sync(const Json& args);
  Result<Json> clear(const Json& args);
  Result<Json> history(const Json& args);
  Result<Json> mount(const Json& args);
  Result<Json> unmount(const Json& args);
  Result<Json> cache_drop(const Json& args);
  void drop_caches();
  Result<Json> inject(const Json& args);
  void remember_from(const Json& args);

  const std::string name_;
  const std::function<void()> wake_;
  const std::string altroot_;
  std::function<void()> on_end_;
  mutable SharedMutex mutex_{LockRank::control};  // shared: the pool is used; else: it ends
  std::unique_ptr<zinject::Engine> engine_;       // outlives the pool's devices
  std::unique_ptr<dataset::Pool> pool_ ZUSE_GUARDED_BY(mutex_);
  std::unique_ptr<Mounts> mounts_ ZUSE_GUARDED_BY(mutex_);
};

}  // namespace zuse::control
