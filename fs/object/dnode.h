// Dnode: one object - a run of blocks behind a tree of block pointers, and a few hundred bytes of
// bonus. What is on disk never changes; what has changed since is held as dirty records, one set a
// live transaction group, and a read looks at the newest first:
//
//     open txg's records -> quiescing -> syncing -> the tree on disk (through the cache)
//
// A record of a block is a whole block. Writing to a block that an older group still has dirty
// makes a copy; truncation leaves a "freed" range that hides older records and the tree. When a
// group has synced, the dnode swaps to the new tree and drops that group's records in one step.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "fs/format/dnode_phys.h"
#include "fs/object/tx.h"
#include "fs/pool/block_store.h"
#include "vdev/base/buffer.h"
#include "vdev/base/result.h"
#include "vdev/base/sync.h"

namespace zuse::object {

class Objset;
class Dnode;
struct DnodeHeader;
struct DirtyGroup;

// What a dnode asks of its object set.
class DnodeHost {
 public:
  virtual ~DnodeHost() = default;
  // Called once a dnode and group, with the dnode's lock held: must take leaf locks only.
  virtual void note_dirty(std::shared_ptr<Dnode> dnode, std::uint64_t txg) = 0;
  virtual void add_dirty_bytes(std::uint64_t txg, std::uint64_t bytes) = 0;
  // Runs a task in the background some time, or never. Takes leaf locks only.
  virtual void in_background(std::function<void()> task) = 0;
};

inline constexpr std::uint64_t kToEnd = ~std::uint64_t{0};

// Thread-safe. Writers of one object order themselves where it matters (posix range locks, ZAP
// lock). Changes to one object should come in the order of their groups: one that comes late, in a
// group older than the newest that has touched the object, takes along into its group all that the
// newer one has done to the object so far, so that each group on disk has an object that makes
// sense.
// A run of an object's bytes inside a block that `block` keeps alive.
struct Piece {
  SharedBuffer block;
  std::span<const std::byte> bytes;
  bool changing = false;  // a transaction may write to the block
};
// Copies what the pieces hold, one after the other. shape: into holds them all. The bytes copied.
std::size_t copy_pieces(std::span<const Piece> pieces, std::span<std::byte> into);

class Dnode : public std::enable_shared_from_this<Dnode> {
 public:
  std::uint64_t object() const noexcept;
  Objset& objset() const noexcept;

  // As of the newest transaction.
  format::ObjectType type() const;
  std::uint32_t block_size() const;  // bytes
  std::uint64_t max_block() const;   // highest block id ever present, 0 for none
  format::ObjectType bonus_type() const;
  std::vector<std::byte> bonus() const;  // bonus_size() bytes
  std::size_t bonus_capacity() const;    // bytes, without a spill pointer
  std::uint64_t used_bytes() const;      // space charged, as of the last sync
  unsigned slots() const;                // 512-byte dnode slots that it occupies
  bool allocated() const;                // false once freed in some transaction

  // Reads [offset, offset + into.size()); holes and what lies past the end give zeros. Reading
  // sequentially starts prefetch. errors: those of BlockStore::read, with the object named.
  Result<void> read(std::uint64_t offset, std::span<std::byte> into);
  // As read, without copying: the bytes stay where the cache has them. Blocks that transactions are
  // changing are copied.
  Result<std::vector<Piece>> read_pieces(std::uint64_t offset, std::uint64_t length);
  // One block, shared; zeros for a hole. shape: block_size() bytes.
  Result<SharedBuffer> read_block(std::uint64_t block);

  // Writes bytes, reading what is only partly covered. Grows the tree as needed; the block size
  // stays (set_block_size first). errors: as read; too_large.
  Result<void> write(Tx& tx, std::uint64_t offset, std::span<const std::byte> from);
  // The whole block `block`, to be changed in place during this transaction; it is dirty from here
  // on. The span is valid while `tx` lives. Two callers must not edit one block at a time.
  Result<std::span<std::byte>> edit_block(Tx& tx, std::uint64_t block);
  // Makes [offset, offset + length) read as zeros; whole blocks become holes. kToEnd: truncate.
  Result<void> free_range(Tx& tx, std::uint64_t offset, std::uint64_t length);
  // Only while max_block() is 0; the first block keeps its contents, cut or zero-extended.
  // errors: invalid (size not a multiple of 512, or more than one block).
  Result<void> set_block_size(Tx& tx, std::uint32_t bytes);

  // errors: invalid, if it does not fit bonus_capacity() (less 128 with a spill block).
  Result<void> set_bonus(Tx& tx, std::span<const std::byte> bytes);
  Result<void> set_bonus_type(Tx& tx, format::ObjectType type);
  Result<void> set_type(Tx& tx, format::ObjectType type);  // "zapify"

  // The spill block: one more block of attributes. Null: there is none.
  Result<SharedBuffer> spill();
  Result<void> set_spill(Tx& tx, std::span<const std::byte> bytes);  // shape: a multiple of 512
  Result<void> remove_spill(Tx& tx);

