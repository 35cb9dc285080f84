#include "fs/object/accounting.h"

#include "fs/object/zap.h"

namespace zuse::object {

namespace {

// What every object costs beside its blocks, however many slots it has.
constexpr std::uint64_t kObjectCost = 512;

}  // namespace

void Accounting::charge(const format::DnodePhys& dnode, std::int64_t sign, bool objects) {
  const auto owner = owner_of_(dnode.bonus_type, dnode.bonus);
  if (!owner) {
    return;
  }
  const auto bytes = static_cast<std::int64_t>(dnode.used_bytes() + kObjectCost) * sign;
  const auto add = [&](std::size_t kind, std::uint64_t id) {
    Delta& delta = deltas_[kind][id];
    delta.bytes += bytes;
    delta.objects += objects ? sign : 0;
  };
  add(0, owner->user);
  add(1, owner->group);
  if (policy_.project_accounting) {
    add(2, owner->project);
  }
}

void Accounting::note(const format::DnodePhys& before, format::DnodePhys& after) {
  touched_ = true;
  if (before.type != format::ObjectType::none &&
      (before.flags & format::kDnodeUserUsedAccounted) != 0) {
    charge(before, -1, (before.flags & format::kDnodeUserObjectsAccounted) != 0);
  }
  if (after.type == format::ObjectType::none) {
    return;
  }
  charge(after, 1, policy_.user_object_accounting);
  after.flags |= format::kDnodeUserUsedAccounted;
  if (policy_.user_object_accounting) {
    after.flags |= format::kDnodeUserObjectsAccounted;
  } else {
    after.flags =
        static_cast<std::uint8_t>(after.flags & ~unsigned{format::kDnodeUserObjectsAccounted});
  }
}

Result<void> Accounting::apply(Tx& tx,
                               const std::function<Result<DnodeRef>(std::int64_t)>& special) {
  if (!touched_) {
    return {};
  }
  constexpr std::array kObjects{kUserUsedObject, kGroupUsedObject, kProjectUsedObject};
  const std::size_t kinds = policy_.project_accounting ? 3 : 2;
  bool any = false;
  for (const auto& ids : deltas_) {
    any = any || !ids.empty();
  }
  for (std::size_t kind = 0; any && kind < kinds; ++kind) {
    ZUSE_TRY(const DnodeRef dnode, special(kObjects[kind]));
    Zap zap(dnode);
    for (const auto& [id, delta] : deltas_[kind]) {
      const std::string key = Zap::hex_key(id);
      if (delta.bytes != 0) {
        ZUSE_TRY_VOID(zap.increment(tx, key, delta.bytes));
      }
      if (delta.objects != 0) {
        ZUSE_TRY_VOID(zap.increment(tx, "obj-" + key, delta.objects));
      }
    }
  }
  return {};
}

}  // namespace zuse::object
