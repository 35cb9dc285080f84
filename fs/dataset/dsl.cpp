// Directories and datasets of the MOS: lookup by name, listing, and the space accounting
// primitives.
#include "fs/dataset/dsl.h"

#include <algorithm>

#include "vdev/base/log.h"

namespace zuse::dataset {
namespace {

constexpr unsigned kDepthMax = 64;  // nesting of directories; OpenZFS allows 50
constexpr std::size_t kSnapshotsMax = 1 << 20;

bool hidden_name(std::string_view name) {
  return name.empty() || name[0] == '$' || name[0] == '%';
}

std::uint64_t add_signed(std::uint64_t value, std::int64_t by) {
  return value + static_cast<std::uint64_t>(by);
}

// Bonus of a DSL object. errors: corrupt, not_found.
Result<std::vector<std::byte>> bonus_of(object::Objset& mos, std::uint64_t object,
                                        format::ObjectType type, std::size_t size) {
  ZUSE_TRY(const object::DnodeRef dnode, mos.hold(object));
  std::vector<std::byte> bonus = dnode->bonus();
  if (dnode->bonus_type() != type || bonus.size() < size) {
    return fail(Errc::corrupt, "MOS object " + std::to_string(object) + " is not a DSL " +
                                   (type == format::ObjectType::dsl_dir ? "directory" : "dataset"));
  }
  return bonus;
}

std::int64_t reservation_delta(const format::DslDirPhys& directory, std::int64_t by) {
  const std::uint64_t before = std::max(directory.used, directory.reserved);
  const std::uint64_t after = std::max(add_signed(directory.used, by), directory.reserved);
  return static_cast<std::int64_t>(after - before);
}

}  // namespace

SpaceDelta& SpaceDelta::operator+=(const BlockSpace& space) {
  used += static_cast<std::int64_t>(space.used);
  compressed += static_cast<std::int64_t>(space.compressed);
  uncompressed += static_cast<std::int64_t>(space.uncompressed);
  return *this;
}

SpaceDelta& SpaceDelta::operator-=(const BlockSpace& space) {
  used -= static_cast<std::int64_t>(space.used);
  compressed -= static_cast<std::int64_t>(space.compressed);
  uncompressed -= static_cast<std::int64_t>(space.uncompressed);
  return *this;
}

Result<format::DslDirPhys> Dsl::directory(std::uint64_t object) {
  {
    const LockGuard lock(mutex_);
    const auto it = directories_.find(object);
    if (it != directories_.end()) {
      return it->second.phys;
    }
  }
  ZUSE_TRY(const auto bonus,
           bonus_of(mos_, object, format::ObjectType::dsl_dir, format::kDslDirSize));
  ZUSE_TRY(const auto phys, format::decode_dsl_dir(bonus, kHostOrder));
  const LockGuard lock(mutex_);
  return directories_.try_emplace(object, Cached<format::DslDirPhys>{phys, false})
      .first->second.phys;
}

Result<format::DslDatasetPhys> Dsl::dataset(std::uint64_t object) {
  {
    const LockGuard lock(mutex_);
    const auto it = datasets_.find(object);
    if (it != datasets_.end()) {
      return it->second.phys;
    }
  }
  ZUSE_TRY(const auto bonus,
           bonus_of(mos_, object, format::ObjectType::dsl_dataset, format::kDslDatasetSize));
  ZUSE_TRY(const auto phys, format::decode_dsl_dataset(bonus, kHostOrder));
  const LockGuard lock(mutex_);
  return datasets_.try_emplace(object, Cached<format::DslDatasetPhys>{phys, false})
      .first->second.phys;
}

void Dsl::put_directory(std::uint64_t object, const format::DslDirPhys& phys) {
  const LockGuard lock(mutex_);
  directories_[object] = {phys, true};
}

void Dsl::put_dataset(std::uint64_t object, const format::DslDatasetPhys& phys) {
  const LockGuard lock(mutex_);
  datasets_[object] = {phys, true};
}

Result<void> Dsl::flush(object::Tx& tx) {
  std::map<std::uint64_t, std::vector<std::byte>> bonuses;
  {
    const LockGuard lock(mutex_);
    for (auto& [object, cached] : directories_) {
      if (std::exchange(cached.dirty, false)) {
        auto& bonus = bonuses[object] = std::vector<std::byte>(format::kDslDirSize);
        format::encode_dsl_dir(cached.phys, bonus, kHostOrder);
      }
    }
    for (auto& [object, cached] : datasets_) {
      if (std::exchange(cached.dirty, false)) {
        auto& bonus = bonuses[object] = std::vector<std::byte>(format::kDslDatasetSize);
        format::encode_dsl_dataset(cached.phys, bonus, kHostOrder);
      }
    }
  }
  for (const auto& [object, bonus] : bonuses) {
    ZUSE_TRY(const object::DnodeRef dnode, mos_.hold(object));
    ZUSE_TRY_VOID(dnode->set_bonus(tx, bonus));
  }
  return {};
}

Result<NamedDataset> Dsl::find(std::string_view name) {
  const std::size_t at = name.find('@');
  const std::string_view path = name.substr(0, at);
  std::string_view rest = path;
  const auto next = [&rest] {
    const std::size_t slash = rest.find('/');
    const std::string_view part = rest.substr(0, slash);
    rest = slash == std::string_view::npos ? std::string_view{} : rest.substr(slash + 1);
    return part;
  };
  const auto missing = [&] {
    return fail(Errc::not_found, "dataset '" + std::string(name) + "' does not exist");
  };
  if (next() != pool_name_) {
    return missing();
  }
  std::uint64_t directory_object = root_;
  for (unsigned depth = 0; !rest.empty(); ++depth) {
    const std::string_view part = next();
    if (depth > kDepthMax || hidden_name(part)) {
      return missing();
    }
    ZUSE_TRY(const auto phys, directory(directory_object));
    ZUSE_TRY(const object::Zap children, object::Zap::open(mos_, phys.child_zap));
    const auto child = children.lookup(part);
    if (!child) {
      return child.error().code() == Errc::not_found ? Result<NamedDataset>(missing())
                                                     : std::unexpected(child.error());
    }
    directory_object = *child;
  }
  ZUSE_TRY(const auto phys, directory(directory_object));
  NamedDataset found{std::string(name), phys.head_dataset, directory_object, false};
  if (found.dataset == 0) {
    return missing();
  }
  if (at != std::string_view::npos) {
    ZUSE_TRY(const auto head, dataset(found.dataset));
    ZUSE_TRY(const object::Zap names, object::Zap::open(mos_, head.snapnames_zap));
    const auto snapshot = names.lookup(name.substr(at + 1));
    if (!snapshot) {
      return snapshot.error().code() == Errc::not_found ? Result<NamedDataset>(missing())
                                                        : std::unexpected(snapshot.error());
    }
    found.dataset = *snapshot;
    found.snapshot = true;
  }
  return found;
}

Result<std::string> Dsl::name_of(std::uint64_t wanted) {
  std::vector<NamedDataset> found;
  ZUSE_TRY_VOID(list_below(root_, pool_name_, true, false, 0, found));
  for (const NamedDataset& named : found) {
    if (named.dataset == wanted) {
      return named.name;
    }
  }
  return fail(Errc::not_found, "no dataset with object " + std::to_string(wanted));
}

Result<std::vector<NamedDataset>> Dsl::snapshots(const NamedDataset& head) {
  ZUSE_TRY(const auto phys, dataset(head.dataset));
  std::vector<NamedDataset> found;
  if (phys.snapnames_zap == 0) {
    return found;
  }
  ZUSE_TRY(const object::Zap names, object::Zap::open(mos_, phys.snapnames_zap));
  std::vector<std::pair<std::uint64_t, NamedDataset>> by_txg;
  ZUSE_TRY_VOID(names.for_each([&](const object::ZapEntry& entry) -> Result<void> {
    if (entry.value.integers.empty() || by_txg.size() >= kSnapshotsMax) {
      return fail(Errc::corrupt, "snapshot list of '" + head.name + "' is damaged");
    }
    const std::uint64_t object = entry.value.integers[0];
    ZUSE_TRY(const auto snapshot, dataset(object));
    by_txg.emplace_back(snapshot.creation_txg,
                        NamedDataset{head.name + "@" + entry.name, object, head.directory, true});
    return {};
  }));
  std::ranges::sort(by_txg, {}, [](const auto& pair) { return pair.first; });
  for (auto& [txg, named] : by_txg) {
    found.push_back(std::move(named));
  }
  return found;
}

Result<void> Dsl::list_below(std::uint64_t object, const std::string& name, bool with_snapshots,
                             bool hidden, unsigned depth, std::vector<NamedDataset>& found) {
  if (depth > kDepthMax) {
    return fail(Errc::corrupt, "directories are nested too deep below '" + name + "'");
  }
  ZUSE_TRY(const auto phys, directory(object));
  if (phys.head_dataset != 0) {
    const NamedDataset head{name, phys.head_dataset, object, false};
    found.push_back(head);
    if (with_snapshots) {
      ZUSE_TRY(auto list, snapshots(head));
      std::ranges::move(list, std::back_inserter(found));
    }
  }
  if (phys.child_zap == 0) {
    return {};
  }
  ZUSE_TRY(const object::Zap children, object::Zap::open(mos_, phys.child_zap));
  std::map<std::string, std::uint64_t> sorted;
  ZUSE_TRY_VOID(children.for_each([&](const object::ZapEntry& entry) -> Result<void> {
    if (entry.value.integers.empty()) {
      return fail(Errc::corrupt, "child list of '" + name + "' is damaged");
    }
    if (hidden || !hidden_name(entry.name)) {
      sorted[entry.name] = entry.value.integers[0];
    }
    return {};
  }));
  for (const auto& [child, child_object] : sorted) {
    ZUSE_TRY_VOID(
        list_below(child_object, name + "/" + child, with_snapshots, hidden, depth + 1, found));
  }
  return {};
}

Result<std::vector<NamedDataset>> Dsl::list(bool with_snapshots) {
  std::vector<NamedDataset> found;
  ZUSE_TRY_VOID(list_below(root_, pool_name_, with_snapshots, false, 0, found));
  return found;
}

Result<std::vector<std::uint64_t>> Dsl::all_datasets() {
  std::vector<NamedDataset> found;
  ZUSE_TRY_VOID(list_below(root_, pool_name_, true, true, 0, found));
  std::vector<std::uint64_t> objects;
  for (const NamedDataset& named : found) {
    objects.push_back(named.dataset);
  }
  std::ranges::sort(objects);
  return objects;
}

Result<std::uint64_t> Dsl::available(std::uint64_t object, std::uint64_t pool_available) {
  std::vector<format::DslDirPhys> chain;
  for (std::uint64_t at = object; at != 0; at = chain.back().parent) {
    if (chain.size() > kDepthMax) {
      return fail(Errc::corrupt, "directories are nested too deep");
    }
    ZUSE_TRY(const auto phys, directory(at));
    chain.push_back(phys);
  }
  std::uint64_t result = pool_available;
  bool root = true;
  for (auto it = chain.rbegin(); it != chain.rend(); ++it) {
    // The root's limit is what the pool has in all, used space included.
    const std::uint64_t within =
        root ? result : result + (it->reserved > it->used ? it->reserved - it->used : 0) + it->used;
    std::uint64_t limit = within;
    if (it->quota != 0) {
      limit = std::min(limit, it->quota);
    }
    result = limit > it->used ? limit - it->used : 0;
    root = false;
  }
  return result;
}

Result<void> Dsl::did_use(std::uint64_t object, format::UsedPart kind, const SpaceDelta& delta) {
  ZUSE_TRY(auto phys, directory(object));
  const std::int64_t up = reservation_delta(phys, delta.used);
  phys.used = add_signed(phys.used, delta.used);
  phys.compressed = add_signed(phys.compressed, delta.compressed);
  phys.uncompressed = add_signed(phys.uncompressed, delta.uncompressed);
  phys.part(kind) = add_signed(phys.part(kind), delta.used);
  put_directory(object, phys);
  if (phys.parent == 0) {
    return {};
  }
  return did_use_transfer(phys.parent, {up, delta.compressed, delta.uncompressed}, delta.used,
                          format::UsedPart::child_rsrv, format::UsedPart::child);
}

Result<void> Dsl::did_use_transfer(std::uint64_t object, const SpaceDelta& delta,
                                   std::int64_t to_new, format::UsedPart from,
                                   format::UsedPart to) {
  ZUSE_TRY(auto phys, directory(object));
  const std::int64_t up = reservation_delta(phys, delta.used);
  phys.used = add_signed(phys.used, delta.used);
  phys.compressed = add_signed(phys.compressed, delta.compressed);
  phys.uncompressed = add_signed(phys.uncompressed, delta.uncompressed);
  phys.part(from) = add_signed(phys.part(from), -(to_new - delta.used));
  phys.part(to) = add_signed(phys.part(to), to_new);
  put_directory(object, phys);
  if (phys.parent == 0) {
    return {};
  }
  return did_use_transfer(phys.parent, {up, delta.compressed, delta.uncompressed}, delta.used,
                          format::UsedPart::child_rsrv, format::UsedPart::child);
}

Result<void> Dsl::transfer(std::uint64_t object, std::int64_t bytes, format::UsedPart from,
                           format::UsedPart to) {
  ZUSE_TRY(auto phys, directory(object));
  phys.part(from) = add_signed(phys.part(from), -bytes);
  phys.part(to) = add_signed(phys.part(to), bytes);
  put_directory(object, phys);
  return {};
}

Result<void> check_pool_name(std::string_view name) {
  const auto bad = [&](const char* why) {
    return fail(Errc::invalid, "invalid pool name '" + std::string(name) + "': " + why);
  };
  if (name.empty()) {
    return bad("it is empty");
  }
  if (name.size() > 200) {
    return bad("it is longer than 200 characters");
  }
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  if (!letter(name[0])) {
    return bad("it must begin with a letter");
  }
  for (const char c : name) {
    if (!letter(c) && !(c >= '0' && c <= '9') && c != '_' && c != '-' && c != '.' && c != ':' &&
        c != ' ') {
      return bad("only letters, digits, and any of _-.: are allowed");
    }
  }
  for (const std::string_view reserved : {"mirror", "raidz", "draid", "spare", "log"}) {
    if (name.starts_with(reserved)) {
      return bad("the name is reserved");
    }
  }
  return {};
}

}  // namespace zuse::dataset
