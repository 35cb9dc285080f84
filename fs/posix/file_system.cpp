// A mounted file system: the tree of its dataset, and the virtual directory `.zfs/snapshot` with
// the trees of its snapshots, each opened when somebody first looks.
//
//     inode:  | tag, 16 bits | object number, 48 bits |     tag 0: the head; n: the nth snapshot
//
// A tag stays with its snapshot as long as the file system is mounted, so inode numbers never mean
// another file. `.zfs` and `.zfs/snapshot` have the numbers of format page 08 section 12, which no
// object reaches.
#include "fs/posix/file_system.h"

#include <sys/stat.h>

#include <algorithm>
#include <map>

#include "fs/dataset/pool.h"
#include "fs/posix/mounted.h"
#include "fs/posix/tree.h"
#include "vdev/base/log.h"

namespace zuse::posix {
namespace {

constexpr unsigned kTagShift = 48;
constexpr std::size_t kTagsMax = (std::size_t{1} << 16U) - 1;
constexpr Inode kControl = 0xFFFF'FFFF'FFFF;
constexpr Inode kSnapshots = 0xFFFF'FFFF'FFFD;
constexpr const char* kControlName = ".zfs";
constexpr const char* kSnapshotsName = "snapshot";
constexpr std::uint32_t kDirectoryType = S_IFDIR >> 12;

std::size_t tag_of(Inode inode) noexcept {
  return static_cast<std::size_t>(inode >> kTagShift);
}
Inode untagged(Inode inode) noexcept {
  return inode & kObjectNumberMax;
}
Inode tagged(std::size_t tag, Inode inode) noexcept {
  return (Inode{tag} << kTagShift) | inode;
}
bool is_virtual(Inode inode) noexcept {
  return inode == kControl || inode == kSnapshots;
}
std::unexpected<Error> virtual_refusal() {
  return fail(Errc::read_only, "the .zfs directory cannot be changed");
}

class MountedFileSystem final : public FileSystem {
 public:
  MountedFileSystem(std::unique_ptr<Tree> head, const MountOptions& options,
                    SnapshotSource snapshots, Time mounted_at)
      : head_(std::move(head)),
        options_(options),
        snapshots_(std::move(snapshots)),
        mounted_at_(mounted_at) {}

  Result<void> unmount() override {
    std::vector<std::shared_ptr<Tree>> opened;
    {
      const LockGuard lock(mutex_);
      for (Slot& slot : slots_) {
        opened.push_back(std::move(slot.tree));
      }
      slots_.clear();
      tags_.clear();
    }
    opened.clear();
    return head_->unmount();
  }

  Inode root() const override { return head_->root(); }

  Result<Attributes> lookup(Inode parent, std::string_view name) override {
    if (parent == kControl) {
      if (name == "." || name == "..") {
        return name == "." ? virtual_attributes(kControl) : head_->lookup(root(), ".");
      }
      return name == kSnapshotsName ? virtual_attributes(kSnapshots) : not_here();
    }
    if (parent == kSnapshots) {
      if (name == "." || name == "..") {
        return virtual_attributes(name == "." ? kSnapshots : kControl);
      }
      return lookup_snapshot(std::string(name));
    }
    if (parent == head_->root() && name == kControlName && has_control()) {
      return virtual_attributes(kControl);
    }
    ZUSE_TRY(const Place place, find(parent));
    if (place.tag != 0 && place.inode == place.tree->root() && name == "..") {
      return virtual_attributes(kSnapshots);
    }
    return retag(place, place.tree->lookup(place.inode, name));
  }

  void forget(Inode inode, std::uint64_t count) override {
    if (is_virtual(inode)) {
      return;
    }
    if (const auto place = find(inode)) {
      place->tree->forget(place->inode, count);
    }
  }

  Result<Attributes> attributes(Inode inode) override {
    if (is_virtual(inode)) {
      return virtual_attributes(inode);
    }
    ZUSE_TRY(const Place place, find(inode));
    return retag(place, place.tree->attributes(place.inode));
  }

  Result<Attributes> set_attributes(Inode inode, const AttributeChange& change,
                                    const Caller& caller) override {
    if (is_virtual(inode)) {
      return virtual_refusal();
    }
    ZUSE_TRY(const Place place, find(inode));
    return retag(place, place.tree->set_attributes(place.inode, change, caller));
  }

