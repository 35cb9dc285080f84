// Tree: the file system of one dataset or snapshot, without the virtual `.zfs` directory (that is
// file_system.cpp's). Its parts, each in a file of its own:
//   tree.cpp            mount, attributes, what the kernel holds
//   tree_names.cpp      creating, linking, removing; tree_rename.cpp: renaming
//   tree_data.cpp       reading, writing, sizes, holes
//   tree_xattr.cpp      extended attributes
//   tree_unlinked.cpp   freeing what has no name any more
//
// Order of locks: the rename lock, names of directories by number, a byte range, then the
// transaction, then one znode's mutex for a moment. Nobody waits for names or ranges inside a
// transaction: the transaction group could then not sync while others wait for it to. Transactions
// of two groups never run at the same time (fs/pool/txg.h), so attributes, which are written whole,
// go up in the order of the groups.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "fs/dataset/dataset.h"
#include "fs/posix/directory.h"
#include "fs/posix/file_system.h"
#include "fs/posix/range_lock.h"
#include "fs/posix/xattr.h"
#include "fs/posix/znode.h"

namespace zuse::posix {

class Tree final : public FileSystem {
 public:
  static Result<std::unique_ptr<Tree>> mount(std::shared_ptr<dataset::Dataset> dataset,
                                             const MountOptions& options);
  ~Tree() override = default;

  Result<void> unmount() override;
  Inode root() const override { return root_; }
  Result<Attributes> lookup(Inode parent, std::string_view name) override;
  void forget(Inode inode, std::uint64_t count) override;
  Result<Attributes> attributes(Inode inode) override;
  Result<Attributes> set_attributes(Inode inode, const AttributeChange& change,
                                    const Caller& caller) override;
  Result<Attributes> create(Inode parent, std::string_view name, std::uint32_t mode,
                            std::uint32_t rdev_major, std::uint32_t rdev_minor,
                            const Caller& caller) override;
  Result<Attributes> make_directory(Inode parent, std::string_view name, std::uint32_t mode,
                                    const Caller& caller) override;
  Result<Attributes> make_symlink(Inode parent, std::string_view name, std::string_view target,
                                  const Caller& caller) override;
  Result<Attributes> make_temporary(Inode parent, std::uint32_t mode,
                                    const Caller& caller) override;
  Result<std::string> read_symlink(Inode inode) override;
  Result<Attributes> link(Inode inode, Inode parent, std::string_view name) override;
  Result<void> unlink(Inode parent, std::string_view name, const Caller& caller) override;
  Result<void> remove_directory(Inode parent, std::string_view name, const Caller& caller) override;
  Result<void> rename(Inode old_parent, std::string_view old_name, Inode new_parent,
                      std::string_view new_name, unsigned flags, const Caller& caller) override;
  Result<std::vector<object::Piece>> read(Inode inode, std::uint64_t offset,
                                          std::uint64_t length) override;
  Result<void> write(Inode inode, std::uint64_t offset, std::span<const std::byte> from,
                     const Caller& caller) override;
  Result<void> allocate(Inode inode, int mode, std::uint64_t offset, std::uint64_t length,
                        const Caller& caller) override;
  Result<std::uint64_t> seek_data(Inode inode, std::uint64_t offset) override;
  Result<std::uint64_t> seek_hole(Inode inode, std::uint64_t offset) override;
  Result<void> fsync(Inode inode) override;
  Result<std::vector<DirectoryEntry>> read_directory(Inode inode, std::uint64_t offset,
                                                     std::size_t limit) override;
  Result<std::vector<std::byte>> get_xattr(Inode inode, const std::string& name) override;
  Result<void> set_xattr(Inode inode, const std::string& name, std::span<const std::byte> value,
                         XattrMode mode) override;
  Result<std::vector<std::string>> list_xattrs(Inode inode) override;
  Result<void> remove_xattr(Inode inode, const std::string& name) override;
  Result<Statistics> statistics() override;
  std::vector<Inode> held() override { return znodes_->held(); }
  Result<std::string> path_of(std::uint64_t object) override;

  bool read_only() const noexcept { return read_only_; }

 private:
  Tree(std::shared_ptr<dataset::Dataset> dataset, const MountOptions& options);
  Result<void> read_master();
  Result<void> drain_unlinked();