  // The first byte at or after `offset` that is data (or a hole); errors: not_found past the end.
  Result<std::uint64_t> next_data(std::uint64_t offset);
  Result<std::uint64_t> next_hole(std::uint64_t offset);

  // True if some live group has changed it: its blocks are not all on disk.
  bool dirty() const;

  // The lock that a ZAP over this dnode takes; here so that all its users share one.
  SharedMutex& zap_mutex() noexcept;
  // Whatever the ZAP code wants to remember about this object (an index); guarded by zap_mutex().
  std::shared_ptr<void>& zap_memory() noexcept;

 private:
  friend class ObjsetImpl;
  struct Source;
  struct WritePath;
  // One run of reads that follow each other.
  struct Stream {
    std::uint64_t next = 0;    // block expected
    std::uint64_t ahead = 0;   // first block not yet prefetched
    std::uint64_t window = 0;  // blocks to keep ahead
    std::uint64_t used = 0;    // when it last moved, to replace the oldest
  };

  // The dnode as it is on disk; one of type none is new.
  Dnode(Objset& objset, DnodeHost& host, std::uint64_t object,
        std::shared_ptr<const format::DnodePhys> phys);

  // What the object's array of live groups says.
  const DnodeHeader& head_locked() const ZUSE_REQUIRES(mutex_);
  Source find_locked(std::uint64_t block) const ZUSE_REQUIRES(mutex_);
  DirtyGroup& group_locked(std::uint64_t txg) ZUSE_REQUIRES(mutex_);
  void change_locked(std::uint64_t txg, const std::function<void(DnodeHeader&)>& change)
      ZUSE_REQUIRES(mutex_);
  // The buffer of `block` in the group of `txg`, to be written to; `clean` is the block's contents
  // on disk where those matter. shape: `whole` says that every byte will be overwritten.
  Buffer& writable_locked(std::uint64_t txg, std::uint64_t block, const SharedBuffer& clean,
                          bool whole, std::uint64_t& dirtied) ZUSE_REQUIRES(mutex_);
  Result<void> check_live_locked() const ZUSE_REQUIRES(mutex_);
  void note_read_locked(std::uint64_t first, std::uint64_t last) ZUSE_REQUIRES(mutex_);

  Error within(Error error) const;
  std::shared_ptr<const format::DnodePhys> phys() const;
  pool::Bookmark bookmark(std::uint64_t block) const;
  // What read and read_pieces give, with the blocks that are being changed as they are: the caller
  // keeps writers away until it has copied those.
  Result<std::vector<Piece>> gather(std::uint64_t offset, std::uint64_t length);
  Result<std::vector<Piece>> gather_from(const format::DnodePhys& tree, std::uint32_t block_size,
                                         std::uint64_t offset, std::uint64_t length,
                                         std::span<const Source> sources);
  // The block's pointer on disk, and its contents (null: a hole).
  Result<SharedBuffer> read_tree(const format::DnodePhys& tree, std::uint64_t block,
                                 ByteOrder* order = nullptr);
  // As read_block, with the byte order that the bytes are in.
  Result<SharedBuffer> read_ordered(std::uint64_t block, ByteOrder& order);
  // Calls `edit` with the whole block under the lock, after making it part of the group.
  Result<void> change_block(Tx& tx, std::uint64_t block, bool whole, WritePath& path,
                            const std::function<void(std::span<std::byte>)>& edit);
  Result<void> zero_part(Tx& tx, std::uint64_t block, std::uint32_t from, std::uint32_t to);
  Result<std::uint64_t> next_block(std::uint64_t from, bool data);
  void prefetch(std::uint64_t first, std::uint64_t count);
  // Reads blocks into the cache, side by side.
  void preload(std::span<const std::uint64_t> blocks, bool low_priority);

  // For the object set.
  void make(Tx& tx, DnodeHeader header);
  void free_all(Tx& tx);
  bool dirty_in(std::uint64_t txg) const;
  // Hands out what `txg` changed; readers go on seeing it until finish_sync. Null: nothing.
  std::shared_ptr<const DirtyGroup> begin_sync(std::uint64_t txg);
  void finish_sync(std::shared_ptr<const format::DnodePhys> phys);

  Objset& objset_;
  DnodeHost& host_;
  const std::uint64_t object_;
  mutable Mutex mutex_{LockRank::dnode};
  std::shared_ptr<const format::DnodePhys> phys_ ZUSE_GUARDED_BY(mutex_);
  std::shared_ptr<const DnodeHeader> base_ ZUSE_GUARDED_BY(mutex_);  // of phys_
  // Oldest first. The one being synced, if any, comes before newer changes of the same txg.
  std::vector<std::shared_ptr<DirtyGroup>> live_ ZUSE_GUARDED_BY(mutex_);
  std::array<Stream, 4> streams_ ZUSE_GUARDED_BY(mutex_){};
  std::uint64_t stream_clock_ ZUSE_GUARDED_BY(mutex_) = 0;
  SharedMutex zap_mutex_{LockRank::zap};
  std::shared_ptr<void> zap_memory_;
};

using DnodeRef = std::shared_ptr<Dnode>;

}  // namespace zuse::object
