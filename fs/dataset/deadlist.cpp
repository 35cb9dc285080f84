#include "fs/dataset/deadlist.h"

#include <charconv>

namespace zuse::dataset {
namespace {

constexpr std::uint64_t kDirectory = 1;  // the MOS object directory
constexpr std::uint32_t kListBlock = 131072;

}  // namespace

Result<Deadlist> Deadlist::open(object::Objset& mos, std::uint64_t object) {
  ZUSE_TRY(object::DnodeRef dnode, mos.hold(object));
  Deadlist list(mos, dnode);
  if (list.old_format()) {
    return list;
  }
  if (dnode->bonus_type() != format::ObjectType::deadlist_header) {
    return fail(Errc::corrupt, "MOS object " + std::to_string(object) + " is not a deadlist");
  }
  ZUSE_TRY_VOID(object::Zap(dnode).for_each([&](const object::ZapEntry& entry) -> Result<void> {
    std::uint64_t key = 0;
    const char* const end = entry.name.data() + entry.name.size();
    if (std::from_chars(entry.name.data(), end, key, 16).ptr != end ||
        entry.value.integers.empty()) {
      return fail(Errc::corrupt, "deadlist " + std::to_string(object) + " has a damaged entry");
    }
    list.lists_[key] = entry.value.integers[0];
    return {};
  }));
  if (list.lists_.empty()) {
    return fail(Errc::corrupt, "deadlist " + std::to_string(object) + " has no entries");
  }
  return list;
}

Result<std::uint64_t> Deadlist::create(object::Objset& mos, object::Tx& tx) {
  object::NewObject spec;
  spec.type = format::ObjectType::deadlist;
  spec.bonus_type = format::ObjectType::deadlist_header;
  spec.bonus_size = format::kDeadlistHeaderSize;
  ZUSE_TRY(object::Zap zap, object::Zap::create(mos, tx, spec));
  ZUSE_TRY(const std::uint64_t list, Bpobj::create(mos, tx, kListBlock));
  ZUSE_TRY_VOID(zap.add(tx, object::Zap::hex_key(0), list));
  return zap.object();
}

Result<BlockSpace> Deadlist::space() const {
  if (old_format()) {
    ZUSE_TRY(const Bpobj list, Bpobj::open(*mos_, dnode_->object()));
    return list.space();
  }
  ZUSE_TRY(const auto header, format::decode_deadlist_header(dnode_->bonus(), kHostOrder));
  return BlockSpace{header.used, header.compressed, header.uncompressed};
}

Result<void> Deadlist::insert(object::Tx& tx, Features& features, const format::Blkptr& blkptr) {
  if (old_format()) {
    ZUSE_TRY(Bpobj list, Bpobj::open(*mos_, dnode_->object()));
    return list.append(tx, blkptr);
  }
  std::vector<std::byte> bonus = dnode_->bonus();
  ZUSE_TRY(auto header, format::decode_deadlist_header(bonus, kHostOrder));
  const BlockSpace space = space_of(mos_->store(), blkptr);
  header.used += space.used;
  header.compressed += space.compressed;
  header.uncompressed += space.uncompressed;
  format::encode_deadlist_header(header, bonus, kHostOrder);
  ZUSE_TRY_VOID(dnode_->set_bonus(tx, bonus));

  // The greatest key strictly below the birth; the first one where there is none.
  auto it = lists_.lower_bound(blkptr.allocation_birth());
  if (it != lists_.begin()) {
    --it;
  }
  if (features.active(feature::kEmptyBpobj)) {
    // The shared empty list must never be appended to: it is replaced by one of its own.
    ZUSE_TRY(const object::Zap directory, object::Zap::open(*mos_, kDirectory));
    const auto empty = directory.lookup("empty_bpobj");
    if (empty && *empty == it->second) {
      ZUSE_TRY(it->second, Bpobj::create(*mos_, tx, kListBlock));
      ZUSE_TRY_VOID(object::Zap(dnode_).update(tx, object::Zap::hex_key(it->first), it->second));
      ZUSE_TRY_VOID(features.adjust(*mos_, tx, feature::kEmptyBpobj, -1));
      if (!features.active(feature::kEmptyBpobj)) {
        ZUSE_TRY(object::Zap names, object::Zap::open(*mos_, kDirectory));
        ZUSE_TRY_VOID(names.remove(tx, "empty_bpobj"));
        ZUSE_TRY_VOID(mos_->free_object(tx, *empty));
      }
    }
  }
  auto opened = open_.find(it->second);
  if (opened == open_.end()) {
    ZUSE_TRY(Bpobj list, Bpobj::open(*mos_, it->second));
    opened = open_.emplace(it->second, std::move(list)).first;
  }
  return opened->second.append(tx, blkptr);
}

}  // namespace zuse::dataset
