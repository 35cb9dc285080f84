// The sync of an object set: objects, then the accounting, then the array of objects, then the
// block that all hang from.
#include <algorithm>
#include <cstring>
#include <utility>

#include "fs/object/dnode_internal.h"
#include "fs/object/objset_impl.h"
#include "fs/object/zap.h"
#include "vdev/base/units.h"

namespace zuse::object {

using format::Blkptr;
using format::DnodePhys;
using format::ObjectType;

namespace {

// Objects are synced in batches: large enough to keep all cores busy, small enough that their
// indirect blocks fit into memory.
constexpr std::uint64_t kBatchBytes = 128 * kMiB;
constexpr std::size_t kBatchObjects = 4096;

}  // namespace

// Puts finished dnodes into their blocks, where every reader of the array sees them.
Result<void> ObjsetImpl::store_dnodes(const SyncContext& context,
                                      std::span<const std::unique_ptr<SyncTree>> trees,
                                      std::span<const DnodeRef> dnodes) {
  Tx tx = Tx::syncing(context.txg);
  std::vector<std::uint64_t> blocks;
  for (const DnodeRef& dnode : dnodes) {
    const std::uint64_t block = dnode->object() / slots_per_block();
    if (blocks.empty() || blocks.back() != block) {
      blocks.push_back(block);
    }
  }
  meta_->preload(blocks, false);
  for (std::size_t i = 0; i < trees.size();) {
    const std::uint64_t block = dnodes[i]->object() / slots_per_block();
    // Objects that were made and freed within the group have never been there.
    const auto absent = [&](std::size_t at) {
      return trees[at]->before().type == ObjectType::none &&
             trees[at]->after().type == ObjectType::none;
    };
    std::size_t end = i;
    bool any = false;
    for (; end < trees.size() && dnodes[end]->object() / slots_per_block() == block; ++end) {
      any = any || !absent(end);
    }
    if (any) {
      Dnode::WritePath path;
      ZUSE_TRY_VOID(meta_->change_block(tx, block, false, path, [&](std::span<std::byte> bytes) {
        for (std::size_t at = i; at < end; ++at) {
          if (!absent(at)) {
            const std::size_t slot = dnodes[at]->object() % slots_per_block();
            format::encode_dnode(trees[at]->after(), bytes.subspan(slot * format::kDnodeSlotSize),
                                 kHostOrder);
          }
        }
      }));
    }
    i = end;
  }
  return {};
}

Result<void> ObjsetImpl::sync_objects(const SyncContext& context, std::vector<DnodeRef>& dnodes,
                                      Accounting* accounting) {
  std::sort(dnodes.begin(), dnodes.end(),
            [](const DnodeRef& a, const DnodeRef& b) { return a->object() < b->object(); });
  for (std::size_t next = 0; next < dnodes.size();) {
    std::vector<std::unique_ptr<SyncTree>> trees;
    std::vector<DnodeRef> batch;
    std::uint64_t bytes = 0;
    for (; next < dnodes.size() && bytes < kBatchBytes && batch.size() < kBatchObjects; ++next) {
      auto changes = dnodes[next]->begin_sync(context.txg);
      if (!changes) {
        continue;
      }
      auto tree = std::make_unique<SyncTree>(context, dnodes[next]->object(), dnodes[next]->phys(),
                                             std::move(changes));
      if (auto prepared = tree->prepare(); !prepared) {
        return std::unexpected(dnodes[next]->within(std::move(prepared).error()));
      }
      bytes += tree->cost();
      trees.push_back(std::move(tree));
      batch.push_back(dnodes[next]);
    }
    ZUSE_TRY_VOID(write_trees(context, trees));
    if (accounting != nullptr) {
      for (const auto& tree : trees) {
        accounting->note(tree->before(), tree->after());
      }
    }
    ZUSE_TRY_VOID(store_dnodes(context, trees, batch));
    for (std::size_t i = 0; i < trees.size(); ++i) {
      batch[i]->finish_sync(std::make_shared<const DnodePhys>(std::move(trees[i]->after())));
    }
    const LockGuard lock(mutex_);
    ++stores_;
    for (const DnodeRef& dnode : batch) {
      new_objects_.erase(dnode->object());
      if (!dnode->allocated() && !dnode->dirty()) {
        table_.erase(dnode->object());
      }
    }
  }
  return {};
}

// The meta dnode and the accounting objects: their dnodes lie in the objset block.
Result<void> ObjsetImpl::sync_hidden(const SyncContext& context, Dnode& dnode) {
  auto changes = dnode.begin_sync(context.txg);
  if (!changes) {
    return {};
  }
  std::vector<std::unique_ptr<SyncTree>> trees;
  trees.push_back(
      std::make_unique<SyncTree>(context, dnode.object(), dnode.phys(), std::move(changes)));
  if (auto prepared = trees[0]->prepare(); !prepared) {
    return std::unexpected(dnode.within(std::move(prepared).error()));
  }
  ZUSE_TRY_VOID(write_trees(context, trees));
  dnode.finish_sync(std::make_shared<const DnodePhys>(std::move(trees[0]->after())));
  return {};
}

Result<DnodeRef> ObjsetImpl::make_special(Tx& tx, std::int64_t id) {
  const auto index = static_cast<std::size_t>(-id - 1);
  {
    const LockGuard lock(mutex_);
    if (special_[index]) {
      return special_[index];
    }
  }
  DnodeHeader header;
  header.allocated = true;
  header.type = ObjectType::user_group_used;
  header.block_pointers = 3;
  const DnodeRef dnode =
      new_dnode(static_cast<std::uint64_t>(id), std::make_shared<const DnodePhys>());
  dnode->make(tx, std::move(header));
  ZUSE_TRY_VOID(Zap::initialise(*dnode, tx));
  const LockGuard lock(mutex_);
  special_[index] = dnode;
  return dnode;
}

Result<Blkptr> ObjsetImpl::write_root(const SyncContext& context, const Pending& pending) {
  format::ObjsetPhys phys;
  phys.meta_dnode = *meta_->phys();
  synced_zil_ = pending.zil.value_or(synced_zil_);
  synced_flags_ = pending.flags.value_or(synced_flags_);
  phys.zil = synced_zil_;
  phys.flags = synced_flags_;
  phys.type = type_;
  Blkptr before;
  {
    const LockGuard lock(mutex_);
    before = root_;
    const auto put = [&](std::size_t index, DnodePhys& into) {
      if (special_[index]) {
        into = *special_[index]->phys();
      }
    };
    put(0, phys.user_used);
    put(1, phys.group_used);
    put(2, phys.project_used);
  }
  if (phys.project_used.type != ObjectType::none) {
    size_ = format::kObjsetSizeV3;
  } else if (phys.user_used.type != ObjectType::none) {
    size_ = std::max(size_, format::kObjsetSizeV2);
  }
  auto block = std::make_shared<Buffer>(size_);
  format::encode_objset(phys, block->span(), kHostOrder);
  std::array<pool::BlockWriteJob, 1> jobs;
  pool::BlockWriteJob& job = jobs[0];
  job.data = std::as_const(*block).span();
  job.properties = context.properties(ObjectType::objset, 0, true, 0, 0);
  job.bookmark = {.objset = context_.id, .object = 0, .level = -1, .block = 0};
  job.blkptr = before;
  job.cacheable = block;
  context.store.write(context.txg, jobs);
  if (!job.result) {
    return std::unexpected(
        std::move(job.result).error().within("writing the object set of " + context_.name));
  }
  Blkptr after = job.blkptr;
  after.fill = 0;
  for (const Blkptr& blkptr : phys.meta_dnode.blkptr) {
    after.fill += blkptr.fill_count();
  }
  context.replaced(before, after);
  const LockGuard lock(mutex_);
  root_ = after;
  return after;
}

Result<Blkptr> ObjsetImpl::sync(std::uint64_t txg, unsigned pass) {
  std::vector<DnodeRef> dnodes;
  Pending pending;
  {
    const LockGuard lock(dirty_mutex_);
    dnodes.swap(dirty_[txg % pool::kTxgSlots]);
    pending = std::exchange(pending_[txg % pool::kTxgSlots], Pending{});
  }
  if (dnodes.empty() && !pending.any) {
    return root();
  }
  const SyncContext context{.store = context_.store,
                            .owner = context_.owner,
                            .policy = policy(),
                            .objset = context_.id,
                            .name = context_.name,
                            .txg = txg,
                            .compress = pass < kNoCompressPass};
  Accounting accounting(context_.owner_of, context.policy);
  const bool account = context.policy.user_accounting && type_ == format::ObjsetType::zfs &&
                       static_cast<bool>(context_.owner_of);
  ZUSE_TRY_VOID(sync_objects(context, dnodes, account ? &accounting : nullptr));
  Tx tx = Tx::syncing(txg);
  if (account) {
    ZUSE_TRY_VOID(accounting.apply(
        tx, [&](std::int64_t special_id) { return make_special(tx, special_id); }));
  }
  for (std::int64_t special_id = kUserUsedObject; special_id >= kProjectUsedObject; --special_id) {
    if (const DnodeRef dnode = special(special_id)) {
      ZUSE_TRY_VOID(sync_hidden(context, *dnode));
    }
  }
  ZUSE_TRY_VOID(sync_hidden(context, *meta_));
  return write_root(context, pending);
}

}  // namespace zuse::object
