// Finding and importing pools, and refusing those that must not be touched.
#include <algorithm>
#include <set>

#include "fs/dataset/pool_impl.h"
#include "fs/pool/label.h"
#include "vdev/base/log.h"

namespace zuse::dataset {
namespace {

spdlog::logger& log() {
  static auto& logger = layer_log("dataset");
  return logger;
}

constexpr std::uint64_t kDeflateVersion = 3;  // pools from it on count deflated space

// The state that each vdev would have if the pool were imported now, for `zpool import`'s list.
vdev::VdevStatus describe(const pool::PoolCandidate& pool, const vdev::VdevConfig& config,
                          bool top_of_pool) {
  vdev::VdevStatus status;
  status.type = config.type;
  status.guid = config.guid;
  status.ashift = config.ashift;
  status.asize = config.asize;
  status.state = vdev::VdevState::healthy;
  if (config.children.empty()) {
    const auto found = pool.found.find(config.guid);
    status.name = found == pool.found.end() ? config.path : found->second;
    if (config.type == vdev::VdevType::missing ||
        (found == pool.found.end() && config.type != vdev::VdevType::hole)) {
      status.state = vdev::VdevState::cant_open;
      status.aux = vdev::VdevAux::open_failed;
    } else if (config.faulted) {
      status.state = vdev::VdevState::faulted;
    } else if (config.offline) {
      status.state = vdev::VdevState::offline;
    }
    return status;
  }
  unsigned bad = 0, worse = 0;
  for (const vdev::VdevConfig& child : config.children) {
    if (top_of_pool && (child.type == vdev::VdevType::hole)) {
      continue;
    }
    status.children.push_back(describe(pool, child, false));
    bad += status.children.back().state < vdev::VdevState::degraded ? 1 : 0;
    worse += status.children.back().state < vdev::VdevState::healthy ? 1 : 0;
  }
  unsigned tolerated = 0;
  if (top_of_pool) {
    status.name = pool.config.name;
  } else if (config.type == vdev::VdevType::raidz) {
    tolerated = config.parity;
    status.name = "raidz" + std::to_string(config.parity) + "-" + std::to_string(config.id);
  } else {
    tolerated = static_cast<unsigned>(config.children.size()) - 1;
    status.name = "mirror-" + std::to_string(config.id);
  }
  if (bad > tolerated) {
    status.state = vdev::VdevState::cant_open;
    status.aux = vdev::VdevAux::no_replicas;
  } else if (worse > 0) {
    status.state = vdev::VdevState::degraded;
  }
  return status;
}

Result<std::vector<pool::PoolCandidate>> find(const std::vector<std::string>& directories,
                                              const DeviceFactory& devices) {
  return pool::find_pools(directories, devices);
}

// The newest label configuration of a leaf decides what is known until the MOS is read.
Result<std::unique_ptr<pool::Storage>> open_storage(const pool::PoolCandidate& candidate,
                                                    const ImportOptions& options,
                                                    const DeviceFactory& devices) {
  pool::StorageOptions storage;
  storage.read_only = options.read_only;
  storage.arc_max = options.arc_max;
  storage.deflate = candidate.config.version >= kDeflateVersion;
  return pool::Storage::open(
      candidate.config.root,
      [&](const vdev::VdevConfig& leaf) -> Result<std::unique_ptr<vdev::BlockDevice>> {
        const auto found = candidate.found.find(leaf.guid);
        if (found == candidate.found.end()) {
          return fail(Errc::gone, "device " + leaf.path + " was not found");
        }
        ZUSE_TRY(std::unique_ptr<vdev::BlockDevice> device,
                 devices(found->second, options.read_only));
        if (options.decorate) {
          device = options.decorate(std::move(device), leaf.guid);
        }
        return device;
      },
      storage);
}

}  // namespace

Result<std::vector<ImportCandidate>> Pool::importable(const std::vector<std::string>& directories,
                                                      const DeviceFactory& devices) {
  ZUSE_TRY(const auto pools, find(directories, devices));
  std::vector<ImportCandidate> result;
  for (const pool::PoolCandidate& pool : pools) {
    if (pool.config.state == pool::PoolState::destroyed) {
      continue;
    }
    ImportCandidate candidate;
    candidate.name = pool.config.name;
    candidate.guid = pool.config.pool_guid;
    candidate.config = describe(pool, pool.config.root, true);
    candidate.problem = pool.problem;
    if (candidate.config.state < vdev::VdevState::degraded && candidate.problem.empty()) {
      candidate.problem = "too many devices are missing";
    }
    if (!candidate.problem.empty()) {
      candidate.config.state = vdev::VdevState::cant_open;
      candidate.status = candidate.problem + ".";
      candidate.action = "The pool cannot be imported. Attach the missing devices and try again.";
    } else if (candidate.config.state == vdev::VdevState::degraded) {
      candidate.status = "One or more devices are missing from the system.";
      candidate.action =
          "The pool can be imported despite missing or damaged devices.  The fault tolerance of "
          "the pool "
          "may be compromised if imported.";
    } else {
      const auto foreign = pool::check_import(pool, pool::local_hostid(), false, false);
      if (!foreign && foreign.error().code() == Errc::busy) {
        candidate.status = "The pool was last accessed by another system.";
        candidate.action =
            "The pool can be imported using its name or numeric identifier and the '-f' flag.";
      } else {
        candidate.action = "The pool can be imported using its name or numeric identifier.";
      }
    }
    result.push_back(std::move(candidate));
  }
  return result;
}

Result<std::unique_ptr<Pool>> Pool::import(const ImportOptions& options,
                                           const DeviceFactory& devices) {
  if (!options.new_name.empty()) {
    ZUSE_TRY_VOID(check_pool_name(options.new_name));
  }
  ZUSE_TRY(const auto pools, find(options.directories, devices));
  ZUSE_TRY(const pool::PoolCandidate* const chosen, pool::choose_pool(pools, options.pool));
  ZUSE_TRY_VOID(
      pool::check_import(*chosen, pool::local_hostid(), options.read_only, options.force));
  if (!chosen->uberblock) {
    return fail(Errc::corrupt, "no uberblock of pool '" + chosen->config.name + "' verifies");
  }
  pool::PoolCandidate candidate = *chosen;
  ZUSE_TRY(auto storage, open_storage(candidate, options, devices));
  ZUSE_TRY_VOID(storage->tree().set_raidz_impl(options.raidz_impl));
  pool::PoolConfig config = candidate.config;
  if (!options.new_name.empty()) {
    config.name = options.new_name;
  }
  auto pool = std::make_unique<PoolImpl>(
      std::move(config), std::move(storage),
      PoolImpl::Options{options.read_only, options.dirty_max, devices, options.decorate});
  auto loaded = pool->load(*candidate.uberblock);
  if (!loaded) {
    return std::unexpected(
        std::move(loaded).error().within("pool '" + candidate.config.name + "'"));
  }
  pool->start();
  for (const std::string& note : candidate.notes) {
    log().warn("import_note pool={} note=\"{}\"", candidate.config.name, note);
  }
  return pool;
}

Result<void> Pool::destroy(std::unique_ptr<Pool> pool) {
  if (pool->read_only()) {
    return fail(Errc::read_only, "pool '" + pool->name() + "' is read-only");
  }
  static_cast<PoolImpl&>(*pool).mark_destroyed();
  return pool->close(true);
}

}  // namespace zuse::dataset
