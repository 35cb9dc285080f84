// Making and freeing objects. Numbers come from a window: one block of dnodes with a map of the
// slots in use. When it is full the next block with room is looked for upwards, by the fill counts
// above the blocks, and behind the last one there is always room; after many objects were freed the
// search starts again at the bottom.
#include <algorithm>
#include <utility>

#include "fs/object/block_tree.h"
#include "fs/object/dnode_internal.h"
#include "fs/object/objset_impl.h"
#include "vdev/base/units.h"

namespace zuse::object {

using format::DnodePhys;
using format::ObjectType;

namespace {

constexpr std::uint64_t kRestartAfter = 4096;  // freed objects
constexpr unsigned kSlotsMax = 32;

// source: format page 05 section 2, "Limits".
Result<DnodeHeader> header_for(const NewObject& spec) {
  DnodeHeader header;
  header.allocated = true;
  header.type = spec.type;
  header.bonus_type = spec.bonus_type;
  header.compression = spec.compression;
  if (spec.type == ObjectType::none) {
    return fail(Errc::invalid, "an object needs a type");
  }
  if (spec.slots < 1 || spec.slots > kSlotsMax) {
    return fail(Errc::invalid, "a dnode takes 1 to 32 slots");
  }
  header.extra_slots = static_cast<std::uint8_t>(spec.slots - 1);
  const std::uint64_t size =
      round_up<std::uint64_t>(spec.block_size == 0 ? 512 : spec.block_size, 512);
  if (size > format::kMaxBlockSize) {
    return fail(Errc::invalid, "block size over 16 MiB");
  }
  header.block_size = static_cast<std::uint32_t>(size);
  header.indirect_shift = spec.indirect_shift == 0
                              ? std::uint8_t{17}
                              : std::clamp<std::uint8_t>(spec.indirect_shift, 12, 17);
  // One pointer must fit; more fill what the bonus leaves, unless attributes will want the room.
  const std::size_t room =
      spec.slots * format::kDnodeSlotSize - format::kDnodeCoreSize - format::kBlkptrSize;
  if (spec.bonus_size > room) {
    return fail(Errc::invalid, "bonus of " + std::to_string(spec.bonus_size) + " bytes, room for " +
                                   std::to_string(room));
  }
  header.block_pointers = spec.bonus_type == ObjectType::sa
                              ? std::uint8_t{1}
                              : static_cast<std::uint8_t>(std::min<std::size_t>(
                                    3, 1 + (room - spec.bonus_size) / format::kBlkptrSize));
  header.bonus.resize(spec.bonus_size);
  return header;
}

}  // namespace

Result<std::vector<bool>> ObjsetImpl::used_slots(std::uint64_t block) {
  std::vector<bool> used(slots_per_block(), false);
  if (block == 0) {
    used[0] = true;  // there is no object 0
  }
  if (block > meta_->max_block()) {
    return used;
  }
  ByteOrder order = kHostOrder;
  ZUSE_TRY(const SharedBuffer bytes, meta_->read_ordered(block, order));
  ZUSE_TRY_VOID(format::for_each_dnode(
      bytes->span(), [&](std::size_t slot, std::span<const std::byte> dnode) -> Result<void> {
        const std::size_t end = slot + dnode.size() / format::kDnodeSlotSize;
        for (std::size_t i = slot; i < end && i < used.size(); ++i) {
          used[i] = true;
        }
        return {};
      }));
  return used;
}

void ObjsetImpl::overlay_locked(std::uint64_t block, std::vector<bool>& used) const {
  const std::uint64_t first = block * slots_per_block();
  for (auto it = new_objects_.lower_bound(first);
       it != new_objects_.end() && it->first < first + slots_per_block(); ++it) {
    for (std::uint64_t i = it->first - first; i < it->first - first + it->second; ++i) {
      used[i] = true;
    }
  }
}

Result<std::uint64_t> ObjsetImpl::block_with_room(std::uint64_t block) {
  std::shared_ptr<const DnodePhys> tree = meta_->phys();
  std::optional<TreeReader> reader;
  reader.emplace(store(), id(), 0, *tree);
  for (; block <= meta_->max_block(); ++block) {
    auto blkptr = reader->find(block);
    if (!blkptr) {
      if (tree == meta_->phys()) {
        return std::unexpected(std::move(blkptr).error());
      }
      tree = meta_->phys();
      reader.emplace(store(), id(), 0, *tree);
      --block;
      continue;
    }
    if (blkptr->is_hole() || blkptr->fill_count() < slots_per_block()) {
      return block;
    }
  }
  return block;
}

DnodeRef ObjsetImpl::take_locked(Tx& tx, std::uint64_t object, const DnodeHeader& header) {
  auto phys = std::make_shared<DnodePhys>();
  phys->extra_slots = header.extra_slots;
  DnodeRef dnode = new_dnode(object, std::move(phys));
  new_objects_[object] = 1U + header.extra_slots;
  remember_locked(object, dnode);
  if (!window_.used.empty() && object / slots_per_block() == window_.block) {
    for (std::size_t i = 0; i <= header.extra_slots; ++i) {
      window_.used[object % slots_per_block() + i] = true;
    }
  }
  dnode->make(tx, header);
  return dnode;
}

Result<DnodeRef> ObjsetImpl::allocate_at(Tx& tx, const NewObject& spec, const DnodeHeader& header) {
  const std::uint64_t object = spec.object;
  const std::uint64_t block = object / slots_per_block();
  const std::uint64_t slot = object % slots_per_block();
  if (object >= kMaxObject || slot + spec.slots > slots_per_block()) {
    return fail(Errc::invalid, "object " + std::to_string(object) + " cannot have " +
                                   std::to_string(spec.slots) + " slots");
  }
  for (;;) {
    std::uint64_t stores = 0;
    {
      const LockGuard lock(mutex_);
      stores = stores_;
    }
    ZUSE_TRY(std::vector<bool> used, used_slots(block));
    const LockGuard lock(mutex_);
    if (stores != stores_) {
      continue;
    }
    if (const DnodeRef live = live_locked(object); live && !live->allocated()) {
      return fail(Errc::busy, "object " + std::to_string(object) + " of " + context_.name +
                                  " was freed in a group that is not on disk yet");
    }
    overlay_locked(block, used);
    for (std::uint64_t i = slot; i < slot + spec.slots; ++i) {
      if (used[i]) {
        return fail(Errc::exists,
                    "object " + std::to_string(object) + " of " + context_.name + " exists");
      }
    }
    return take_locked(tx, object, header);
  }
}

Result<DnodeRef> ObjsetImpl::allocate(Tx& tx, const NewObject& spec) {
  ZUSE_TRY(const DnodeHeader header, header_for(spec));
  if (spec.slots > slots_per_block()) {
    return fail(Errc::invalid, "a dnode larger than a block of dnodes");
  }
  DnodeRef dnode;
  if (spec.object != 0) {
    ZUSE_TRY(dnode, allocate_at(tx, spec, header));
  }
  while (!dnode) {
    std::uint64_t stores = 0;
    std::uint64_t from = 0;
    {
      const LockGuard lock(mutex_);
      std::size_t run = 0;
      for (std::size_t slot = 0; slot < window_.used.size(); ++slot) {
        run = window_.used[slot] ? 0 : run + 1;
        if (run == spec.slots) {
          const std::uint64_t object = window_.block * slots_per_block() + slot + 1 - run;
          if (object + spec.slots > kMaxObject) {
            return fail(Errc::too_large, "no object numbers are left");
          }
          dnode = take_locked(tx, object, header);
          break;
        }
      }
      if (dnode) {
        break;
      }
      if (freed_since_restart_ >= kRestartAfter) {
        freed_since_restart_ = 0;
        next_window_ = 0;
      }
      from = next_window_;
      stores = stores_;
    }
    ZUSE_TRY(const std::uint64_t block, block_with_room(from));
    ZUSE_TRY(std::vector<bool> used, used_slots(block));
    const LockGuard lock(mutex_);
    if (stores == stores_ && next_window_ == from) {
      overlay_locked(block, used);
      window_ = {.block = block, .used = std::move(used)};
      next_window_ = block + 1;
    }
  }
  add_dirty_bytes(tx.txg(), spec.slots * format::kDnodeSlotSize);
  return dnode;
}

Result<void> ObjsetImpl::free_object(Tx& tx, std::uint64_t object) {
  ZUSE_TRY(const DnodeRef dnode, hold(object));
  dnode->free_all(tx);
  add_dirty_bytes(tx.txg(), format::kDnodeSlotSize);
  const LockGuard lock(mutex_);
  ++freed_since_restart_;
  return {};
}

}  // namespace zuse::object
