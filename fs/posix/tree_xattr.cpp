// Extended attributes of objects, in both forms. The property `xattr` says which one new values
// take: "sa" keeps them with the object's attributes (what is too large for that goes to the
// directory form), "dir" makes a hidden directory with a file for each. Both are always read, and a
// value is in one of them only.
#include <sys/stat.h>

#include <algorithm>

#include "fs/object/zap.h"
#include "fs/posix/tree.h"
#include "vdev/base/units.h"

namespace zuse::posix {
namespace {

constexpr std::uint64_t kXattrOff = 0;
constexpr std::uint64_t kXattrSa = 2;

Result<void> check_xattr_name(const std::string& name) {
  if (name.size() > kNameMax) {
    return fail(Errc::name_too_long, "an attribute's name has at most 255 bytes");
  }
  if (name.empty() || name.find('\0') != std::string::npos) {
    return fail(Errc::invalid, "an attribute's name must not be empty or contain NUL");
  }
  if (!has_xattr_namespace(name) ||
      (name.starts_with("system.") && name != "system.posix_acl_access" &&
       name != "system.posix_acl_default")) {
    return fail(Errc::unsupported, "attributes other than user, trusted, security and POSIX ACLs");
  }
  return {};
}

}  // namespace

Result<XattrList> Tree::sa_xattrs(Znode& znode) const {
  std::optional<std::vector<std::byte>> packed;
  {
    const LockGuard lock(znode.mutex);
    packed = znode.value_locked(*registry_, Attr::dxattr);
  }
  if (!packed) {
    return XattrList{};
  }
  auto list = XattrList::decode(*packed);
  if (!list) {
    return std::unexpected(std::move(list).error().within("extended attributes of object " +
                                                          std::to_string(znode.object)));
  }
  return list;
}

Result<void> Tree::put_sa_xattrs(object::Tx& tx, Znode& znode, const XattrList& xattrs) {
  const std::vector<std::byte> packed = xattrs.encode();
  const Time when = now();
  const LockGuard lock(znode.mutex);
  ZUSE_TRY_VOID(znode.put_locked(*registry_, tx, Attr::dxattr, packed));
  znode.fields.ctime = when;
  return znode.save_locked(*registry_, tx);
}

Result<ZnodeRef> Tree::xattr_directory(Znode& znode) {
  std::uint64_t object = 0;
  {
    const LockGuard lock(znode.mutex);
    object = znode.fields.xattr;
  }
  if (object == 0) {
    return ZnodeRef{};
  }
  auto directory = get(object);
  if (!directory || !(*directory)->is_directory()) {
    if (directory || directory.error().code() == Errc::stale) {
      return fail(Errc::corrupt, "object " + std::to_string(znode.object) +
                                     ": its attribute directory is not a directory");
    }
  }
  return directory;
}

Result<std::optional<Tree::XattrFile>> Tree::find_xattr_file(Znode& znode,
                                                             const std::string& name) {
  ZUSE_TRY(const ZnodeRef directory, xattr_directory(znode));
  if (directory == nullptr) {
    return std::nullopt;
  }
  for (const std::string& stored : stored_xattr_names(name)) {
    auto entry = find_entry(*directory, stored, NameRules{});
    if (entry) {
      return XattrFile{directory, stored, entry->object};
    }
    if (entry.error().code() != Errc::not_found) {
      return std::unexpected(std::move(entry).error());
    }
  }
  return std::nullopt;
}

Result<void> Tree::remove_xattr_file(object::Tx& tx, const XattrFile& file) {
  object::Zap zap(file.directory->dnode);
  ZUSE_TRY_VOID(zap.remove(tx, file.stored_name));
  znodes_->erase(file.object);
  ZUSE_TRY_VOID(objset_.free_object(tx, file.object));
  return touch_directory(tx, *file.directory, -1, 0, now());
}

Result<void> Tree::write_xattr_file(object::Tx& tx, Znode& znode, const std::string& name,
                                    std::span<const std::byte> value,
                                    const std::optional<XattrFile>& replaced) {
  std::uint64_t uid = 0, gid = 0;
  {
    const LockGuard lock(znode.mutex);
    uid = znode.fields.uid;
    gid = znode.fields.gid;
  }
  if (replaced) {
    ZUSE_TRY_VOID(remove_xattr_file(tx, *replaced));
  }
  ZUSE_TRY(ZnodeRef directory, xattr_directory(znode));
  const Time when = now();
  if (directory == nullptr) {
    NewNode node;
    node.mode = S_IFDIR | S_ISVTX | 0777U;
    node.xattr = true;
    ZUSE_TRY(directory, allocate_znode(tx, znode, node, uid, gid, 2));
    znodes_->insert(directory);
    const LockGuard lock(znode.mutex);
    znode.fields.xattr = directory->object;
    znode.fields.ctime = when;
    ZUSE_TRY_VOID(znode.save_locked(*registry_, tx));
  } else {
    const LockGuard lock(znode.mutex);
    znode.fields.ctime = when;
    ZUSE_TRY_VOID(znode.save_locked(*registry_, tx));
  }
  NewNode node;
  node.mode = S_IFREG | 0644U;
  node.xattr = true;
  ZUSE_TRY(const ZnodeRef file, allocate_znode(tx, *directory, node, uid, gid, 1));
  if (!value.empty()) {
    const std::uint64_t record = objset_.policy().record_size;
    const std::uint64_t block =
        std::min<std::uint64_t>(record, round_up<std::uint64_t>(value.size(), 512));
    ZUSE_TRY_VOID(file->dnode->set_block_size(tx, static_cast<std::uint32_t>(block)));
    ZUSE_TRY_VOID(file->dnode->write(tx, 0, value));
    const LockGuard lock(file->mutex);
    file->fields.size = value.size();
    ZUSE_TRY_VOID(file->save_locked(*registry_, tx));
  }
  object::Zap zap(directory->dnode);
  ZUSE_TRY_VOID(zap.add(tx, name, encode_entry(file->object, S_IFREG)));
  znodes_->insert(file);
  return touch_directory(tx, *directory, 1, 0, when);
}

Result<std::vector<std::byte>> Tree::get_xattr(Inode inode, const std::string& name) {
  ZUSE_TRY_VOID(check_xattr_name(name));
  ZUSE_TRY(const ZnodeRef znode, get(inode));
  const SharedGuard names(znode->names);
  ZUSE_TRY(const XattrList xattrs, sa_xattrs(*znode));
  if (auto value = xattrs.find(name)) {
    return *std::move(value);
  }
  ZUSE_TRY(const std::optional<XattrFile> file, find_xattr_file(*znode, name));
  if (!file) {
    return fail(Errc::no_data);
  }
  ZUSE_TRY(const ZnodeRef held, get(file->object));
  std::uint64_t size = 0;
  {
    const LockGuard lock(held->mutex);
    size = held->fields.size;
  }
  if (size > kXattrDirValueMax) {
    return fail(Errc::too_large, "the attribute's value exceeds 65536 bytes");
  }
  std::vector<std::byte> value(size);
  ZUSE_TRY_VOID(held->dnode->read(0, value));
  return value;
}

Result<void> Tree::set_xattr(Inode inode, const std::string& name, std::span<const std::byte> value,
                             XattrMode mode) {
  ZUSE_TRY_VOID(check_writable());
  ZUSE_TRY_VOID(check_xattr_name(name));
  if (xattr_property_ == kXattrOff) {
    return fail(Errc::unsupported, "extended attributes are off (property xattr)");
  }
  if (value.size() > kXattrDirValueMax) {
    return fail(Errc::too_large, "an attribute's value has at most 65536 bytes");
  }
  ZUSE_TRY(const ZnodeRef znode, get(inode));
  const ExclusiveGuard names(znode->names);
  ZUSE_TRY(XattrList xattrs, sa_xattrs(*znode));
  ZUSE_TRY(const std::optional<XattrFile> file, find_xattr_file(*znode, name));
  const bool in_list = xattrs.has(name);
  if (mode == XattrMode::create && (in_list || file)) {
    return fail(Errc::exists);
  }
  if (mode == XattrMode::replace && !in_list && !file) {
    return fail(Errc::no_data);
  }
  bool fits = xattr_property_ == kXattrSa && value.size() <= kXattrSaValueMax;
  if (fits) {
    XattrList with = xattrs;
    with.set(name, value);
    const std::size_t packed = with.encode().size();
    const LockGuard lock(znode->mutex);
    const auto old = znode->value_locked(*registry_, Attr::dxattr);
    // Room for headers and for the rounding of the block is left beside the values.
    constexpr std::size_t kReserve = 1024;
    const std::size_t others = znode->attribute_bytes_locked() - (old ? old->size() : 0);
    fits = packed <= kXattrSaListMax && others + packed + kReserve <= kSaTotalMax;
  }
  ZUSE_TRY(object::Tx tx, begin(kMetadataBytes + 2 * kXattrSaListMax + value.size()));
  if (fits) {
    xattrs.set(name, value);
    ZUSE_TRY_VOID(put_sa_xattrs(tx, *znode, xattrs));
    if (file) {
      ZUSE_TRY_VOID(remove_xattr_file(tx, *file));
    }
    return {};
  }
  ZUSE_TRY_VOID(write_xattr_file(tx, *znode, name, value, file));
  if (in_list) {
    xattrs.erase(name);
    ZUSE_TRY_VOID(put_sa_xattrs(tx, *znode, xattrs));
  }
  return {};
}

Result<std::vector<std::string>> Tree::list_xattrs(Inode inode) {
  ZUSE_TRY(const ZnodeRef znode, get(inode));
  const SharedGuard guard(znode->names);
  ZUSE_TRY(const XattrList xattrs, sa_xattrs(*znode));
  std::vector<std::string> names = xattrs.names();
  ZUSE_TRY(const ZnodeRef directory, xattr_directory(*znode));
  if (directory != nullptr) {
    ZUSE_TRY_VOID(
        object::Zap(directory->dnode).for_each([&](const object::ZapEntry& entry) -> Result<void> {
          std::string shown = shown_xattr_name(entry.name);
          if (std::find(names.begin(), names.end(), shown) == names.end()) {
            names.push_back(std::move(shown));
          }
          return {};
        }));
  }
  return names;
}

Result<void> Tree::remove_xattr(Inode inode, const std::string& name) {
  ZUSE_TRY_VOID(check_writable());
  ZUSE_TRY_VOID(check_xattr_name(name));
  ZUSE_TRY(const ZnodeRef znode, get(inode));
  const ExclusiveGuard names(znode->names);
  ZUSE_TRY(XattrList xattrs, sa_xattrs(*znode));
  ZUSE_TRY(const std::optional<XattrFile> file, find_xattr_file(*znode, name));
  const bool in_list = xattrs.erase(name);
  if (!in_list && !file) {
    return fail(Errc::no_data);
  }
  ZUSE_TRY(object::Tx tx, begin(kMetadataBytes + 2 * kXattrSaListMax, true));
  if (in_list) {
    ZUSE_TRY_VOID(put_sa_xattrs(tx, *znode, xattrs));
  }
  if (file) {
    ZUSE_TRY_VOID(remove_xattr_file(tx, *file));
    const Time when = now();
    const LockGuard lock(znode->mutex);
    znode->fields.ctime = when;
    ZUSE_TRY_VOID(znode->save_locked(*registry_, tx));
  }
  return {};
}

}  // namespace zuse::posix