  // Dirtied by an operation that changes only metadata: a few dnode blocks and directory blocks.
  static constexpr std::uint64_t kMetadataBytes = 64 * 1024;

  Time now() const { return clock_(); }
  Result<object::Tx> begin(std::uint64_t bytes, bool frees = false);
  Result<void> check_writable() const;
  Result<ZnodeRef> get(Inode inode) { return znodes_->get(inode); }
  Result<ZnodeRef> get_directory(Inode inode);
  Result<ZnodeRef> get_file(Inode inode);  // regular; errors: is_directory, invalid
  Attributes describe(Znode& znode) const;
  Attributes describe_locked(Znode& znode) const ZUSE_REQUIRES(znode.mutex);

  // tree_names.cpp
  struct NewNode {
    std::uint32_t mode = 0;
    std::uint64_t rdev = 0;
    std::string_view symlink;
    bool xattr = false;  // belongs to extended attributes
  };
  Result<Attributes> make(Inode parent, std::string_view name, const NewNode& node,
                          const Caller& caller);
  Result<ZnodeRef> allocate_znode(object::Tx& tx, Znode& parent, const NewNode& node,
                                  std::uint64_t uid, std::uint64_t gid, std::uint64_t links);
  // An entry came or went: size, times, and the links of a directory with subdirectories.
  Result<void> touch_directory(object::Tx& tx, Znode& directory, int entries, int subdirectories,
                               const Time& when);
  Result<void> drop_link(object::Tx& tx, Znode& znode, std::uint64_t links, const Time& when);
  Result<void> check_removable(Znode& directory, Znode& znode) const;
  // tree_rename.cpp
  Result<bool> is_below(std::uint64_t directory, std::uint64_t ancestor);
  // tree_data.cpp
  // Set-id bits go where `caller` may not keep them. The second form leaves saving to who calls it.
  Result<void> clear_set_id(Znode& znode, const Caller& caller);
  Result<void> clear_set_id_locked(object::Tx& tx, Znode& znode, const Caller& caller)
      ZUSE_REQUIRES(znode.mutex);
  Result<void> truncate(Znode& znode, std::uint64_t size);
  Result<void> grow_block(object::Tx& tx, Znode& znode, std::uint64_t end);
  bool must_grow_block(const Znode& znode, std::uint64_t size, std::uint64_t end) const;
  void note_access(Znode& znode);
  // tree_xattr.cpp
  struct XattrFile {  // an attribute in the directory form
    ZnodeRef directory;
    std::string stored_name;
    std::uint64_t object = 0;
  };
  Result<XattrList> sa_xattrs(Znode& znode) const;
  Result<void> put_sa_xattrs(object::Tx& tx, Znode& znode, const XattrList& xattrs);
  Result<ZnodeRef> xattr_directory(Znode& znode);  // null: there is none
  Result<std::optional<XattrFile>> find_xattr_file(Znode& znode, const std::string& name);
  Result<void> write_xattr_file(object::Tx& tx, Znode& znode, const std::string& name,
                                std::span<const std::byte> value,
                                const std::optional<XattrFile>& replaced);
  Result<void> remove_xattr_file(object::Tx& tx, const XattrFile& file);
  // tree_unlinked.cpp
  void reap_if_dead(std::uint64_t object);
  Result<void> reap(Znode& znode);
  Result<void> free_data(Znode& znode);
  Result<void> purge_xattr_directory(Znode& directory);

  const std::shared_ptr<dataset::Dataset> dataset_;
  object::Objset& objset_;
  const MountOptions options_;
  const std::function<Time()> clock_;
  bool read_only_;
  bool update_atime_ = false, relatime_ = true;
  std::uint64_t xattr_property_ = 2;
  std::uint64_t dnode_size_ = 0;  // property dnodesize
  NameRules rules_;
  std::uint64_t root_ = 0;
  std::optional<object::Zap> unlinked_set_;
  std::unique_ptr<SaRegistry> registry_;
  std::unique_ptr<ZnodeTable> znodes_;
  RangeLocks ranges_;
  Mutex rename_mutex_{LockRank::file_system};  // one move of a directory at a time
};

}  // namespace zuse::posix