  Result<Attributes> create(Inode parent, std::string_view name, std::uint32_t mode,
                            std::uint32_t rdev_major, std::uint32_t rdev_minor,
                            const Caller& caller) override {
    ZUSE_TRY(const Place place, find_for_new_name(parent, name));
    return place.tree->create(place.inode, name, mode, rdev_major, rdev_minor, caller);
  }
  Result<Attributes> make_directory(Inode parent, std::string_view name, std::uint32_t mode,
                                    const Caller& caller) override {
    ZUSE_TRY(const Place place, find_for_new_name(parent, name));
    return place.tree->make_directory(place.inode, name, mode, caller);
  }
  Result<Attributes> make_symlink(Inode parent, std::string_view name, std::string_view target,
                                  const Caller& caller) override {
    ZUSE_TRY(const Place place, find_for_new_name(parent, name));
    return place.tree->make_symlink(place.inode, name, target, caller);
  }
  Result<Attributes> make_temporary(Inode parent, std::uint32_t mode,
                                    const Caller& caller) override {
    if (is_virtual(parent)) {
      return virtual_refusal();
    }
    ZUSE_TRY(const Place place, find(parent));
    return retag(place, place.tree->make_temporary(place.inode, mode, caller));
  }

  Result<std::string> read_symlink(Inode inode) override {
    if (is_virtual(inode)) {
      return fail(Errc::invalid, "it is not a symbolic link");
    }
    ZUSE_TRY(const Place place, find(inode));
    return place.tree->read_symlink(place.inode);
  }

  Result<Attributes> link(Inode inode, Inode parent, std::string_view name) override {
    if (is_virtual(inode)) {
      return virtual_refusal();
    }
    ZUSE_TRY(const Place place, find_for_new_name(parent, name));
    if (tag_of(inode) != place.tag) {
      return fail(Errc::cross_device);
    }
    return retag(place, place.tree->link(untagged(inode), place.inode, name));
  }

  Result<void> unlink(Inode parent, std::string_view name, const Caller& caller) override {
    ZUSE_TRY(const Place place, find_for_old_name(parent, name));
    return place.tree->unlink(place.inode, name, caller);
  }
  Result<void> remove_directory(Inode parent, std::string_view name,
                                const Caller& caller) override {
    ZUSE_TRY(const Place place, find_for_old_name(parent, name));
    return place.tree->remove_directory(place.inode, name, caller);
  }
  Result<void> rename(Inode old_parent, std::string_view old_name, Inode new_parent,
                      std::string_view new_name, unsigned flags, const Caller& caller) override {
    ZUSE_TRY(const Place from, find_for_old_name(old_parent, old_name));
    ZUSE_TRY(const Place to, find_for_old_name(new_parent, new_name));
    if (from.tag != to.tag) {
      return fail(Errc::cross_device);
    }
    return from.tree->rename(from.inode, old_name, to.inode, new_name, flags, caller);
  }

  Result<std::vector<object::Piece>> read(Inode inode, std::uint64_t offset,
                                          std::uint64_t length) override {
    if (is_virtual(inode)) {
      return fail(Errc::is_directory);
    }
    ZUSE_TRY(const Place place, find(inode));
    return place.tree->read(place.inode, offset, length);
  }
  Result<void> write(Inode inode, std::uint64_t offset, std::span<const std::byte> from,
                     const Caller& caller) override {
    if (is_virtual(inode)) {
      return fail(Errc::is_directory);
    }
    ZUSE_TRY(const Place place, find(inode));
    return place.tree->write(place.inode, offset, from, caller);
  }
  Result<void> allocate(Inode inode, int mode, std::uint64_t offset, std::uint64_t length,
                        const Caller& caller) override {
    if (is_virtual(inode)) {
      return fail(Errc::is_directory);
    }
    ZUSE_TRY(const Place place, find(inode));
    return place.tree->allocate(place.inode, mode, offset, length, caller);
  }
  Result<std::uint64_t> seek_data(Inode inode, std::uint64_t offset) override {
    if (is_virtual(inode)) {
      return fail(Errc::is_directory);
    }
    ZUSE_TRY(const Place place, find(inode));
    return place.tree->seek_data(place.inode, offset);
  }
  Result<std::uint64_t> seek_hole(Inode inode, std::uint64_t offset) override {
    if (is_virtual(inode)) {
      return fail(Errc::is_directory);
    }
    ZUSE_TRY(const Place place, find(inode));
    return place.tree->seek_hole(place.inode, offset);
  }
  Result<void> fsync(Inode inode) override {
    if (is_virtual(inode)) {
      return {};
    }
    ZUSE_TRY(const Place place, find(inode));
    return place.tree->fsync(place.inode);
  }

