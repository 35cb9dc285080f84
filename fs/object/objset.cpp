// Opening and making object sets, and finding the objects in them.
#include "fs/object/objset.h"

#include <algorithm>
#include <utility>

#include "fs/object/block_tree.h"
#include "fs/object/dnode_internal.h"
#include "fs/object/objset_impl.h"
#include "vdev/base/units.h"

namespace zuse::object {

using format::Blkptr;
using format::DnodePhys;
using format::ObjectType;

namespace {

constexpr std::uint32_t kDnodeBlockSize = 16384;
constexpr std::uint8_t kDefaultIndirectShift = 17;

// The array of objects of a new set. source: format page 05 section 1.3.
DnodePhys new_meta_dnode(format::ObjsetType type) {
  DnodePhys meta;
  meta.type = ObjectType::dnode;
  meta.indirect_shift = kDefaultIndirectShift;
  meta.block_size = kDnodeBlockSize;
  meta.blkptr.assign(3, Blkptr{});
  meta.flags = format::kDnodeUsedBytes;
  const std::uint64_t blocks = kMaxObject / (kDnodeBlockSize / format::kDnodeSlotSize);
  meta.levels = type == format::ObjsetType::meta ? std::uint8_t{1}
                                                 : static_cast<std::uint8_t>(TreeShape::levels_for(
                                                       blocks - 1, 3, kDefaultIndirectShift - 7));
  return meta;
}

}  // namespace

Result<std::unique_ptr<Objset>> Objset::open(ObjsetContext context, const Blkptr& root) {
  const std::string name = context.name;
  const auto attempt = [&]() -> Result<std::unique_ptr<Objset>> {
    format::ObjsetPhys phys;
    std::size_t size = format::kObjsetSizeV3;
    if (!root.is_hole()) {
      if (root.type != ObjectType::objset || root.level != 0 || root.embedded) {
        return fail(Errc::corrupt, "the root pointer is not that of an object set");
      }
      const pool::Bookmark at{.objset = context.id, .object = 0, .level = -1, .block = 0};
      ZUSE_TRY(const SharedBuffer block, context.store.read(root, at));
      ZUSE_TRY(phys, format::decode_objset(block->span(), root.order));
      size = std::min(block->size(), format::kObjsetSizeV3);
      size = size >= format::kObjsetSizeV3   ? format::kObjsetSizeV3
             : size >= format::kObjsetSizeV2 ? format::kObjsetSizeV2
                                             : format::kObjsetSizeV1;
    }
    if (phys.meta_dnode.type == ObjectType::none) {
      phys.meta_dnode = new_meta_dnode(phys.type);
    }
    const DnodePhys& meta = phys.meta_dnode;
    ZUSE_TRY_VOID(check_shape(meta));
    if (meta.type != ObjectType::dnode || (meta.block_size & (meta.block_size - 1)) != 0) {
      return fail(Errc::corrupt, "the array of objects has an impossible shape");
    }
    for (const DnodePhys* special : {&phys.user_used, &phys.group_used, &phys.project_used}) {
      if (special->type != ObjectType::none) {
        ZUSE_TRY_VOID(check_shape(*special));
      }
    }
    return std::make_unique<ObjsetImpl>(std::move(context), std::move(phys), root, size);
  };
  auto opened = attempt();
  if (!opened) {
    return std::unexpected(std::move(opened).error().within("object set of " + name));
  }
  return opened;
}

std::unique_ptr<Objset> Objset::create(ObjsetContext context, format::ObjsetType type,
                                       std::uint64_t txg) {
  format::ObjsetPhys phys;
  phys.type = type;
  phys.meta_dnode = new_meta_dnode(type);
  const std::size_t size =
      context.policy.project_accounting ? format::kObjsetSizeV3 : format::kObjsetSizeV2;
  auto made = std::make_unique<ObjsetImpl>(std::move(context), std::move(phys), Blkptr{}, size);
  made->mark_new(txg);
  return made;
}

ObjsetImpl::ObjsetImpl(ObjsetContext context, format::ObjsetPhys phys, const Blkptr& root,
                       std::size_t size)
    : context_(std::move(context)),
      type_(phys.type),
      size_(size),
      slots_per_block_(phys.meta_dnode.block_size / format::kDnodeSlotSize),
      policy_(context_.policy),
      root_(root),
      zil_(phys.zil),
      flags_(phys.flags),
      synced_zil_(phys.zil),
      synced_flags_(phys.flags) {
  meta_ = new_dnode(0, std::make_shared<const DnodePhys>(std::move(phys.meta_dnode)));
  std::int64_t id = kUserUsedObject;
  for (DnodePhys* special : {&phys.user_used, &phys.group_used, &phys.project_used}) {
    if (special->type != ObjectType::none) {
      special_[static_cast<std::size_t>(-id - 1)] = new_dnode(
          static_cast<std::uint64_t>(id), std::make_shared<const DnodePhys>(std::move(*special)));
    }
    --id;
  }
}

ObjsetImpl::~ObjsetImpl() {
  prefetcher_.stop();
}

ObjsetPolicy ObjsetImpl::policy() const {
  const LockGuard lock(mutex_);
  return policy_;
}

void ObjsetImpl::set_policy(const ObjsetPolicy& policy) {
  const LockGuard lock(mutex_);
  policy_ = policy;
}

format::ZilHeader ObjsetImpl::zil_header() const {
  const LockGuard lock(mutex_);
  return zil_;
}

void ObjsetImpl::set_zil_header(Tx& tx, const format::ZilHeader& header) {
  const LockGuard lock(mutex_);
  zil_ = header;
  const LockGuard dirty_lock(dirty_mutex_);
  Pending& pending = pending_[tx.slot()];
  pending.any = true;
  pending.zil = header;
}

std::uint64_t ObjsetImpl::flags() const {
  const LockGuard lock(mutex_);
  return flags_;
}

void ObjsetImpl::set_flags(Tx& tx, std::uint64_t flags) {
  const LockGuard lock(mutex_);
  flags_ = flags;
  const LockGuard dirty_lock(dirty_mutex_);
  Pending& pending = pending_[tx.slot()];
  pending.any = true;
  pending.flags = flags;
}

void ObjsetImpl::mark_new(std::uint64_t txg) {
  const LockGuard lock(dirty_mutex_);
  pending_[txg % pool::kTxgSlots].any = true;
}

std::uint64_t ObjsetImpl::object_count() const {
  const LockGuard lock(mutex_);
  return root_.fill_count();
}

Blkptr ObjsetImpl::root() const {
  const LockGuard lock(mutex_);
  return root_;
}

DnodeRef ObjsetImpl::special(std::int64_t id) {
  if (id >= 0 || id < kProjectUsedObject) {
    return nullptr;
  }
  const LockGuard lock(mutex_);
  return special_[static_cast<std::size_t>(-id - 1)];
}

bool ObjsetImpl::dirty(std::uint64_t txg) const {
  const LockGuard lock(dirty_mutex_);
  const std::size_t slot = txg % pool::kTxgSlots;
  return pending_[slot].any || !dirty_[slot].empty();
}

void ObjsetImpl::note_dirty(std::shared_ptr<Dnode> dnode, std::uint64_t txg) {
  const std::uint64_t object = dnode->object();
  if (object == 0 || object >= kMaxObject) {
    return;  // the sync itself changes these, and looks at them every time
  }
  const LockGuard lock(dirty_mutex_);
  dirty_[txg % pool::kTxgSlots].push_back(std::move(dnode));
}

void ObjsetImpl::add_dirty_bytes(std::uint64_t txg, std::uint64_t bytes) {
  if (context_.on_dirty) {
    context_.on_dirty(txg, bytes);
  }
}

DnodeRef ObjsetImpl::new_dnode(std::uint64_t object, std::shared_ptr<const DnodePhys> phys) {
  return DnodeRef(new Dnode(*this, *this, object, std::move(phys)));
}

DnodeRef ObjsetImpl::live_locked(std::uint64_t object) const {
  const auto it = table_.find(object);
  return it == table_.end() ? nullptr : it->second.lock();
}

void ObjsetImpl::remember_locked(std::uint64_t object, const DnodeRef& dnode) {
  table_[object] = dnode;
  if (table_.size() >= sweep_at_) {
    std::erase_if(table_, [](const auto& entry) { return entry.second.expired(); });
    sweep_at_ = std::max<std::size_t>(1024, table_.size() * 2);
  }
}

bool ObjsetImpl::inside_new_locked(std::uint64_t object) const {
  const auto it = new_objects_.lower_bound(object);
  if (it == new_objects_.begin()) {
    return false;
  }
  const auto& [number, slots] = *std::prev(it);
  return object - number < slots;
}

Result<DnodeRef> ObjsetImpl::hold(std::uint64_t object) {
  const auto missing = [&] {
    return fail(Errc::not_found,
                "object " + std::to_string(object) + " of " + context_.name + " does not exist");
  };
  const auto interior = [&] {
    return fail(Errc::exists, "object " + std::to_string(object) + " of " + context_.name +
                                  " is the inside of a larger one");
  };
  if (object == 0 || object >= kMaxObject) {
    return missing();
  }
  for (;;) {
    std::uint64_t stores = 0;
    {
      const LockGuard lock(mutex_);
      if (DnodeRef live = live_locked(object)) {
        if (!live->allocated()) {
          return missing();
        }
        return live;
      }
      if (inside_new_locked(object)) {
        return interior();
      }
      stores = stores_;
    }
    const std::uint64_t block = object / slots_per_block();
    if (block > meta_->max_block()) {
      return missing();
    }
    ByteOrder order = kHostOrder;
    ZUSE_TRY(const SharedBuffer bytes, meta_->read_ordered(block, order));
    const std::size_t wanted = object % slots_per_block();
    std::optional<DnodePhys> found;
    bool inside = false;
    ZUSE_TRY_VOID(format::for_each_dnode(
        bytes->span(), [&](std::size_t slot, std::span<const std::byte> dnode) -> Result<void> {
          const std::size_t slots = dnode.size() / format::kDnodeSlotSize;
          if (slot == wanted) {
            auto decoded = format::decode_dnode(dnode, order);
            if (decoded) {
              auto shape = check_shape(*decoded);
              if (!shape) {
                decoded = std::unexpected(std::move(shape).error());
              }
            }
            if (!decoded) {
              return std::unexpected(std::move(decoded).error().within(
                  "object " + std::to_string(object) + " of " + context_.name));
            }
            found = *std::move(decoded);
          } else if (slot < wanted && wanted - slot < slots) {
            inside = true;
          }
          return {};
        }));
    const LockGuard lock(mutex_);
    if (stores != stores_) {
      continue;  // a sync has stored dnodes meanwhile: what was read may be old
    }
    if (DnodeRef live = live_locked(object)) {
      if (!live->allocated()) {
        return missing();
      }
      return live;
    }
    if (inside) {
      return interior();
    }
    if (!found) {
      return missing();
    }
    DnodeRef dnode = new_dnode(object, std::make_shared<const DnodePhys>(*std::move(found)));
    remember_locked(object, dnode);
    return dnode;
  }
}

Result<std::uint64_t> ObjsetImpl::next_object(std::uint64_t after) {
  const std::uint64_t none = kMaxObject;
  std::uint64_t in_memory = none;
  {
    const LockGuard lock(mutex_);
    for (auto it = new_objects_.upper_bound(after); it != new_objects_.end(); ++it) {
      const DnodeRef live = live_locked(it->first);
      if (live && live->allocated()) {
        in_memory = it->first;
        break;
      }
    }
  }
  std::uint64_t on_disk = none;
  for (std::uint64_t from = after + 1; from < in_memory && on_disk == none;) {
    auto at = meta_->next_block(from / slots_per_block(), true);
    if (!at && at.error().code() == Errc::not_found) {
      break;
    }
    if (!at) {
      return std::unexpected(std::move(at).error());
    }
    const std::uint64_t block = *at;
    ByteOrder order = kHostOrder;
    ZUSE_TRY(const SharedBuffer bytes, meta_->read_ordered(block, order));
    std::vector<std::uint64_t> candidates;
    ZUSE_TRY_VOID(format::for_each_dnode(
        bytes->span(), [&](std::size_t slot, std::span<const std::byte>) -> Result<void> {
          const std::uint64_t object = block * slots_per_block() + slot;
          if (object > after && object != 0) {
            candidates.push_back(object);
          }
          return {};
        }));
    const LockGuard lock(mutex_);
    for (const std::uint64_t object : candidates) {
      const DnodeRef live = live_locked(object);
      if (!live || live->allocated()) {
        on_disk = object;
        break;
      }
    }
    from = (block + 1) * slots_per_block();
  }
  const std::uint64_t found = std::min(in_memory, on_disk);
  if (found == none) {
    return fail(Errc::not_found, "no object beyond " + std::to_string(after));
  }
  return found;
}

}  // namespace zuse::object
