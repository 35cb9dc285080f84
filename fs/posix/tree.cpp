// Mounting one dataset, and its objects' attributes.
#include "fs/posix/tree.h"

#include <sys/stat.h>
#include <time.h>

#include <algorithm>

#include "fs/object/zap.h"
#include "fs/posix/format.h"
#include "fs/posix/tree_internal.h"
#include "vdev/base/log.h"
#include "vdev/base/units.h"

namespace zuse::posix {
namespace {

spdlog::logger& log() {
  static auto& logger = layer_log("posix");
  return logger;
}

Time system_time() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return {now.tv_sec, static_cast<std::uint32_t>(now.tv_nsec)};
}

constexpr std::uint32_t kNobody = 65534;
constexpr std::int64_t kRelatimeSeconds = 24 * 60 * 60;

// Identities of foreign domains have no number here.
std::uint32_t shown_id(std::uint64_t fuid) noexcept {
  return fuid >> 32U != 0 ? kNobody : static_cast<std::uint32_t>(fuid);
}

Result<std::uint64_t> lookup_or(const object::Zap& zap, const char* name, std::uint64_t otherwise) {
  auto value = zap.lookup(name);
  if (!value && value.error().code() == Errc::not_found) {
    return otherwise;
  }
  return value;
}

Result<std::uint64_t> lookup_required(const object::Zap& zap, const char* name) {
  auto value = zap.lookup(name);
  if (!value && value.error().code() == Errc::not_found) {
    return fail(Errc::corrupt, std::string("the master node has no ") + name);
  }
  return value;
}

}  // namespace

Tree::Tree(std::shared_ptr<dataset::Dataset> dataset, const MountOptions& options)
    : dataset_(std::move(dataset)),
      objset_(dataset_->objset()),
      options_(options),
      clock_(options.clock ? options.clock : system_time),
      read_only_(options.read_only || dataset_->read_only() || objset_.read_only()) {}

Result<std::unique_ptr<Tree>> Tree::mount(std::shared_ptr<dataset::Dataset> dataset,
                                          const MountOptions& options) {
  std::unique_ptr<Tree> tree(new Tree(std::move(dataset), options));
  if (auto read = tree->read_master(); !read) {
    return std::unexpected(std::move(read).error().within("mounting " + tree->dataset_->name()));
  }
  if (!tree->read_only_) {
    if (auto drained = tree->drain_unlinked(); !drained) {
      return std::unexpected(
          std::move(drained).error().within("freeing unlinked files of " + tree->dataset_->name()));
    }
  }
  log().info("mounted dataset={} read_only={} objects={}", tree->dataset_->name(), tree->read_only_,
             tree->objset_.object_count());
  return tree;
}

Result<void> Tree::read_master() {
  if (objset_.type() != format::ObjsetType::zfs) {
    return fail(Errc::unsupported, "it is not a file system");
  }
  ZUSE_TRY(const object::Zap master, object::Zap::open(objset_, kMasterNode));
  ZUSE_TRY(const std::uint64_t version, lookup_or(master, "VERSION", kZplVersion));
  if (version == 0 || version > kZplVersion) {
    return fail(Errc::unsupported, "file system version " + std::to_string(version));
  }
  ZUSE_TRY(root_, lookup_required(master, "ROOT"));
  ZUSE_TRY(const std::uint64_t unlinked, lookup_required(master, "DELETE_QUEUE"));
  ZUSE_TRY(object::Zap unlinked_set, object::Zap::open(objset_, unlinked));
  unlinked_set_.emplace(std::move(unlinked_set));
  ZUSE_TRY(const std::uint64_t normalization, lookup_or(master, "normalization", 0));
  ZUSE_TRY(const std::uint64_t utf8_only, lookup_or(master, "utf8only", 0));
  ZUSE_TRY(const std::uint64_t case_sensitivity, lookup_or(master, "casesensitivity", 0));
  constexpr std::uint64_t kFoldCase = 0x2;
  rules_.normalization = normalization | (case_sensitivity != 0 ? kFoldCase : 0);
  rules_.utf8_only = utf8_only != 0 || normalization != 0;
  if (version == kZplVersion) {
    ZUSE_TRY(const std::uint64_t sa_master, lookup_required(master, "SA_ATTRS"));
    ZUSE_TRY(registry_, SaRegistry::open(objset_, sa_master));
  } else {
    registry_ = SaRegistry::legacy();
  }
  if (!read_only_ && version < kZplVersion) {
    log().warn("mounted_read_only dataset={} why=\"file system version {} is older than 5\"",
               dataset_->name(), version);
    read_only_ = true;
  }
  if (!read_only_ && rules_.exact_only()) {
    log().warn("mounted_read_only dataset={} why=\"its names are folded or normalised\"",
               dataset_->name());
    read_only_ = true;
  }
  const dataset::PropertySet& properties = dataset_->properties();
  const auto number = [&](const char* name, std::uint64_t otherwise) {
    const dataset::PropertyValue* const value = properties.find(name);
    return value == nullptr ? otherwise : value->number;
  };
  update_atime_ = options_.atime && !read_only_ && number("atime", 1) != 0;
  relatime_ = number("relatime", 1) != 0;
  xattr_property_ = number("xattr", 2);
  dnode_size_ = number("dnodesize", 0);
  znodes_ = std::make_unique<ZnodeTable>(objset_, *registry_, options_.znodes_idle_max);
  ZUSE_TRY(const ZnodeRef root, znodes_->get(root_));
  if (!root->is_directory()) {
    return fail(Errc::corrupt, "its root is not a directory");
  }
  znodes_->add_lookup(*root);  // kept for as long as the file system is mounted
  return {};
}

