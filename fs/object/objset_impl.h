// ObjsetImpl: the one implementation of Objset. Internal to fs/object.
//
// The array of objects is itself an object (the meta dnode, number 0) whose blocks hold 512-byte
// dnode slots. Live Dnodes are found by number in a table of weak references, one for each number;
// a dirty one is kept alive by the list of its group. New objects are known here until the sync has
// put them into their block; a freed number is not given out again before its group is on disk.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "fs/object/accounting.h"
#include "fs/object/dirty.h"
#include "fs/object/objset.h"
#include "fs/object/prefetcher.h"
#include "fs/object/sync_tree.h"
#include "vdev/base/sync.h"

namespace zuse::object {

inline constexpr std::uint64_t kMaxObject = std::uint64_t{1} << 48;  // exclusive

class ObjsetImpl final : public Objset, public DnodeHost {
 public:
  ObjsetImpl(ObjsetContext context, format::ObjsetPhys phys, const format::Blkptr& root,
             std::size_t size);
  ~ObjsetImpl() override;

  std::uint64_t id() const override { return context_.id; }
  const std::string& name() const override { return context_.name; }
  format::ObjsetType type() const override { return type_; }
  bool read_only() const override { return context_.read_only; }
  ObjsetPolicy policy() const override;
  void set_policy(const ObjsetPolicy& policy) override;
  pool::BlockStore& store() override { return context_.store; }
  format::ZilHeader zil_header() const override;
  void set_zil_header(Tx& tx, const format::ZilHeader& header) override;
  std::uint64_t flags() const override;
  void set_flags(Tx& tx, std::uint64_t flags) override;

  Result<DnodeRef> hold(std::uint64_t object) override;
  Result<DnodeRef> allocate(Tx& tx, const NewObject& spec) override;
  Result<void> free_object(Tx& tx, std::uint64_t object) override;
  Result<std::uint64_t> next_object(std::uint64_t after) override;
  std::uint64_t object_count() const override;
  DnodeRef special(std::int64_t id) override;

  bool dirty(std::uint64_t txg) const override;
  Result<format::Blkptr> sync(std::uint64_t txg, unsigned pass) override;
  format::Blkptr root() const override;

  void note_dirty(std::shared_ptr<Dnode> dnode, std::uint64_t txg) override;
  void add_dirty_bytes(std::uint64_t txg, std::uint64_t bytes) override;
  void in_background(std::function<void()> task) override { prefetcher_.add(std::move(task)); }

  // Makes the first sync, in `txg`, write the object set even if nothing else changes.
  void mark_new(std::uint64_t txg);

 private:
  // What a group changes in the object set's own block.
  struct Pending {
    bool any = false;
    std::optional<std::uint64_t> flags;
    std::optional<format::ZilHeader> zil;
  };
  // One block of dnodes, as a map of slots in use.
  struct Window {
    std::uint64_t block = 0;
    std::vector<bool> used;  // empty: no window is loaded
  };

  std::uint64_t slots_per_block() const noexcept { return slots_per_block_; }
  DnodeRef new_dnode(std::uint64_t object, std::shared_ptr<const format::DnodePhys> phys);
  // The live Dnode of a number, freed or not; null if there is none.
  DnodeRef live_locked(std::uint64_t object) const ZUSE_REQUIRES(mutex_);
  void remember_locked(std::uint64_t object, const DnodeRef& dnode) ZUSE_REQUIRES(mutex_);
  // Whether `object` is a later slot of a new object that has no block yet.
  bool inside_new_locked(std::uint64_t object) const ZUSE_REQUIRES(mutex_);

  // Which slots of a dnode block are in use on disk.
  Result<std::vector<bool>> used_slots(std::uint64_t block);
  void overlay_locked(std::uint64_t block, std::vector<bool>& used) const ZUSE_REQUIRES(mutex_);
  // The next block from `block` on that is not full.
  Result<std::uint64_t> block_with_room(std::uint64_t block);
  Result<DnodeRef> allocate_at(Tx& tx, const NewObject& spec, const DnodeHeader& header);
  DnodeRef take_locked(Tx& tx, std::uint64_t object, const DnodeHeader& header)
      ZUSE_REQUIRES(mutex_);

  Result<void> sync_objects(const SyncContext& context, std::vector<DnodeRef>& dnodes,
                            Accounting* accounting);
  Result<void> store_dnodes(const SyncContext& context,
                            std::span<const std::unique_ptr<SyncTree>> trees,
                            std::span<const DnodeRef> dnodes);
  Result<void> sync_hidden(const SyncContext& context, Dnode& dnode);
  Result<DnodeRef> make_special(Tx& tx, std::int64_t id);
  Result<format::Blkptr> write_root(const SyncContext& context, const Pending& pending);

  ObjsetContext context_;
  const format::ObjsetType type_;
  std::size_t size_;  // bytes of the objset block; only the sync thread touches it
  std::uint64_t slots_per_block_ = 32;
  DnodeRef meta_;

  mutable Mutex mutex_{LockRank::objset};
  std::array<DnodeRef, 3> special_ ZUSE_GUARDED_BY(mutex_);
  ObjsetPolicy policy_ ZUSE_GUARDED_BY(mutex_);
  format::Blkptr root_ ZUSE_GUARDED_BY(mutex_);
  format::ZilHeader zil_ ZUSE_GUARDED_BY(mutex_);
  std::uint64_t flags_ ZUSE_GUARDED_BY(mutex_) = 0;
  format::ZilHeader synced_zil_;    // sync thread
  std::uint64_t synced_flags_ = 0;  // sync thread
  std::unordered_map<std::uint64_t, std::weak_ptr<Dnode>> table_ ZUSE_GUARDED_BY(mutex_);
  std::size_t sweep_at_ ZUSE_GUARDED_BY(mutex_) = 1024;
  std::map<std::uint64_t, unsigned> new_objects_ ZUSE_GUARDED_BY(mutex_);  // number -> slots
  // Counts the times that dnodes were put into their blocks: who read a block before may hold old
  // news.
  std::uint64_t stores_ ZUSE_GUARDED_BY(mutex_) = 0;
  Window window_ ZUSE_GUARDED_BY(mutex_);
  std::uint64_t next_window_ ZUSE_GUARDED_BY(mutex_) = 0;
  std::uint64_t freed_since_restart_ ZUSE_GUARDED_BY(mutex_) = 0;

  mutable Mutex dirty_mutex_{LockRank::leaf};
  std::array<std::vector<DnodeRef>, pool::kTxgSlots> dirty_ ZUSE_GUARDED_BY(dirty_mutex_);
  std::array<Pending, pool::kTxgSlots> pending_ ZUSE_GUARDED_BY(dirty_mutex_);

  Prefetcher prefetcher_;  // last: its tasks use the rest
};

}  // namespace zuse::object
