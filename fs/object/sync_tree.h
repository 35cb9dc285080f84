// The sync of one dnode: its tree, changed in memory and written bottom-up. Internal to fs/object.
//
// A SyncTree starts from the dnode on disk, loads the indirect blocks above everything that the
// group touches, punches what was freed, grows, and then lets its blocks be written level by level:
// each finished write puts its new pointer into the block above. Many trees are written together,
// so that one call to the store carries many blocks.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "fs/object/block_tree.h"
#include "fs/object/dirty.h"
#include "fs/object/objset.h"

namespace zuse::object {

// What all trees of one sync share.
struct SyncContext {
  pool::BlockStore& store;
  BlockOwner& owner;
  ObjsetPolicy policy;
  std::uint64_t objset = 0;
  std::string name;
  std::uint64_t txg = 0;
  bool compress = true;  // false in late passes over the MOS

  // How a block of an object is stored: format page 02 section 5, page 05 section 4.4.
  pool::WriteProperties properties(format::ObjectType type, unsigned level, bool metadata,
                                   std::uint8_t checksum, std::uint8_t compression) const;
  // Tells the owner what a rewrite changed: nothing, if the new block lies where the old one did.
  // Returns whether the old space was given up for other.
  bool replaced(const format::Blkptr& before, const format::Blkptr& after) const;
};

class SyncTree;

// Blocks to be written, gathered into large calls of the store.
class WriteQueue {
 public:
  explicit WriteQueue(const SyncContext& context) : context_(context) {}

  struct Place {
    SyncTree* tree = nullptr;
    unsigned level = 0;
    std::uint64_t id = 0;
    bool spill = false;
  };
  // Writes what has gathered when it is much.
  Result<void> add(Place place, pool::BlockWriteJob job);
  Result<void> flush();

 private:
  const SyncContext& context_;
  std::vector<Place> places_;
  std::vector<pool::BlockWriteJob> jobs_;
  std::uint64_t bytes_ = 0;
};

class SyncTree {
 public:
  SyncTree(const SyncContext& context, std::uint64_t object,
           std::shared_ptr<const format::DnodePhys> before,
           std::shared_ptr<const DirtyGroup> changes);

  // Frees and growth.
  // errors: those of reading an indirect block that must be changed.
  Result<void> prepare();
  // Queues records, as many as one wave takes (the spill block goes with the first). Once they are
  // written, level 1 must be written and dropped before the next wave; then the levels above.
  Result<void> write_data(WriteQueue& queue);
  bool has_more() const noexcept { return next_ != changes_->records.end(); }
  Result<void> write_level(unsigned level, WriteQueue& queue);
  void drop_level(unsigned level);
  unsigned levels() const noexcept { return after_.levels; }
  // The dnode as it is to be stored, once every level is written. type none: it was freed.
  format::DnodePhys& after() noexcept { return after_; }
  const format::DnodePhys& before() const noexcept { return *before_; }
  // Bytes of memory, about, that the records and the blocks above them take.
  std::uint64_t cost() const noexcept { return cost_; }

  // The store's answer to a job.
  Result<void> written(const WriteQueue::Place& place, const pool::BlockWriteJob& job);

 private:
  struct Node {
    std::shared_ptr<Buffer> bytes;  // pointers in host order
    format::Blkptr old;
    bool changed = false;
  };

  format::Blkptr get(unsigned level, std::uint64_t id) const;
  void put(unsigned level, std::uint64_t id, const format::Blkptr& blkptr);
  Node* find_node(unsigned level, std::uint64_t id);
  pool::Bookmark bookmark(unsigned level, std::uint64_t id) const;
  Result<void> load(const std::vector<std::uint64_t>& blocks);
  Result<void> adopt(unsigned level, std::uint64_t id, const format::Blkptr& blkptr,
                     const Buffer& bytes);
  void materialise(unsigned level, std::uint64_t id, const format::Blkptr& hole);
  void free_blocks(std::uint64_t first, std::uint64_t end);
  void free_at(unsigned level, std::uint64_t id, std::uint64_t first, std::uint64_t end);
  void kill_below(const format::Blkptr& blkptr, unsigned level, std::uint64_t id);
  void kill(const format::Blkptr& blkptr);
  void punch(unsigned level, std::uint64_t id, const format::Blkptr& blkptr);
  void account(const format::Blkptr& before, const format::Blkptr& after);
  void grow(unsigned levels);

  const SyncContext& context_;
  const std::uint64_t object_;
  const std::shared_ptr<const format::DnodePhys> before_;
  const std::shared_ptr<const DirtyGroup> changes_;
  format::DnodePhys after_;
  TreeShape shape_;
  std::uint64_t cost_ = 0;
  std::map<std::uint64_t, std::shared_ptr<Buffer>>::const_iterator next_;
  bool spill_queued_ = false;
  std::vector<std::map<std::uint64_t, Node>> nodes_;  // by level; [0] is empty
};

// Writes the trees: data, then each level in turn. Afterwards every after() is final.
Result<void> write_trees(const SyncContext& context,
                         std::span<const std::unique_ptr<SyncTree>> trees);

}  // namespace zuse::object
