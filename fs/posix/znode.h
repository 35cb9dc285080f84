// Znode: one file, directory or other object of a file system in memory - its attributes decoded,
// its dnode held. ZnodeTable: all of them, by object number, one at a time for each number.
//
// A znode stays while the kernel holds it (its lookup count) or a call uses it; after that the
// table keeps a bounded number of idle ones, so that metadata is answered from memory. An object
// whose last name is gone lives on, in the unlinked set, until nobody holds it: "dead" then, and
// whoever let it go frees it (unlinked.cpp).
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "fs/object/dnode.h"
#include "fs/posix/file_system.h"
#include "fs/posix/system_attr.h"
#include "vdev/base/sync.h"

namespace zuse::posix {

// Bits of the FLAGS attribute that the program looks at or sets. source: format page 08 section 6.
inline constexpr std::uint64_t kFlagXattr = 0x1;
inline constexpr std::uint64_t kFlagAclTrivial = 0x4;
inline constexpr std::uint64_t kFlagAclAutoInherit = 0x40;
inline constexpr std::uint64_t kFlagNoExecsDenied = 0x100;
inline constexpr std::uint64_t kFlagArchive = 0x8'0000'0000;
inline constexpr std::uint64_t kFlagImmutable = 0x10'0000'0000;
inline constexpr std::uint64_t kFlagNoUnlink = 0x20'0000'0000;
inline constexpr std::uint64_t kFlagAppendOnly = 0x40'0000'0000;
inline constexpr std::uint64_t kFlagAvModified = 0x400'0000'0000;
inline constexpr std::uint64_t kFlagProjectInherit = 0x4000'0000'0000;
inline constexpr std::uint64_t kFlagProject = 0x8000'0000'0000;

inline constexpr std::uint64_t kObjectNumberMax = (std::uint64_t{1} << 48) - 1;

// The attributes that every object has, decoded. `mode` has the file type.
struct ZnodeFields {
  std::uint64_t mode = 0, size = 0, gen = 0;
  std::uint64_t uid = 0, gid = 0;  // upper 32 bits: domain index of a foreign identity
  std::uint64_t parent = 0, flags = 0, links = 0;
  Time atime, mtime, ctime, crtime;
  std::uint64_t rdev = 0;                // as stored
  std::uint64_t xattr = 0;               // object of the attribute directory; 0: none
  std::optional<std::uint64_t> project;  // present where the file system accounts projects
};

// Thread-safe as its members say.
class Znode {
 public:
  // Reads and decodes an object. errors: stale (not a file system object any more), corrupt,
  // those of reading.
  static Result<std::shared_ptr<Znode>> load(SaRegistry& registry, object::DnodeRef dnode);
  // A new object with all its attributes, written to `dnode`.
  static Result<std::shared_ptr<Znode>> create(SaRegistry& registry, object::Tx& tx,
                                               object::DnodeRef dnode, const ZnodeFields& fields,
                                               std::string_view symlink);

  Znode(object::DnodeRef dnode, ZnodeFields decoded, AttributeSet values);

  const std::uint64_t object;
  const object::DnodeRef dnode;
  // For a directory its names, for others their extended attributes.
  SharedMutex names{LockRank::directory};
  Mutex mutex{LockRank::znode};
  ZnodeFields fields ZUSE_GUARDED_BY(mutex);
  // Its last name is gone (or was never made): it is in the unlinked set.
  std::atomic<bool> unlinked{false};
  std::atomic<bool> temporary{false};  // made without a name; link() may give it one

  // The file type never changes, so it may be asked without the lock.
  std::uint32_t type() const noexcept { return type_; }
  bool is_directory() const noexcept;
  bool is_regular() const noexcept;

  // A value beyond the decoded ones, copied. nullopt: absent.
  std::optional<std::vector<std::byte>> value_locked(const SaRegistry& registry,
                                                     Attr attribute) const ZUSE_REQUIRES(mutex);
  // Changes take effect on disk with save_locked().
  Result<void> put_locked(SaRegistry& registry, object::Tx& tx, Attr attribute,
                          std::span<const std::byte> value) ZUSE_REQUIRES(mutex);
  void remove_locked(const SaRegistry& registry, Attr attribute) ZUSE_REQUIRES(mutex);
  // Makes the access control list and its flags follow `fields.mode`.
  Result<void> put_acl_locked(SaRegistry& registry, object::Tx& tx) ZUSE_REQUIRES(mutex);
  // Writes `fields` and changed values. An old znode becomes one with system attributes.
  Result<void> save_locked(SaRegistry& registry, object::Tx& tx) ZUSE_REQUIRES(mutex);
  std::size_t attribute_bytes_locked() const ZUSE_REQUIRES(mutex) { return values_.total_bytes(); }

 private:
  friend class ZnodeTable;
  Result<void> put_fields_locked(SaRegistry& registry, object::Tx& tx) ZUSE_REQUIRES(mutex);

  const std::uint32_t type_;
  AttributeSet values_ ZUSE_GUARDED_BY(mutex);
  bool old_form_ ZUSE_GUARDED_BY(mutex) = false;      // bonus of type 17 on disk
  std::uint64_t old_acl_ ZUSE_GUARDED_BY(mutex) = 0;  // its external list, to be freed
  // Guarded by the table's mutex.
  std::uint64_t lookups_ = 0;
  bool reaping_ = false;
  bool idle_ = false;
  std::list<Znode*>::iterator idle_position_;
};

using ZnodeRef = std::shared_ptr<Znode>;

// Thread-safe.
class ZnodeTable {
 public:
  ZnodeTable(object::Objset& objset, SaRegistry& registry, std::size_t idle_max)
      : objset_(objset), registry_(registry), idle_max_(idle_max) {}

  // The znode of an object, loaded if it is not in memory. errors: stale (no such object, or one
  // that is being freed), those of Znode::load.
  Result<ZnodeRef> get(std::uint64_t object);
  // A znode that has just been created.
  void insert(const ZnodeRef& znode);
  // The kernel's holds: one more, `count` fewer.
  void add_lookup(Znode& znode);
  void forget(std::uint64_t object, std::uint64_t count);
  // The znode if it is unlinked and nobody holds it; from then on it is the caller's to free.
  ZnodeRef claim_dead(std::uint64_t object);
  // The same whoever holds it: at unmount. One at a time; null: there are no more.
  ZnodeRef claim_any_unlinked();
  // Gives a claim back, after a failure.
  void unclaim(Znode& znode);
  void erase(std::uint64_t object);
  // Objects that the kernel holds.
  std::vector<std::uint64_t> held();

 private:
  void make_idle_locked(Znode& znode, std::vector<ZnodeRef>& evicted) ZUSE_REQUIRES(mutex_);

  object::Objset& objset_;
  SaRegistry& registry_;
  const std::size_t idle_max_;
  // One load of an object at a time, so that no znode is made from a bonus that has since changed.
  static constexpr std::size_t kLoadLocks = 32;
  struct LoadLock {
    Mutex mutex{LockRank::znode};
  };
  std::array<LoadLock, kLoadLocks> load_;
  Mutex mutex_{LockRank::leaf};
  std::unordered_map<std::uint64_t, ZnodeRef> znodes_ ZUSE_GUARDED_BY(mutex_);
  std::list<Znode*> idle_ ZUSE_GUARDED_BY(mutex_);  // least recently used first
};

}  // namespace zuse::posix