Result<void> Tree::check_writable() const {
  return read_only_ ? fail(Errc::read_only, dataset_->name() + " is read-only") : Result<void>{};
}

Result<object::Tx> Tree::begin(std::uint64_t bytes, bool frees) {
  ZUSE_TRY_VOID(check_writable());
  return dataset_->begin(bytes, frees);
}

Result<ZnodeRef> Tree::get_directory(Inode inode) {
  ZUSE_TRY(ZnodeRef znode, get(inode));
  if (!znode->is_directory()) {
    return fail(Errc::not_directory);
  }
  return znode;
}

Result<ZnodeRef> Tree::get_file(Inode inode) {
  ZUSE_TRY(ZnodeRef znode, get(inode));
  if (znode->is_directory()) {
    return fail(Errc::is_directory);
  }
  if (!znode->is_regular()) {
    return fail(Errc::invalid, "it is not a regular file");
  }
  return znode;
}

Attributes Tree::describe_locked(Znode& znode) const {
  ZnodeFields& fields = znode.fields;
  Attributes attributes;
  attributes.inode = znode.object;
  attributes.generation = fields.gen & 0xFFFF'FFFFU;
  attributes.mode = static_cast<std::uint32_t>(fields.mode);
  attributes.links = fields.links;
  attributes.uid = shown_id(fields.uid);
  attributes.gid = shown_id(fields.gid);
  if (S_ISBLK(fields.mode) || S_ISCHR(fields.mode)) {
    const Device device = decode_device(fields.rdev);
    attributes.rdev_major = device.major;
    attributes.rdev_minor = device.minor;
  }
  attributes.size = fields.size;
  attributes.blocks = ((znode.dnode->used_bytes() + 256) >> 9U) + znode.dnode->slots();
  attributes.block_size = znode.dnode->block_size();
  attributes.atime = fields.atime;
  attributes.mtime = fields.mtime;
  attributes.ctime = fields.ctime;
  attributes.birth = fields.crtime;
  return attributes;
}

Attributes Tree::describe(Znode& znode) const {
  const LockGuard lock(znode.mutex);
  return describe_locked(znode);
}

Result<Attributes> Tree::lookup(Inode parent, std::string_view name) {
  ZUSE_TRY_VOID(check_name(name));
  ZUSE_TRY(const ZnodeRef directory, get_directory(parent));
  const SharedGuard names(directory->names);
  std::uint64_t object = directory->object;
  if (name == "..") {
    const LockGuard lock(directory->mutex);
    object = directory->fields.parent;
  } else if (name != ".") {
    ZUSE_TRY(const Entry entry, find_entry(*directory, name, rules_));
    object = entry.object;
  }
  auto znode = get(object);
  if (!znode) {
    return std::unexpected(std::move(znode).error().within("looking up a name"));
  }
  znodes_->add_lookup(**znode);
  return describe(**znode);
}

