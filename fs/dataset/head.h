// Head: an open dataset. A writable head hears of every block that its sync writes or lets go, and
// turns that into the space numbers of the dataset and its directory; blocks that a snapshot still
// holds go on the deadlist. source: format page 07 section 7.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fs/dataset/dataset.h"
#include "fs/dataset/deadlist.h"
#include "fs/dataset/dsl.h"
#include "fs/dataset/features.h"

namespace zuse::dataset {

// What a head asks of the pool that it belongs to.
class PoolServices {
 public:
  virtual ~PoolServices() = default;
  virtual Result<pool::TxHold> hold_txg() = 0;
  virtual Result<void> wait_synced() = 0;
  // errors: no_space. See Dataset::begin.
  virtual Result<void> reserve(std::uint64_t directory, std::uint64_t bytes, bool frees) = 0;
  virtual Result<std::uint64_t> available(std::uint64_t directory) = 0;
  virtual Dsl& dsl() = 0;
};

class Head final : public Dataset, public object::BlockOwner {
 public:
  Head(Pool& pool, PoolServices& services, pool::BlockStore& store, NamedDataset named,
       const format::DslDatasetPhys& phys, PropertySet properties, bool read_only);

  // The object set is opened after the head exists, since it reports to it.
  void attach(std::unique_ptr<object::Objset> objset) { objset_ = std::move(objset); }

  const std::string& name() const override { return named_.name; }
  std::uint64_t id() const override { return named_.dataset; }
  std::uint64_t fsid() const override { return fsid_; }
  bool is_snapshot() const override { return named_.snapshot; }
  bool read_only() const override { return read_only_; }
  Pool& pool() const override { return pool_; }
  object::Objset& objset() override { return *objset_; }
  const PropertySet& properties() const override { return properties_; }
  Result<object::Tx> begin(std::uint64_t bytes, bool frees) override;
  Result<void> sync() override;
  Space space() const override;

  void born(std::uint64_t txg, const format::Blkptr& blkptr) override;
  void killed(std::uint64_t txg, const format::Blkptr& blkptr) override;

  // Syncing context: writes what `txg` dirtied and books its space. Does nothing where it is clean.
  Result<void> sync_txg(object::Tx& tx, Features& features);
  std::uint64_t directory() const noexcept { return named_.directory; }

 private:
  struct Changes {
    BlockSpace born, killed;
    std::vector<format::Blkptr> dead;  // held by a snapshot
    bool large_blocks = false, sha512 = false, zstd = false;
  };

  Result<void> book(object::Tx& tx, Features& features, Changes changes);
  Result<void> activate(object::Tx& tx, Features& features, std::string_view guid);

  Pool& pool_;
  PoolServices& services_;
  pool::BlockStore& store_;
  const NamedDataset named_;
  const std::uint64_t fsid_;
  const std::uint64_t prev_snap_txg_;
  const PropertySet properties_;
  const bool read_only_;
  std::unique_ptr<object::Objset> objset_;
  Mutex mutex_{LockRank::leaf};
  Changes changes_ ZUSE_GUARDED_BY(mutex_);  // of the group that is syncing: there is one at a time
};

}  // namespace zuse::dataset