  Result<std::vector<DirectoryEntry>> read_directory(Inode inode, std::uint64_t offset,
                                                     std::size_t limit) override {
    if (inode == kControl) {
      return cut(
          {
              {".", kControl, kDirectoryType, 1},
              {"..", root(), kDirectoryType, 2},
              {kSnapshotsName, kSnapshots, kDirectoryType, 3},
          },
          offset, limit);
    }
    if (inode == kSnapshots) {
      return read_snapshots(offset, limit);
    }
    ZUSE_TRY(const Place place, find(inode));
    const bool shows_control =
        inode == head_->root() && options_.snapshots_visible && has_control();
    constexpr std::uint64_t kAfterParent = 2, kAfterControl = 3;
    std::vector<DirectoryEntry> entries;
    if (shows_control && offset <= kAfterParent) {
      // "." and ".." by themselves, so that .zfs comes right behind them.
      if (offset < kAfterParent) {
        ZUSE_TRY(entries,
                 place.tree->read_directory(place.inode, offset,
                                            std::min<std::size_t>(limit, kAfterParent - offset)));
      }
      if (entries.size() < limit) {
        entries.push_back({kControlName, kControl, kDirectoryType, kAfterControl});
        offset = kAfterControl;
      }
      if (entries.size() >= limit) {
        return entries;
      }
    }
    ZUSE_TRY(std::vector<DirectoryEntry> rest,
             place.tree->read_directory(place.inode, offset, limit - entries.size()));
    for (DirectoryEntry& entry : rest) {
      entry.inode = tagged(place.tag, entry.inode);
      if (place.tag != 0 && place.inode == place.tree->root() && entry.name == "..") {
        entry.inode = kSnapshots;
      }
      entries.push_back(std::move(entry));
    }
    return entries;
  }

  Result<std::vector<std::byte>> get_xattr(Inode inode, const std::string& name) override {
    if (is_virtual(inode)) {
      return fail(Errc::no_data);
    }
    ZUSE_TRY(const Place place, find(inode));
    return place.tree->get_xattr(place.inode, name);
  }
  Result<void> set_xattr(Inode inode, const std::string& name, std::span<const std::byte> value,
                         XattrMode mode) override {
    if (is_virtual(inode)) {
      return virtual_refusal();
    }
    ZUSE_TRY(const Place place, find(inode));
    return place.tree->set_xattr(place.inode, name, value, mode);
  }
  Result<std::vector<std::string>> list_xattrs(Inode inode) override {
    if (is_virtual(inode)) {
      return std::vector<std::string>{};
    }
    ZUSE_TRY(const Place place, find(inode));
    return place.tree->list_xattrs(place.inode);
  }
  Result<void> remove_xattr(Inode inode, const std::string& name) override {
    if (is_virtual(inode)) {
      return virtual_refusal();
    }
    ZUSE_TRY(const Place place, find(inode));
    return place.tree->remove_xattr(place.inode, name);
  }

  Result<Statistics> statistics() override { return head_->statistics(); }
  std::vector<Inode> held() override { return head_->held(); }
  Result<std::string> path_of(std::uint64_t object) override { return head_->path_of(object); }

 private:
  struct Place {
    std::shared_ptr<Tree> keep;  // snapshots only
    Tree* tree = nullptr;
    std::size_t tag = 0;
    Inode inode = 0;  // within the tree
  };
  struct Slot {
    std::string name;
    std::shared_ptr<Tree> tree;
  };

  static Result<Attributes> not_here() { return fail(Errc::not_found); }
  bool has_control() const { return static_cast<bool>(snapshots_.list); }

  Result<Place> find(Inode inode) {
    const std::size_t tag = tag_of(inode);
    if (tag == 0) {
      return Place{nullptr, head_.get(), 0, inode};
    }
    const LockGuard lock(mutex_);
    if (tag > slots_.size()) {
      return fail(Errc::stale, "no snapshot has this inode number");
    }
    const Slot& slot = slots_[tag - 1];
    return Place{slot.tree, slot.tree.get(), tag, untagged(inode)};
  }
  Result<Place> find_for_new_name(Inode parent, std::string_view name) {
    if (is_virtual(parent)) {
      return virtual_refusal();
    }
    if (parent == head_->root() && name == kControlName && has_control()) {
      return fail(Errc::exists, "the name .zfs is taken");
    }
    return find(parent);
  }
  Result<Place> find_for_old_name(Inode parent, std::string_view name) {
    if (is_virtual(parent) || (parent == head_->root() && name == kControlName && has_control())) {
      return virtual_refusal();
    }
    return find(parent);
  }
  static Result<Attributes> retag(const Place& place, Result<Attributes> attributes) {
    if (attributes) {
      attributes->inode = tagged(place.tag, attributes->inode);
    }
    return attributes;
  }

  Result<Attributes> virtual_attributes(Inode inode) const {
    Attributes attributes;
    attributes.inode = inode;
    attributes.generation = 1;
    attributes.mode = S_IFDIR | 0555U;
    attributes.links = 2;
    attributes.size = 2;
    attributes.block_size = 512;
    attributes.atime = attributes.mtime = attributes.ctime = attributes.birth = mounted_at_;
    return attributes;
  }

