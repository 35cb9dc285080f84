// The commands of a pool's daemon. Each is a function from arguments to an answer; the table at the
// end of this file names them.
#include "fs/control/pool_service.h"

#include <algorithm>
#include <utility>

#include "fs/control/json_views.h"
#include "vdev/base/log.h"
#include "zinject/protocol.h"

namespace zuse::control {
namespace {

spdlog::logger& log() {
  static auto& logger = layer_log("control");
  return logger;
}

Json nothing() {
  return Json::object();
}

// The leaf that a person means: its guid, its path, or the last part of it.
Result<std::uint64_t> find_leaf(const vdev::VdevStatus& tree, const std::string& what) {
  std::vector<const vdev::VdevStatus*> rest{&tree};
  const vdev::VdevStatus* by_base_name = nullptr;
  while (!rest.empty()) {
    const vdev::VdevStatus& vdev = *rest.back();
    rest.pop_back();
    if (vdev.children.empty()) {
      if (vdev.name == what || std::to_string(vdev.guid) == what) {
        return vdev.guid;
      }
      if (vdev.name.ends_with("/" + what)) {
        by_base_name = &vdev;
      }
    }
    for (const vdev::VdevStatus& child : vdev.children) {
      rest.push_back(&child);
    }
  }
  if (by_base_name != nullptr) {
    return by_base_name->guid;
  }
  return fail(Errc::not_found, "no such device in pool");
}

}  // namespace

struct PoolService::Command {
  const char* name;
  Result<Json> (PoolService::*carry_out)(const Json& args);
  bool remembered;  // goes into the pool's history
};

PoolService::PoolService(std::unique_ptr<zinject::Engine> engine,
                         std::unique_ptr<dataset::Pool> pool, std::string altroot,
                         std::function<void()> wake)
    : name_(pool->name()),
      wake_(std::move(wake)),
      altroot_(std::move(altroot)),
      engine_(std::move(engine)),
      pool_(std::move(pool)),
      mounts_(std::make_unique<Mounts>(*pool_, altroot_, wake_)) {}

PoolService::~PoolService() {
  if (auto ended = end(PoolEnd::closed, true); !ended) {
    log().error("close_failed pool={} why=\"{}\"", name_, ended.error().what());
  }
}

void PoolService::on_end(std::function<void()> action) {
  on_end_ = std::move(action);
}

std::vector<std::string> PoolService::mount_all() {
  const SharedGuard guard(mutex_);
  std::vector<std::string> sentences;
  for (const Error& failure : mounts_->mount_all()) {
    log().error("mount_failed why=\"{}\"", failure.what());
    sentences.push_back(failure.what());
  }
  return sentences;
}

void PoolService::remember(const std::string& command_line) {
  const SharedGuard guard(mutex_);
  remember_from({{"command_line", command_line}});
}

void PoolService::remember_from(const Json& args) {
  const std::string line = string_arg_or(args, "command_line");
  if (line.empty() || pool_->read_only()) {
    return;
  }
  if (auto logged = pool_->log_history(line); !logged) {
    log().warn("history_failed pool={} why=\"{}\"", name_, logged.error().what());
  }
}

bool PoolService::over() const {
  const SharedGuard guard(mutex_);
  return pool_ == nullptr;
}

bool PoolService::reap() {
  const SharedGuard guard(mutex_);
  return mounts_ != nullptr && mounts_->reap();
}

Result<void> PoolService::end(PoolEnd how, bool force) {
  {
    const ExclusiveGuard guard(mutex_);
    if (pool_ == nullptr) {
      return {};
    }
    Result<void> result = mounts_->unmount_all(force, how != PoolEnd::closed);
    if (!result && !mounts_->table().empty()) {
      return result;
    }
    mounts_.reset();
    Result<void> closed = how == PoolEnd::destroyed ? dataset::Pool::destroy(std::move(pool_))
                                                    : pool_->close(how == PoolEnd::exported);
    pool_.reset();
    if (closed) {
      closed = std::move(result);
    }
    if (on_end_) {
      on_end_();
    }
    log().info("pool_closed pool={} exported={} ok={}", name_, how == PoolEnd::exported,
               closed.has_value());
    if (!closed) {
      wake_();
      return closed;
    }
  }
  wake_();
  return {};
}

Result<Json> PoolService::handle(const Request& request) {
  if (request.command == "export" || request.command == "destroy") {
    const bool destroy = request.command == "destroy";
    if (!destroy) {
      const SharedGuard guard(mutex_);
      if (pool_ != nullptr) {
        remember_from(request.args);
      }
    }
    ZUSE_TRY_VOID(
        end(destroy ? PoolEnd::destroyed : PoolEnd::exported, flag_arg(request.args, "force")));
    return nothing();
  }
  const auto& all = commands();
  const auto it = std::ranges::find_if(
      all, [&](const Command& command) { return request.command == command.name; });
  if (it == all.end()) {
    return fail(Errc::invalid, "the daemon knows no command '" + request.command + "'");
  }
  const SharedGuard guard(mutex_);
  if (pool_ == nullptr) {
    return fail(Errc::stopped, "the pool is being closed");
  }
  ZUSE_TRY(Json answer, (this->*it->carry_out)(request.args));
  if (it->remembered) {
    remember_from(request.args);
  }
  return answer;
}

Result<Json> PoolService::status(const Json& /*args*/) {
  return status_view(*pool_, [this](const std::string& dataset, std::uint64_t object) {
    return mounts_->path_of(dataset, object);
  });
}

Result<Json> PoolService::list(const Json& /*args*/) {
  Json properties = Json::object();
  for (const auto& [name, value] : pool_->pool_properties()) {
    properties[name] = property_view(value);
  }
  properties["altroot"] = property_view(
      {altroot_.empty() ? "-" : altroot_,
       0,
       altroot_.empty() ? dataset::PropertySource::defaulted : dataset::PropertySource::local,
       {}});
  return Json{{"name", name_},
              {"size", pool_->size()},
              {"allocated", pool_->allocated()},
              {"properties", std::move(properties)}};
}

Result<Json> PoolService::datasets(const Json& /*args*/) {
  ZUSE_TRY(const auto entries, pool_->list());
  const auto mounted = mounts_->table();
  Json all = Json::array();
  for (const dataset::DatasetEntry& entry : entries) {
    Json view = dataset_view(entry);
    const auto at = mounted.find(entry.name);
    view["mounted_at"] = at == mounted.end() ? Json() : Json(at->second);
    if (entry.type == "filesystem") {
      view["properties"]["mounted"] = property_view({at == mounted.end() ? "no" : "yes",
                                                     at == mounted.end() ? std::uint64_t{0} : 1,
                                                     dataset::PropertySource::none,
                                                     {}});
      // Where it is, or would be, below the altroot: what zfs shows.
      const std::string where = entry.properties.text("mountpoint");
      if (!altroot_.empty() && where.starts_with('/')) {
        view["properties"]["mountpoint"]["text"] = join_root(altroot_, where);
      }
    }
    if (entry.type == "volume") {
      view["properties"].erase("mountpoint");  // volumes have none, though they inherit a value
    }
    all.push_back(std::move(view));
  }
  return all;
}

Result<Json> PoolService::set(const Json& args) {
  ZUSE_TRY(const std::string property, string_arg(args, "property"));
  ZUSE_TRY(const std::string value, string_arg(args, "value"));
  const std::string target = string_arg_or(args, "dataset");
  if (target.empty()) {
    ZUSE_TRY_VOID(pool_->set_pool_property(property, value));
    return nothing();
  }
  ZUSE_TRY_VOID(pool_->set_property(target, property, value));
  // A new place takes effect at once, where nothing is in use.
  if ((property == "mountpoint" || property == "canmount" || property == "readonly" ||
       property == "atime" || property == "exec" || property == "setuid" || property == "devices" ||
       property == "snapdir") &&
      mounts_->table().contains(target)) {
    ZUSE_TRY_VOID(mounts_->unmount(target, false));
    std::string failures;
    for (const Error& failure : mounts_->mount_all()) {
      failures += (failures.empty() ? "" : "; ") + failure.what();
    }
    if (!failures.empty()) {
      return fail(Errc::invalid, "property set, but " + failures);
    }
  }
  return nothing();
}

Result<Json> PoolService::scrub(const Json& args) {
  const std::string action = string_arg_or(args, "action", "start");
  if (action == "start") {
    ZUSE_TRY_VOID(pool_->scrub_start());
  } else if (action == "pause") {
    ZUSE_TRY_VOID(pool_->scrub_pause());
  } else if (action == "stop") {
    ZUSE_TRY_VOID(pool_->scrub_stop());
  } else {
    return fail(Errc::invalid, "a scrub is started, paused or stopped, not '" + action + "'");
  }
  return scan_view(pool_->scan_status());
}

Result<Json> PoolService::scan(const Json& /*args*/) {
  return scan_view(pool_->scan_status());
}

Result<Json> PoolService::sync(const Json& /*args*/) {
  ZUSE_TRY_VOID(pool_->sync());
  return nothing();
}

Result<Json> PoolService::clear(const Json& args) {
  std::uint64_t guid = 0;
  if (const std::string device = string_arg_or(args, "device"); !device.empty()) {
    ZUSE_TRY(guid, find_leaf(pool_->status(), device));
  }
  ZUSE_TRY_VOID(pool_->clear(guid));
  return nothing();
}

Result<Json> PoolService::history(const Json& /*args*/) {
  ZUSE_TRY(const auto records, pool_->history());
  Json all = Json::array();
  for (const auto& record : records) {
    all.push_back({{"time", record.time}, {"text", record.text}});
  }
  return all;
}

Result<Json> PoolService::mount(const Json& args) {
  if (flag_arg(args, "all")) {
    Json failures = Json::array();
    for (const Error& failure : mounts_->mount_all()) {
      failures.push_back(failure.what());
    }
    return Json{{"failures", std::move(failures)}};
  }
  ZUSE_TRY(const std::string target, string_arg(args, "dataset"));
  ZUSE_TRY_VOID(mounts_->mount(target, flag_arg(args, "read_only")));
  return Json{{"failures", Json::array()}};
}

Result<Json> PoolService::unmount(const Json& args) {
  const bool force = flag_arg(args, "force");
  if (flag_arg(args, "all")) {
    ZUSE_TRY_VOID(mounts_->unmount_all(force, false));
    return nothing();
  }
  ZUSE_TRY(const std::string target, string_arg(args, "dataset"));
  ZUSE_TRY_VOID(mounts_->unmount(target, force));
  return nothing();
}

// The kernel's cache first: what it writes back lands in ours.
void PoolService::drop_caches() {
  mounts_->invalidate_all();
  if (!pool_->read_only()) {
    if (auto synced = pool_->sync(); !synced) {
      log().warn("cache_drop_sync_failed pool={} why=\"{}\"", name_, synced.error().what());
    }
  }
  pool_->drop_cache();
}

Result<Json> PoolService::cache_drop(const Json& /*args*/) {
  drop_caches();
  return nothing();
}

Result<Json> PoolService::inject(const Json& args) {
  zinject::Hooks hooks;
  hooks.pool = name_;
  hooks.leaves = [this] {
    std::vector<zinject::LeafName> names;
    for (const auto& leaf : pool_->vdevs().leaves()) {
      names.push_back({leaf.guid, leaf.path});
    }
    return names;
  };
  hooks.drop_cache = [this]() -> Result<void> {
    drop_caches();
    return {};
  };
  hooks.set_leaf_state = [this](std::uint64_t guid, vdev::VdevState state) {
    return pool_->vdevs().set_leaf_state(guid, state, vdev::VdevAux::external);
  };
  return zinject::handle(*engine_, args, hooks);
}

const std::vector<PoolService::Command>& PoolService::commands() {
  static const std::vector<Command> table{
      {"status", &PoolService::status, false},     {"list", &PoolService::list, false},
      {"datasets", &PoolService::datasets, false}, {"set", &PoolService::set, true},
      {"scrub", &PoolService::scrub, true},        {"scan", &PoolService::scan, false},
      {"sync", &PoolService::sync, false},         {"clear", &PoolService::clear, true},
      {"history", &PoolService::history, false},   {"mount", &PoolService::mount, false},
      {"unmount", &PoolService::unmount, false},   {"cache_drop", &PoolService::cache_drop, false},
      {"zinject", &PoolService::inject, false},
  };
  return table;
}

}  // namespace zuse::control
