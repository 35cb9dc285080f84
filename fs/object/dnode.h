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
#include <map>
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

inline constexpr std::uint64_t kToEnd = ~std::uint64_t{0};

// Thread-safe. Writers of one object order themselves where it matters (posix range locks, ZAP
// lock).
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
  // (the object layer's author completes this)
};

using DnodeRef = std::shared_ptr<Dnode>;

}  // namespace zuse::object
