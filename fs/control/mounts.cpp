// Mounting and unmounting a pool's datasets.
#include "fs/control/mounts.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/filesystem.hpp>
#include <cerrno>

#include "fs/fuse/errno.h"
#include "fs/posix/file_system.h"
#include "vdev/base/log.h"

namespace zuse::control {
namespace {

spdlog::logger& log() {
  static auto& logger = layer_log("control");
  return logger;
}

bool is_on(const dataset::PropertySet& properties, const char* name, bool otherwise) {
  const dataset::PropertyValue* const value = properties.find(name);
  return value == nullptr ? otherwise : value->text != "off";
}

// Creates a mount point and the directories above it, as zfs does: mode 0755.
Result<void> make_directories(const std::string& path) {
  boost::system::error_code error;
  boost::filesystem::create_directories(path, error);
  // A dead mount on the path is not "missing": what stands in its way is found out by the mount.
  if (error && error.value() != EEXIST && error.value() != ENOTCONN) {
    return std::unexpected(fuse::system_error(error.value(), "creating '" + path + "'"));
  }
  return {};
}

std::size_t depth(const std::string& path) {
  return static_cast<std::size_t>(std::ranges::count(path, '/'));
}

}  // namespace

std::string join_root(const std::string& altroot, const std::string& path) {
  std::string joined = boost::filesystem::path(altroot + "/" + path).lexically_normal().string();
  if (joined.ends_with("/.")) {
    joined.pop_back();  // Boost's form of a path that ended in a slash
  }
  // Boost keeps two leading slashes, which POSIX allows to mean something else.
  const std::size_t first = joined.find_first_not_of('/');
  const std::size_t last = joined.find_last_not_of('/');
  return first == std::string::npos ? "/" : "/" + joined.substr(first, last + 1 - first);
}

MountWish mount_wish(const dataset::DatasetEntry& entry, const std::string& altroot) {
  MountWish wish;
  const dataset::PropertyValue* const where = entry.properties.find("mountpoint");
  const std::string canmount = entry.properties.text("canmount");
  if (entry.type != "filesystem" || where == nullptr) {
    wish.why_not = "it is a " + entry.type;
  } else if (where->text == "legacy" || where->text == "none") {
    wish.why_not = where->text == "legacy" ? "it has a legacy mountpoint" : "no mountpoint is set";
  } else if (canmount == "off") {
    wish.why_not = "'canmount' property is set to 'off'";
  } else if (!entry.mountable) {
    wish.why_not = entry.why_not;
  } else {
    wish.path = join_root(altroot, where->text);
    wish.automatic = canmount != "noauto";
    wish.inherited = where->source == dataset::PropertySource::defaulted ||
                     where->source == dataset::PropertySource::inherited;
  }
  return wish;
}

Mounts::Mounts(dataset::Pool& pool, std::string altroot, std::function<void()> ended)
    : pool_(pool), altroot_(std::move(altroot)), ended_(std::move(ended)) {}

Mounts::~Mounts() {
  if (auto gone = unmount_all(true, false); !gone) {
    log().error("unmount_failed why=\"{}\"", gone.error().what());
  }
}

Result<void> Mounts::mount_locked(const dataset::DatasetEntry& entry, bool read_only) {
  const MountWish wish = mount_wish(entry, altroot_);
  if (wish.path.empty()) {
    return fail(entry.mountable ? Errc::invalid : Errc::unsupported, wish.why_not);
  }
  if (mounted_.contains(entry.name)) {
    return fail(Errc::busy, "filesystem already mounted");
  }
  for (const auto& [name, other] : mounted_) {
    if (other.mount->mount_point() == wish.path) {
      return fail(Errc::busy, "'" + name + "' is mounted on '" + wish.path + "'");
    }
  }
  const dataset::PropertySet& properties = entry.properties;
  ZUSE_TRY_VOID(make_directories(wish.path));
  ZUSE_TRY(auto dataset, pool_.open_dataset(entry.name));
  fuse::MountSettings settings;
  settings.source = entry.name;
  settings.read_only = read_only || dataset->read_only();
  settings.devices = is_on(properties, "devices", true);
  settings.setuid = is_on(properties, "setuid", true);
  settings.exec = is_on(properties, "exec", true);
  settings.atime = is_on(properties, "atime", true);
  settings.posix_acl = properties.text("acltype").starts_with("posix");
  settings.ended = ended_;
  posix::MountOptions options;
  options.read_only = settings.read_only;
  options.atime = settings.atime;
  options.snapshots_visible = properties.text("snapdir") == "visible";
  ZUSE_TRY(auto file_system, posix::FileSystem::mount(std::move(dataset), options));
  ZUSE_TRY(auto mount, fuse::Mount::start(std::move(file_system), wish.path, std::move(settings)));
  mounted_[entry.name] = {std::move(mount), wish.inherited};
  return {};
}

std::vector<Error> Mounts::mount_all_locked(const std::vector<std::string>* only) {
  std::vector<Error> failures;
  auto entries = pool_.list();
  if (!entries) {
    failures.push_back(std::move(entries).error().within("listing the datasets"));
    return failures;
  }
  struct Planned {
    const dataset::DatasetEntry* entry;
    std::string path;
  };
  std::vector<Planned> plan;
  for (const dataset::DatasetEntry& entry : *entries) {
    if (entry.type != "filesystem" || mounted_.contains(entry.name)) {
      continue;
    }
    const MountWish wish = mount_wish(entry, altroot_);
    if (only != nullptr) {
      if (std::ranges::find(*only, entry.name) != only->end() && !wish.path.empty()) {
        plan.push_back({&entry, wish.path});
      }
    } else if (wish.automatic) {
      plan.push_back({&entry, wish.path});
    } else if (!entry.mountable) {
      failures.emplace_back(Errc::unsupported,
                            "cannot mount '" + entry.name + "': " + entry.why_not);
    }
  }
  // What lies above in the tree of names comes first, whichever dataset it belongs to.
  std::ranges::stable_sort(plan, {}, [](const Planned& p) { return depth(p.path); });
  for (const Planned& planned : plan) {
    if (auto done = mount_locked(*planned.entry, false); !done) {
      failures.push_back(
          std::move(done).error().within("cannot mount '" + planned.entry->name + "'"));
    }
  }
  return failures;
}

std::vector<Error> Mounts::mount_all() {
  const LockGuard guard(mutex_);
  return mount_all_locked(nullptr);
}

Result<void> Mounts::mount(const std::string& dataset, bool read_only) {
  const LockGuard guard(mutex_);
  ZUSE_TRY(const auto entries, pool_.list());
  const auto it = std::ranges::find(entries, dataset, &dataset::DatasetEntry::name);
  if (it == entries.end()) {
    return fail(Errc::not_found, "dataset does not exist");
  }
  return mount_locked(*it, read_only);
}

Result<void> Mounts::unmount_locked(const std::string& dataset, bool force) {
  const auto it = mounted_.find(dataset);
  auto stopped = it->second.mount->stop(force ? fuse::StopMode::detach : fuse::StopMode::if_unused);
  if (!stopped && it->second.mount->running()) {
    return stopped;
  }
  mounted_.erase(it);
  return stopped;
}

Result<void> Mounts::unmount(const std::string& what, bool force) {
  const LockGuard guard(mutex_);
  std::string dataset = what;
  if (!mounted_.contains(dataset)) {
    const std::string path = join_root("/", what);
    const auto at = std::ranges::find_if(
        mounted_, [&](const auto& entry) { return entry.second.mount->mount_point() == path; });
    if (at == mounted_.end()) {
      return fail(Errc::not_found, "not currently mounted");
    }
    dataset = at->first;
  }
  // Other datasets of ours below it keep it busy: they go first.
  const std::string below = mounted_[dataset].mount->mount_point() + "/";
  std::vector<std::string> order;
  for (const auto& [name, entry] : mounted_) {
    if (name == dataset || entry.mount->mount_point().starts_with(below)) {
      order.push_back(name);
    }
  }
  std::ranges::stable_sort(order, std::greater{}, [&](const std::string& name) {
    return depth(mounted_.find(name)->second.mount->mount_point());
  });
  for (const std::string& name : order) {
    ZUSE_TRY_VOID(unmount_locked(name, force));
  }
  return {};
}

Result<void> Mounts::unmount_all(bool force, bool tidy) {
  const LockGuard guard(mutex_);
  std::vector<std::string> order;
  for (const auto& [name, entry] : mounted_) {
    order.push_back(name);
  }
  std::ranges::stable_sort(order, std::greater{}, [&](const std::string& name) {
    return depth(mounted_.find(name)->second.mount->mount_point());
  });
  std::vector<std::string> directories, gone;
  Result<void> result;
  for (const std::string& name : order) {
    const Entry& entry = mounted_.find(name)->second;
    const std::string path = entry.mount->mount_point();
    const bool removable = tidy && entry.tidy;
    if (auto done = unmount_locked(name, force); !done) {
      if (mounted_.contains(name)) {
        for (const Error& failure : mount_all_locked(&gone)) {
          log().error("remount_failed why=\"{}\"", failure.what());
        }
        return done;
      }
      result = std::move(done);  // unmounted, but not all could be written
    }
    gone.push_back(name);
    if (removable) {
      directories.push_back(path);
    }
  }
  for (const std::string& directory : directories) {
    ::rmdir(directory.c_str());  // stays where it holds something
  }
  return result;
}

bool Mounts::reap() {
  const LockGuard guard(mutex_);
  bool root = false;
  for (auto it = mounted_.begin(); it != mounted_.end();) {
    if (it->second.mount->running()) {
      ++it;
      continue;
    }
    it->second.mount->wait();
    root = root || it->first == pool_.name();
    it = mounted_.erase(it);
  }
  return root;
}

std::map<std::string, std::string> Mounts::table() const {
  const LockGuard guard(mutex_);
  std::map<std::string, std::string> result;
  for (const auto& [name, entry] : mounted_) {
    if (entry.mount->running()) {
      result[name] = entry.mount->mount_point();
    }
  }
  return result;
}

void Mounts::invalidate_all() {
  const LockGuard guard(mutex_);
  for (auto& [name, entry] : mounted_) {
    entry.mount->invalidate_all();
  }
}

Result<std::string> Mounts::path_of(const std::string& dataset, std::uint64_t object) const {
  const LockGuard guard(mutex_);
  const auto it = mounted_.find(dataset);
  if (it == mounted_.end()) {
    return fail(Errc::not_found, "'" + dataset + "' is not mounted");
  }
  ZUSE_TRY(std::string path, it->second.mount->path_of(object));
  return it->second.mount->mount_point() + path;
}

}  // namespace zuse::control