void Tree::forget(Inode inode, std::uint64_t count) {
  if (inode == root_) {
    return;
  }
  znodes_->forget(inode, count);
  reap_if_dead(inode);
}

Result<Attributes> Tree::attributes(Inode inode) {
  ZUSE_TRY(const ZnodeRef znode, get(inode));
  return describe(*znode);
}

Result<Attributes> Tree::set_attributes(Inode inode, const AttributeChange& change,
                                        const Caller& caller) {
  ZUSE_TRY_VOID(check_writable());
  ZUSE_TRY(const ZnodeRef znode, get(inode));
  {
    const LockGuard lock(znode->mutex);
    if ((znode->fields.flags & kFlagImmutable) != 0) {
      return fail(Errc::not_permitted, "the file is immutable");
    }
  }
  if (change.size) {
    if (znode->is_directory()) {
      return fail(Errc::is_directory);
    }
    if (!znode->is_regular()) {
      return fail(Errc::invalid, "only regular files have a length to set");
    }
    ZUSE_TRY_VOID(truncate(*znode, *change.size));
  }
  ZUSE_TRY(object::Tx tx, begin(kMetadataBytes, change.size.has_value()));
  const LockGuard lock(znode->mutex);
  ZnodeFields& fields = znode->fields;
  std::uint64_t mode = change.mode ? (fields.mode & S_IFMT) | (*change.mode & 07777U) : fields.mode;
  const bool new_owner = (change.uid && *change.uid != shown_id(fields.uid)) ||
                         (change.gid && *change.gid != shown_id(fields.gid));
  if ((change.uid || change.gid || change.size) && caller.clears_set_id && !change.mode) {
    mode = without_set_id(mode);
  }
  if (new_owner) {
    fields.uid = change.uid.value_or(static_cast<std::uint32_t>(fields.uid)) |
                 (change.uid ? 0 : fields.uid & ~std::uint64_t{0xFFFF'FFFF});
    fields.gid = change.gid.value_or(static_cast<std::uint32_t>(fields.gid)) |
                 (change.gid ? 0 : fields.gid & ~std::uint64_t{0xFFFF'FFFF});
  }
  if (mode != fields.mode) {
    fields.mode = mode;
    ZUSE_TRY_VOID(znode->put_acl_locked(*registry_, tx));
  }
  const Time when = now();
  fields.atime = change.atime.value_or(fields.atime);
  fields.mtime = change.mtime.value_or(fields.mtime);
  fields.ctime = change.ctime.value_or(when);
  if (change.mode || change.uid || change.gid || change.size) {
    fields.flags |= kFlagArchive;
  }
  ZUSE_TRY_VOID(znode->save_locked(*registry_, tx));
  return describe_locked(*znode);
}

// The access time, where the rules ask for it: with relatime, when the file has changed since or a
// day has passed. A failure is no reason to fail the read.
void Tree::note_access(Znode& znode) {
  if (!update_atime_) {
    return;
  }
  const Time when = now();
  {
    const LockGuard lock(znode.mutex);
    ZnodeFields& fields = znode.fields;
    if (fields.atime == when ||
        (relatime_ && fields.atime > fields.mtime && fields.atime > fields.ctime &&
         when.seconds - fields.atime.seconds < kRelatimeSeconds)) {
      return;
    }
  }
  auto tx = begin(kMetadataBytes);
  if (!tx) {
    return;
  }
  const LockGuard lock(znode.mutex);
  if (znode.fields.links == 0) {
    return;
  }
  znode.fields.atime = when;
  if (auto saved = znode.save_locked(*registry_, *tx); !saved) {
    log().debug("atime_not_saved object={} why={}", znode.object, saved.error().what());
  }
}

Result<std::string> Tree::read_symlink(Inode inode) {
  ZUSE_TRY(const ZnodeRef znode, get(inode));
  if (!S_ISLNK(znode->type())) {
    return fail(Errc::invalid, "it is not a symbolic link");
  }
  const LockGuard lock(znode->mutex);
  const auto target = znode->value_locked(*registry_, Attr::symlink);
  if (!target) {
    return fail(Errc::corrupt, "object " + std::to_string(inode) + ": symbolic link has no target");
  }
  std::string text(target->size(), '\0');
  std::transform(target->begin(), target->end(), text.begin(),
                 [](std::byte byte) { return static_cast<char>(byte); });
  return text;
}

Result<std::vector<DirectoryEntry>> Tree::read_directory(Inode inode, std::uint64_t offset,
                                                         std::size_t limit) {
  ZUSE_TRY(const ZnodeRef directory, get_directory(inode));
  constexpr std::uint64_t kAfterSelf = 1, kAfterParent = 2, kZapStart = 3;
  constexpr std::uint32_t kDirectoryType = S_IFDIR >> 12;
  std::vector<DirectoryEntry> entries;
  if (offset == 0 && entries.size() < limit) {
    entries.push_back({".", directory->object, kDirectoryType, kAfterSelf});
    offset = kAfterSelf;
  }
  if (offset == kAfterSelf && entries.size() < limit) {
    std::uint64_t parent = 0;
    {
      const LockGuard lock(directory->mutex);
      parent = directory->fields.parent;
    }
    entries.push_back({"..", parent, kDirectoryType, kAfterParent});
    offset = kAfterParent;
  }
  if (offset == object::kZapCursorEnd || entries.size() >= limit) {
    return entries;
  }
  const object::Zap zap(directory->dnode);
  ZUSE_TRY(const std::vector<object::ZapEntry> page,
           zap.page(offset <= kZapStart ? 0 : offset, limit - entries.size()));
  for (const object::ZapEntry& each : page) {
    if (each.value.integer_size != 8 || each.value.integers.empty()) {
      return fail(Errc::corrupt,
                  "directory " + std::to_string(inode) + " has an entry that is no number");
    }
    Entry entry = decode_entry(each.value.integers[0]);
    if (entry.type == 0) {  // file system version 1 does not record it
      if (const auto znode = get(entry.object)) {
        entry.type = (*znode)->type() >> 12U;
      }
    }
    entries.push_back({each.name, entry.object, entry.type, each.cursor});
  }
  if (offset <= kZapStart) {
    note_access(*directory);
  }
  return entries;
}

Result<std::string> Tree::path_of(std::uint64_t object) {
  constexpr unsigned kDepthMax = 4096;
  std::string path;
  for (unsigned depth = 0; object != root(); ++depth) {
    ZUSE_TRY(const ZnodeRef znode, get(object));
    std::uint64_t parent = 0;
    {
      const LockGuard lock(znode->mutex);
      parent = znode->fields.parent;
    }
    ZUSE_TRY(const ZnodeRef directory, get(parent));
    if (depth == kDepthMax || !directory->is_directory()) {
      return fail(Errc::not_found, "object " + std::to_string(object) + " has no path");
    }
    std::string name;
    ZUSE_TRY_VOID(
        object::Zap(directory->dnode).for_each([&](const object::ZapEntry& entry) -> Result<void> {
          constexpr unsigned kObjectBits = 48;
          if (!entry.value.integers.empty() &&
              bits(entry.value.integers[0], 0, kObjectBits) == object) {
            name = entry.name;
          }
          return {};
        }));
    if (name.empty()) {
      return fail(Errc::not_found, "object " + std::to_string(object) + " has no name");
    }
    path = "/" + name + path;
    object = parent;
  }
  return path.empty() ? std::string("/") : path;
}

Result<Statistics> Tree::statistics() {
  const dataset::Space space = dataset_->space();
  const std::uint64_t block = std::max<std::uint64_t>(objset_.policy().record_size, 512);
  Statistics statistics;
  statistics.block_size = block;
  statistics.available = statistics.free = space.available / block;
  statistics.blocks = div_ceil(space.referenced, block) + statistics.available;
  const std::uint64_t used = objset_.object_count();
  statistics.files_free =
      std::min(kObjectNumberMax + 1 - std::min(used, kObjectNumberMax), space.available >> 9U);
  statistics.files = statistics.files_free + used;
  statistics.fsid = dataset_->fsid();
  statistics.name_max = kNameMax;
  return statistics;
}

Result<void> Tree::unmount() {
  if (read_only_) {
    return {};
  }
  while (const ZnodeRef znode = znodes_->claim_any_unlinked()) {
    if (auto freed = reap(*znode); !freed) {  // it stays in the unlinked set for the next mount
      log().warn("unlinked_not_freed dataset={} object={} why={}", dataset_->name(), znode->object,
                 freed.error().what());
    }
  }
  return {};
}

}  // namespace zuse::posix