  Result<Attributes> lookup_snapshot(const std::string& name) {
    std::shared_ptr<Tree> tree;
    std::size_t tag = 0;
    {
      const LockGuard lock(mutex_);
      if (const auto known = tags_.find(name); known != tags_.end()) {
        tag = known->second;
        tree = slots_[tag - 1].tree;
      }
    }
    ZUSE_TRY(const std::vector<std::string> names, snapshots_.list());
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      return fail(Errc::not_found);
    }
    if (tree == nullptr) {
      ZUSE_TRY(std::shared_ptr<dataset::Dataset> dataset, snapshots_.open(name));
      MountOptions options = options_;
      options.read_only = true;
      ZUSE_TRY(std::unique_ptr<Tree> opened, Tree::mount(std::move(dataset), options));
      const LockGuard lock(mutex_);
      if (const auto known = tags_.find(name); known != tags_.end()) {
        tag = known->second;  // somebody else was faster
        tree = slots_[tag - 1].tree;
      } else {
        if (slots_.size() >= kTagsMax) {
          return fail(Errc::busy, "too many snapshots have been looked at since the mount");
        }
        tree = std::move(opened);
        slots_.push_back({name, tree});
        tag = slots_.size();
        tags_[name] = tag;
      }
    }
    const Place place{tree, tree.get(), tag, tree->root()};
    return retag(place, tree->lookup(tree->root(), "."));
  }

  Result<std::vector<DirectoryEntry>> read_snapshots(std::uint64_t offset, std::size_t limit) {
    std::vector<DirectoryEntry> entries{{".", kSnapshots, kDirectoryType, 1},
                                        {"..", kControl, kDirectoryType, 2}};
    ZUSE_TRY(std::vector<std::string> names, snapshots_.list());
    std::sort(names.begin(), names.end());
    const LockGuard lock(mutex_);
    for (std::string& name : names) {
      const auto known = tags_.find(name);
      // A snapshot that nobody has opened has no number yet; any that is not 0 will do.
      const Inode inode = known == tags_.end()
                              ? kSnapshots
                              : tagged(known->second, slots_[known->second - 1].tree->root());
      entries.push_back({std::move(name), inode, kDirectoryType, entries.size() + 1});
    }
    return cut(std::move(entries), offset, limit);
  }

  // The part of a short listing from the `offset`th entry on.
  static std::vector<DirectoryEntry> cut(std::vector<DirectoryEntry> entries, std::uint64_t offset,
                                         std::size_t limit) {
    const std::size_t first =
        static_cast<std::size_t>(std::min<std::uint64_t>(offset, entries.size()));
    entries.erase(entries.begin(), entries.begin() + static_cast<std::ptrdiff_t>(first));
    if (entries.size() > limit) {
      entries.resize(limit);
    }
    return entries;
  }

  const std::unique_ptr<Tree> head_;
  const MountOptions options_;
  const SnapshotSource snapshots_;
  const Time mounted_at_;
  Mutex mutex_{LockRank::leaf};
  std::vector<Slot> slots_ ZUSE_GUARDED_BY(mutex_);  // a tag's is at tag - 1
  std::map<std::string, std::size_t> tags_ ZUSE_GUARDED_BY(mutex_);
};

}  // namespace

Result<std::unique_ptr<FileSystem>> mount_with_snapshots(std::shared_ptr<dataset::Dataset> dataset,
                                                         const MountOptions& options,
                                                         SnapshotSource snapshots) {
  ZUSE_TRY(std::unique_ptr<Tree> head, Tree::mount(std::move(dataset), options));
  ZUSE_TRY(const Attributes root, head->attributes(head->root()));
  return std::make_unique<MountedFileSystem>(std::move(head), options, std::move(snapshots),
                                             root.ctime);
}

Result<std::unique_ptr<FileSystem>> FileSystem::mount(std::shared_ptr<dataset::Dataset> dataset,
                                                      const MountOptions& options) {
  SnapshotSource snapshots;
  if (!dataset->is_snapshot()) {
    dataset::Pool& pool = dataset->pool();
    const std::string name = dataset->name();
    snapshots.list = [&pool, name]() -> Result<std::vector<std::string>> {
      ZUSE_TRY(std::vector<std::string> names, pool.snapshots(name));
      for (std::string& each : names) {  // with or without the dataset's name before it
        each = each.substr(each.find('@') == std::string::npos ? 0 : each.find('@') + 1);
      }
      return names;
    };
    snapshots.open = [&pool, name](const std::string& snapshot) {
      return pool.open_dataset(name + "@" + snapshot);
    };
  }
  return mount_with_snapshots(std::move(dataset), options, std::move(snapshots));
}

}  // namespace zuse::posix
