// FileSystem: a dataset seen as names, attributes and bytes. Every call is one POSIX operation; the
// FUSE layer only translates to and from it. Inode numbers are object numbers; those of the virtual
// `.zfs` directory are the ones of format page 08 section 12.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fs/dataset/dataset.h"
#include "fs/object/dnode.h"
#include "vdev/base/result.h"

namespace zuse::posix {

using Inode = std::uint64_t;

struct Time {
  std::int64_t seconds = 0;
  std::uint32_t nanoseconds = 0;
  auto operator<=>(const Time&) const = default;
};

struct Attributes {
  Inode inode = 0;
  std::uint64_t generation = 0;
  std::uint32_t mode = 0;  // with the file type
  std::uint64_t links = 0;
  std::uint32_t uid = 0, gid = 0;
  std::uint32_t rdev_major = 0, rdev_minor = 0;
  std::uint64_t size = 0;
  std::uint64_t blocks = 0;      // 512-byte units
  std::uint32_t block_size = 0;  // preferred I/O size
  Time atime, mtime, ctime, birth;
};

// What setattr is asked to change.
struct AttributeChange {
  std::optional<std::uint32_t> mode, uid, gid;
  std::optional<std::uint64_t> size;
  std::optional<Time> atime, mtime, ctime;
};

// On whose behalf: owner of new files.
struct Caller {
  std::uint32_t uid = 0, gid = 0;
  std::uint32_t umask = 0;
  // What it writes to, cuts or gives away, unless that is a directory, loses set-user-id, and
  // set-group-id where the group may execute it.
  bool clears_set_id = false;
};

struct DirectoryEntry {
  std::string name;
  Inode inode = 0;
  std::uint32_t type = 0;         // DT_*
  std::uint64_t next_offset = 0;  // d_off: where the next entry starts
};

struct Statistics {  // statfs
  std::uint64_t block_size = 0, blocks = 0, free = 0, available = 0, files = 0, files_free = 0;
  std::uint64_t fsid = 0;
  std::uint32_t name_max = 255;
};

struct MountOptions {
  bool read_only = false;
  bool atime = true;
  bool snapshots_visible = false;       // list .zfs in the root (always reachable by name)
  std::size_t znodes_idle_max = 16384;  // files that nobody holds, kept in memory
  std::function<Time()> clock = {};     // empty: the system's
};

// Thread-safe. Permission checks are the kernel's (default_permissions) except where only we can
// know.
class FileSystem {
 public:
  // Replays what must be replayed and drains the delete queue (unless read-only).
  // errors: unsupported (a feature, checksum or version that we lack; named), corrupt.
  static Result<std::unique_ptr<FileSystem>> mount(std::shared_ptr<dataset::Dataset> dataset,
                                                   const MountOptions& options);
  virtual ~FileSystem() = default;
  // Finishes what is in flight; open-but-unlinked files are freed. Then the object may be
  // destroyed.
  virtual Result<void> unmount() = 0;

  virtual Inode root() const = 0;

  // The kernel holds an inode while its lookup count is > 0: each call that returns Attributes for
  // a name adds one; forget() takes them back. An unlinked file lives while held.
  virtual Result<Attributes> lookup(Inode parent, std::string_view name) = 0;
  virtual void forget(Inode inode, std::uint64_t count) = 0;

  virtual Result<Attributes> attributes(Inode inode) = 0;
  virtual Result<Attributes> set_attributes(Inode inode, const AttributeChange& change,
                                            const Caller& caller) = 0;

  // mode has the type: regular, FIFO, socket, device (rdev). set-gid directories hand down their
  // group.
  virtual Result<Attributes> create(Inode parent, std::string_view name, std::uint32_t mode,
                                    std::uint32_t rdev_major, std::uint32_t rdev_minor,
                                    const Caller& caller) = 0;
  virtual Result<Attributes> make_directory(Inode parent, std::string_view name, std::uint32_t mode,
                                            const Caller& caller) = 0;
  virtual Result<Attributes> make_symlink(Inode parent, std::string_view name,
                                          std::string_view target, const Caller& caller) = 0;
  virtual Result<Attributes> make_temporary(Inode parent, std::uint32_t mode,
                                            const Caller& caller) = 0;
  virtual Result<std::string> read_symlink(Inode inode) = 0;
  virtual Result<Attributes> link(Inode inode, Inode parent, std::string_view name) = 0;
  virtual Result<void> unlink(Inode parent, std::string_view name, const Caller& caller) = 0;
  virtual Result<void> remove_directory(Inode parent, std::string_view name,
                                        const Caller& caller) = 0;
  // flags: RENAME_NOREPLACE, RENAME_EXCHANGE of renameat2(2); others are invalid.
  virtual Result<void> rename(Inode old_parent, std::string_view old_name, Inode new_parent,
                              std::string_view new_name, unsigned flags, const Caller& caller) = 0;

  // The bytes [offset, offset + length), fewer only at the end of the file, where the cache has
  // them.
  virtual Result<std::vector<object::Piece>> read(Inode inode, std::uint64_t offset,
                                                  std::uint64_t length) = 0;
  virtual Result<void> write(Inode inode, std::uint64_t offset, std::span<const std::byte> from,
                             const Caller& caller) = 0;
  // fallocate(2) modes: 0 (extend), KEEP_SIZE, PUNCH_HOLE|KEEP_SIZE, ZERO_RANGE (with or without
  // KEEP_SIZE).
  virtual Result<void> allocate(Inode inode, int mode, std::uint64_t offset, std::uint64_t length,
                                const Caller& caller) = 0;
  virtual Result<std::uint64_t> seek_data(Inode inode, std::uint64_t offset) = 0;
  virtual Result<std::uint64_t> seek_hole(Inode inode, std::uint64_t offset) = 0;
  virtual Result<void> fsync(Inode inode) = 0;  // durable on return, names included

  // Entries from `offset` (0: the start) on, "." and ".." included; stops after `limit` or at the
  // end (empty).
  virtual Result<std::vector<DirectoryEntry>> read_directory(Inode inode, std::uint64_t offset,
                                                             std::size_t limit) = 0;

  // Names with their prefix: user.*, trusted.*, security.*, system.posix_acl_*.
  virtual Result<std::vector<std::byte>> get_xattr(Inode inode, const std::string& name) = 0;
  enum class XattrMode : std::uint8_t { any, create, replace };
  virtual Result<void> set_xattr(Inode inode, const std::string& name,
                                 std::span<const std::byte> value, XattrMode mode) = 0;
  virtual Result<std::vector<std::string>> list_xattrs(Inode inode) = 0;
  virtual Result<void> remove_xattr(Inode inode, const std::string& name) = 0;

  virtual Result<Statistics> statistics() = 0;

  // Inodes that the kernel holds now, of the head (not of snapshots): what it may have cached.
  virtual std::vector<Inode> held() = 0;
  // "/a/b": one of the names of an object, for messages. errors: not_found (not a file, or without
  // a name).
  virtual Result<std::string> path_of(std::uint64_t object) = 0;
};

}  // namespace zuse::posix
