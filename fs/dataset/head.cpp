#include "fs/dataset/head.h"

#include <algorithm>
#include <utility>

namespace zuse::dataset {
namespace {

constexpr std::uint64_t kLargeBlock = 131072;  // blocks above it need the feature large_blocks

std::int64_t as_signed(std::uint64_t value) {
  return static_cast<std::int64_t>(value);
}

}  // namespace

Head::Head(Pool& pool, PoolServices& services, pool::BlockStore& store, NamedDataset named,
           const format::DslDatasetPhys& phys, PropertySet properties, bool read_only)
    : pool_(pool),
      services_(services),
      store_(store),
      named_(std::move(named)),
      fsid_(phys.fsid_guid),
      prev_snap_txg_(phys.prev_snap_txg),
      properties_(std::move(properties)),
      read_only_(read_only) {}

Result<object::Tx> Head::begin(std::uint64_t bytes, bool frees) {
  if (read_only_) {
    return fail(Errc::read_only, "dataset '" + named_.name + "' is read-only");
  }
  ZUSE_TRY_VOID(services_.reserve(named_.directory, bytes, frees));
  ZUSE_TRY(pool::TxHold hold, services_.hold_txg());
  return object::Tx(std::move(hold));
}

Result<void> Head::sync() {
  return read_only_ ? Result<void>() : services_.wait_synced();
}

Space Head::space() const {
  Space space;
  const auto phys = services_.dsl().dataset(named_.dataset);
  const auto dir = services_.dsl().directory(named_.directory);
  if (phys) {
    space.referenced = phys->referenced;
    space.unique = phys->unique;
    space.used = phys->unique;
  }
  if (dir && !named_.snapshot) {
    space.used = dir->used;
    space.available = services_.available(named_.directory).value_or(0);
  }
  return space;
}

void Head::born(std::uint64_t, const format::Blkptr& blkptr) {
  const BlockSpace space = space_of(store_, blkptr);
  const LockGuard lock(mutex_);
  changes_.born += space;
  changes_.large_blocks |= blkptr.lsize > kLargeBlock;
  changes_.sha512 |= !blkptr.embedded && blkptr.checksum_type == format::Checksum::sha512;
  changes_.zstd |= blkptr.compression == format::Compression::zstd;
}

void Head::killed(std::uint64_t txg, const format::Blkptr& blkptr) {
  if (blkptr.allocation_birth() > prev_snap_txg_) {
    store_.free(txg, blkptr);
    const BlockSpace space = space_of(store_, blkptr);
    const LockGuard lock(mutex_);
    changes_.killed += space;
  } else {
    const LockGuard lock(mutex_);
    changes_.dead.push_back(blkptr);
  }
}

Result<void> Head::sync_txg(object::Tx& tx, Features& features) {
  if (read_only_ || !objset_->dirty(tx.txg())) {
    return {};
  }
  ZUSE_TRY(const format::Blkptr root, objset_->sync(tx.txg(), 1));
  ZUSE_TRY(auto phys, services_.dsl().dataset(named_.dataset));
  phys.bp = root;
  services_.dsl().put_dataset(named_.dataset, phys);
  Changes changes;
  {
    const LockGuard lock(mutex_);
    changes = std::exchange(changes_, {});
  }
  return book(tx, features, std::move(changes));
}

Result<void> Head::book(object::Tx& tx, Features& features, Changes changes) {
  Dsl& dsl = services_.dsl();
  ZUSE_TRY(auto phys, dsl.dataset(named_.dataset));
  ZUSE_TRY(const auto dir, dsl.directory(named_.directory));

  SpaceDelta delta;
  delta += changes.born;
  delta -= changes.killed;
  const auto reserved = as_signed(properties_.number("refreservation"));
  const std::int64_t unique_before = as_signed(phys.unique);
  const std::int64_t unique_after = unique_before + delta.used;
  const std::int64_t charged = std::max(unique_after, reserved) - std::max(unique_before, reserved);
  const auto add = [](std::uint64_t& value, std::int64_t by) {
    value += static_cast<std::uint64_t>(by);
  };
  add(phys.referenced, delta.used);
  add(phys.compressed, delta.compressed);
  add(phys.uncompressed, delta.uncompressed);
  add(phys.unique, delta.used);
  ZUSE_TRY_VOID(dsl.did_use_transfer(named_.directory,
                                     {charged, delta.compressed, delta.uncompressed}, delta.used,
                                     format::UsedPart::refrsrv, format::UsedPart::head));

  if (!changes.dead.empty()) {
    ZUSE_TRY(Deadlist deadlist, Deadlist::open(dsl.mos(), phys.deadlist));
    ZUSE_TRY(auto previous, dsl.dataset(phys.prev_snap));
    std::uint64_t origin_txg = 0;
    if (dir.origin != 0) {
      ZUSE_TRY(const auto origin, dsl.dataset(dir.origin));
      origin_txg = origin.creation_txg;
    }
    std::int64_t moved = 0;
    for (const format::Blkptr& blkptr : changes.dead) {
      const BlockSpace space = space_of(store_, blkptr);
      ZUSE_TRY_VOID(deadlist.insert(tx, features, blkptr));
      phys.referenced -= space.used;
      phys.compressed -= space.compressed;
      phys.uncompressed -= space.uncompressed;
      if (previous.next_snap == named_.dataset &&
          blkptr.allocation_birth() > previous.prev_snap_txg) {
        previous.unique += space.used;
      }
      if (blkptr.allocation_birth() > origin_txg) {
        moved += as_signed(space.used);
      }
    }
    dsl.put_dataset(phys.prev_snap, previous);
    ZUSE_TRY_VOID(
        dsl.transfer(named_.directory, moved, format::UsedPart::head, format::UsedPart::snap));
  }
  dsl.put_dataset(named_.dataset, phys);
  if (changes.large_blocks) {
    ZUSE_TRY_VOID(activate(tx, features, feature::kLargeBlocks));
  }
  if (changes.sha512) {
    ZUSE_TRY_VOID(activate(tx, features, feature::kSha512));
  }
  if (changes.zstd) {
    ZUSE_TRY_VOID(activate(tx, features, feature::kZstdCompress));
  }
  return {};
}

// Marks the dataset as using a feature: an entry in the dataset object, which becomes a ZAP for it.
// source: format page 07 sections 1 ("zapify"), 9.
Result<void> Head::activate(object::Tx& tx, Features& features, std::string_view guid) {
  object::Objset& mos = services_.dsl().mos();
  ZUSE_TRY(const object::DnodeRef dnode, mos.hold(named_.dataset));
  if (dnode->type() == format::ObjectType::dsl_dataset) {
    ZUSE_TRY_VOID(dnode->set_type(tx, format::ObjectType::zap_metadata));
    ZUSE_TRY_VOID(object::Zap::initialise(*dnode, tx));
    ZUSE_TRY_VOID(features.adjust(mos, tx, feature::kExtensibleDataset, 1));
  }
  object::Zap zap(dnode);
  ZUSE_TRY(const bool there, zap.contains(guid));
  if (there) {
    return {};
  }
  ZUSE_TRY_VOID(zap.add(tx, guid, 0));
  return features.adjust(mos, tx, guid, 1);
}

}  // namespace zuse::dataset
