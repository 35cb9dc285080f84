// Creating, linking and removing names. What each changes goes into one transaction: the entry, the
// object, the directory's attributes and the unlinked set. Steps that may fail for want of space or
// a bad block come before those that others could see.
#include <sys/stat.h>

#include <algorithm>

#include "fs/object/zap.h"
#include "fs/posix/acl.h"
#include "fs/posix/tree.h"
#include "fs/posix/tree_internal.h"

namespace zuse::posix {
namespace {

constexpr std::size_t kSymlinkMax = 4095;
constexpr std::uint64_t kLinksMax = UINT32_MAX;

}  // namespace

Result<ZnodeRef> Tree::allocate_znode(object::Tx& tx, Znode& parent, const NewNode& node,
                                      std::uint64_t uid, std::uint64_t gid, std::uint64_t links) {
  const bool directory = S_ISDIR(node.mode);
  const object::ObjsetPolicy policy = objset_.policy();
  ZnodeFields fields;
  std::uint64_t parent_flags = 0;
  {
    const LockGuard lock(parent.mutex);
    parent_flags = parent.fields.flags;
    fields.project = parent.fields.project;
  }
  fields.mode = node.mode;
  fields.size = directory ? 2 : node.symlink.size();
  fields.gen = tx.txg();
  fields.uid = uid;
  fields.gid = gid;
  fields.parent = parent.object;
  fields.links = links;
  fields.rdev = node.rdev;
  fields.atime = fields.mtime = fields.ctime = fields.crtime = now();
  fields.flags =
      kFlagArchive | kFlagAvModified | kFlagAclTrivial | (directory ? kFlagAclAutoInherit : 0) |
      (everyone_executes(node.mode) ? kFlagNoExecsDenied : 0) | (node.xattr ? kFlagXattr : 0);
  if (policy.project_accounting) {
    const bool inherits = (parent_flags & kFlagProjectInherit) != 0;
    fields.flags |= kFlagProject;
    if (inherits && (directory || S_ISREG(node.mode))) {
      fields.flags |= kFlagProjectInherit;
    }
    fields.project = inherits ? fields.project.value_or(0) : 0;
  } else {
    fields.project.reset();
  }
  object::NewObject spec;
  spec.type = directory ? format::ObjectType::directory : format::ObjectType::plain_file;
  spec.bonus_type = format::ObjectType::sa;
  if (policy.large_dnode && dnode_size_ != 0) {
    constexpr std::uint64_t kAutomatic = 1, kAutomaticBytes = 1024, kSlot = 512, kSlotsMax = 32;
    const std::uint64_t bytes = dnode_size_ == kAutomatic ? kAutomaticBytes : dnode_size_;
    spec.slots = static_cast<unsigned>(std::clamp<std::uint64_t>(bytes / kSlot, 1, kSlotsMax));
  }
  object::DnodeRef dnode;
  if (directory) {
    ZUSE_TRY(const object::Zap zap, object::Zap::create(objset_, tx, spec, rules_.normalization));
    dnode = zap.dnode();
  } else {
    ZUSE_TRY(dnode, objset_.allocate(tx, spec));
  }
  auto znode = Znode::create(*registry_, tx, dnode, fields, node.symlink);
  if (!znode) {
    (void)objset_.free_object(tx, dnode->object());
  }
  return znode;
}

Result<void> Tree::touch_directory(object::Tx& tx, Znode& directory, int entries,
                                   int subdirectories, const Time& when) {
  const LockGuard lock(directory.mutex);
  ZnodeFields& fields = directory.fields;
  fields.size += static_cast<std::uint64_t>(std::int64_t{entries});
  fields.links += static_cast<std::uint64_t>(std::int64_t{subdirectories});
  fields.mtime = fields.ctime = when;
  return directory.save_locked(*registry_, tx);
}

// One link less, or for a directory all of them. The last one puts the object into the unlinked
// set, in this transaction.
Result<void> Tree::drop_link(object::Tx& tx, Znode& znode, std::uint64_t links, const Time& when) {
  const LockGuard lock(znode.mutex);
  ZnodeFields& fields = znode.fields;
  fields.links -= std::min(fields.links, links);
  fields.ctime = when;
  if (fields.links == 0) {
    ZUSE_TRY_VOID(unlinked_set_->update(tx, object::Zap::hex_key(znode.object), znode.object));
  }
  return znode.save_locked(*registry_, tx);
}

Result<void> Tree::check_removable(Znode& directory, Znode& znode) const {
  {
    const LockGuard lock(directory.mutex);
    if ((directory.fields.flags & (kFlagImmutable | kFlagAppendOnly)) != 0) {
      return fail(Errc::not_permitted, "the directory is immutable");
    }
  }
  const LockGuard lock(znode.mutex);
  if ((znode.fields.flags & (kFlagImmutable | kFlagAppendOnly | kFlagNoUnlink)) != 0) {
    return fail(Errc::not_permitted, "the file is immutable");
  }
  return {};
}

Result<Attributes> Tree::make(Inode parent, std::string_view name, const NewNode& node,
                              const Caller& caller) {
  ZUSE_TRY_VOID(check_writable());
  ZUSE_TRY_VOID(check_new_name(name, rules_));
  ZUSE_TRY(const ZnodeRef directory, get_directory(parent));
  const ExclusiveGuard names(directory->names);
  NewNode made = node;
  std::uint64_t gid = caller.gid;
  {
    const LockGuard lock(directory->mutex);
    ZnodeFields& fields = directory->fields;
    if (fields.links == 0) {
      return fail(Errc::not_found, "the directory has been removed");
    }
    if ((fields.flags & kFlagImmutable) != 0) {
      return fail(Errc::not_permitted, "the directory is immutable");
    }
    if (S_ISDIR(made.mode) && fields.links >= kLinksMax) {
      return fail(Errc::too_many_links);
    }
    if ((fields.mode & S_ISGID) != 0) {
      gid = fields.gid;
      made.mode |= S_ISDIR(made.mode) ? S_ISGID : 0;
    }
  }
  object::Zap zap(directory->dnode);
  ZUSE_TRY(const bool taken, zap.contains(name));
  if (taken) {
    return fail(Errc::exists);
  }
  const bool is_directory = S_ISDIR(made.mode);
  ZUSE_TRY(object::Tx tx, begin(kMetadataBytes));
  ZUSE_TRY(const ZnodeRef znode,
           allocate_znode(tx, *directory, made, caller.uid, gid, is_directory ? 2 : 1));
  if (auto added = zap.add(tx, name, encode_entry(znode->object, made.mode)); !added) {
    (void)objset_.free_object(tx, znode->object);
    return std::unexpected(std::move(added).error());
  }
  znodes_->insert(znode);
  znodes_->add_lookup(*znode);
  ZUSE_TRY_VOID(touch_directory(tx, *directory, 1, is_directory ? 1 : 0, now()));
  return describe(*znode);
}

Result<Attributes> Tree::create(Inode parent, std::string_view name, std::uint32_t mode,
                                std::uint32_t rdev_major, std::uint32_t rdev_minor,
                                const Caller& caller) {
  NewNode node;
  node.mode = mode & ~(caller.umask & 0777U);
  node.mode |= (mode & S_IFMT) == 0 ? S_IFREG : 0U;
  switch (node.mode & S_IFMT) {
    case S_IFREG:
    case S_IFIFO:
    case S_IFSOCK: break;
    case S_IFCHR:
    case S_IFBLK: node.rdev = encode_device(rdev_major, rdev_minor); break;
    default: return fail(Errc::invalid, "this type of file is made by another call");
  }
  return make(parent, name, node, caller);
}

Result<Attributes> Tree::make_directory(Inode parent, std::string_view name, std::uint32_t mode,
                                        const Caller& caller) {
  NewNode node;
  node.mode = S_IFDIR | (mode & 07777U & ~(caller.umask & 0777U));
  return make(parent, name, node, caller);
}

Result<Attributes> Tree::make_symlink(Inode parent, std::string_view name, std::string_view target,
                                      const Caller& caller) {
  if (target.empty() || target.find('\0') != std::string_view::npos) {
    return fail(Errc::invalid, "a symbolic link must point somewhere");
  }
  if (target.size() > kSymlinkMax) {
    return fail(Errc::name_too_long, "a symbolic link has at most 4095 bytes");
  }
  NewNode node;
  node.mode = S_IFLNK | 0777U;
  node.symlink = target;
  return make(parent, name, node, caller);
}

Result<Attributes> Tree::make_temporary(Inode parent, std::uint32_t mode, const Caller& caller) {
  ZUSE_TRY_VOID(check_writable());
  ZUSE_TRY(const ZnodeRef directory, get_directory(parent));
  NewNode node;
  node.mode = S_IFREG | (mode & 07777U & ~(caller.umask & 0777U));
  std::uint64_t gid = caller.gid;
  {
    const LockGuard lock(directory->mutex);
    if (directory->fields.links == 0) {
      return fail(Errc::not_found, "the directory has been removed");
    }
    gid = (directory->fields.mode & S_ISGID) != 0 ? directory->fields.gid : gid;
  }
  ZUSE_TRY(object::Tx tx, begin(kMetadataBytes));
  ZUSE_TRY(const ZnodeRef znode, allocate_znode(tx, *directory, node, caller.uid, gid, 0));
  if (auto added = unlinked_set_->add(tx, object::Zap::hex_key(znode->object), znode->object);
      !added) {
    (void)objset_.free_object(tx, znode->object);
    return std::unexpected(std::move(added).error());
  }
  znode->temporary = true;
  znodes_->insert(znode);
  znodes_->add_lookup(*znode);
  return describe(*znode);
}

Result<Attributes> Tree::link(Inode inode, Inode parent, std::string_view name) {
  ZUSE_TRY_VOID(check_writable());
  ZUSE_TRY_VOID(check_new_name(name, rules_));
  ZUSE_TRY(const ZnodeRef directory, get_directory(parent));
  ZUSE_TRY(const ZnodeRef znode, get(inode));
  if (znode->is_directory()) {
    return fail(Errc::not_permitted, "a directory has one name only");
  }
  const ExclusiveGuard names(directory->names);
  std::uint64_t directory_flags = 0;
  std::optional<std::uint64_t> directory_project;
  {
    const LockGuard lock(directory->mutex);
    if (directory->fields.links == 0) {
      return fail(Errc::not_found, "the directory has been removed");
    }
    directory_flags = directory->fields.flags;
    directory_project = directory->fields.project;
  }
  {
    const LockGuard lock(znode->mutex);
    ZnodeFields& fields = znode->fields;
    if ((fields.flags & (kFlagImmutable | kFlagAppendOnly)) != 0 ||
        (directory_flags & kFlagImmutable) != 0) {
      return fail(Errc::not_permitted, "the file or directory is immutable");
    }
    if (fields.links >= kLinksMax) {
      return fail(Errc::too_many_links);
    }
    if ((directory_flags & kFlagProjectInherit) != 0 && directory_project != fields.project) {
      return fail(Errc::cross_device, "the directory belongs to another project");
    }
  }
  object::Zap zap(directory->dnode);
  ZUSE_TRY(const bool taken, zap.contains(name));
  if (taken) {
    return fail(Errc::exists);
  }
  ZUSE_TRY(object::Tx tx, begin(kMetadataBytes));
  const Time when = now();
  {
    const LockGuard lock(znode->mutex);
    ZnodeFields& fields = znode->fields;
    if (fields.links == 0) {
      if (!znode->temporary) {
        return fail(Errc::not_found, "the file has been removed");
      }
      ZUSE_TRY_VOID(unlinked_set_->remove(tx, object::Zap::hex_key(znode->object)));
    }
    znode->temporary = false;
    ++fields.links;
    fields.parent = directory->object;
    fields.ctime = when;
    ZUSE_TRY_VOID(znode->save_locked(*registry_, tx));
  }
  if (auto added = zap.add(tx, name, encode_entry(znode->object, znode->type())); !added) {
    ZUSE_TRY_VOID(drop_link(tx, *znode, 1, when));
    return std::unexpected(std::move(added).error());
  }
  ZUSE_TRY_VOID(touch_directory(tx, *directory, 1, 0, when));
  znodes_->add_lookup(*znode);
  return describe(*znode);
}

Result<void> Tree::unlink(Inode parent, std::string_view name, const Caller& /*caller*/) {
  ZUSE_TRY_VOID(check_writable());
  ZUSE_TRY_VOID(check_name(name));
  ZUSE_TRY(const ZnodeRef directory, get_directory(parent));
  std::uint64_t object = 0;
  {
    const ExclusiveGuard names(directory->names);
    ZUSE_TRY(const Entry entry, find_entry(*directory, name, rules_));
    object = entry.object;
    ZUSE_TRY(const ZnodeRef znode, get(object));
    if (znode->is_directory()) {
      return fail(Errc::is_directory);
    }
    ZUSE_TRY_VOID(check_removable(*directory, *znode));
    ZUSE_TRY(object::Tx tx, begin(kMetadataBytes, true));
    object::Zap zap(directory->dnode);
    ZUSE_TRY_VOID(zap.remove(tx, name));
    const Time when = now();
    ZUSE_TRY_VOID(drop_link(tx, *znode, 1, when));
    ZUSE_TRY_VOID(touch_directory(tx, *directory, -1, 0, when));
  }
  reap_if_dead(object);
  return {};
}

Result<void> Tree::remove_directory(Inode parent, std::string_view name, const Caller& /*caller*/) {
  ZUSE_TRY_VOID(check_writable());
  ZUSE_TRY_VOID(check_name(name));
  if (name == ".") {
    return fail(Errc::invalid, "a directory cannot be removed by its name .");
  }
  if (name == "..") {
    return fail(Errc::not_empty);
  }
  ZUSE_TRY(const ZnodeRef directory, get_directory(parent));
  for (;;) {
    ZnodeRef znode;
    {
      const SharedGuard names(directory->names);
      ZUSE_TRY(const Entry entry, find_entry(*directory, name, rules_));
      ZUSE_TRY(znode, get(entry.object));
    }
    if (!znode->is_directory()) {
      return fail(Errc::not_directory);
    }
    {
      const NamesLock names{directory.get(), znode.get()};
      ZUSE_TRY(const Entry entry, find_entry(*directory, name, rules_));
      if (entry.object != znode->object) {
        continue;  // replaced while no lock was held
      }
      ZUSE_TRY(const std::uint64_t count, object::Zap(znode->dnode).count());
      if (count != 0) {
        return fail(Errc::not_empty);
      }
      ZUSE_TRY_VOID(check_removable(*directory, *znode));
      ZUSE_TRY(object::Tx tx, begin(kMetadataBytes, true));
      object::Zap zap(directory->dnode);
      ZUSE_TRY_VOID(zap.remove(tx, name));
      const Time when = now();
      ZUSE_TRY_VOID(drop_link(tx, *znode, ~std::uint64_t{0}, when));
      ZUSE_TRY_VOID(touch_directory(tx, *directory, -1, -1, when));
    }
    reap_if_dead(znode->object);
    return {};
  }
}

}  // namespace zuse::posix
