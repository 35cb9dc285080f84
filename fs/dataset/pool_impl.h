// The inside of an open pool: what it holds, and who changes it. Three kinds of threads meet here:
// FUSE workers (through datasets), the control thread (administration) and the sync thread, which
// alone changes the MOS. Administration that changes the MOS is handed to the sync thread as a
// task.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fs/dataset/check.h"
#include "fs/dataset/dsl.h"
#include "fs/dataset/features.h"
#include "fs/dataset/head.h"
#include "fs/dataset/pool.h"
#include "fs/dataset/space_maps.h"
#include "fs/format/scan_phys.h"
#include "fs/format/uberblock.h"
#include "fs/pool/config.h"
#include "fs/pool/import.h"
#include "fs/pool/scan.h"
#include "fs/pool/storage.h"
#include "fs/pool/txg.h"

namespace zuse::dataset {

// Blocks of the MOS itself: their space is that of the directory $MOS. What is replaced is free at
// once, since no snapshot holds the MOS.
class MosOwner final : public object::BlockOwner {
 public:
  explicit MosOwner(pool::BlockStore& store) : store_(store) {}
  void born(std::uint64_t txg, const format::Blkptr& blkptr) override;
  void killed(std::uint64_t txg, const format::Blkptr& blkptr) override;
  // The change since the last call.
  SpaceDelta take();

 private:
  pool::BlockStore& store_;
  Mutex mutex_{LockRank::leaf};
  SpaceDelta delta_ ZUSE_GUARDED_BY(mutex_);
};

class PoolImpl final : public Pool, public PoolServices {
 public:
  struct Options {
    bool read_only = true;
    std::uint64_t dirty_max = std::uint64_t{128} << 20;
    DeviceFactory devices;
    LeafDecorator decorate;
  };
  PoolImpl(pool::PoolConfig config, std::unique_ptr<pool::Storage> storage, Options options);
  ~PoolImpl() override;

  // Opening an existing pool whose MOS root is `uberblock.root`. errors: as Pool::import.
  Result<void> load(const format::Uberblock& uberblock);
  // Filling a new one: the first group, txg kFirstTxg, is written and left exported.
  Result<void> initialise(const CreateOptions& options);
  // Starts the threads that sync and scan. Read-only pools have none.
  void start();

  // Pool
  Result<void> close(bool exported) override;
  const std::string& name() const override { return name_; }
  std::uint64_t guid() const override { return guid_; }
  bool read_only() const override { return options_.read_only; }
  Result<std::shared_ptr<Dataset>> open_dataset(const std::string& name) override;
  Result<std::vector<DatasetEntry>> list() override;
  Result<std::vector<std::string>> snapshots(const std::string& filesystem) override;
  Result<void> set_property(const std::string& dataset, const std::string& name,
                            const std::string& value) override;
  Result<void> sync() override;
  void drop_cache() override;
  vdev::VdevTree& vdevs() override { return storage_->tree(); }
  vdev::VdevStatus status() const override;
  std::uint64_t size() const override { return storage_->allocator().total(); }
  std::uint64_t allocated() const override { return storage_->allocator().allocated(); }
  std::map<std::string, PropertyValue> pool_properties() const override;
  Result<void> set_pool_property(const std::string& name, const std::string& value) override;
  Result<void> scrub_start() override;
  Result<void> scrub_pause() override;
  Result<void> scrub_stop() override;
  Result<void> scrub_wait() override;
  ScanStatus scan_status() const override;
  Result<void> clear(std::uint64_t leaf_guid) override;
  std::vector<DataError> data_errors() override;
  Result<std::vector<HistoryRecord>> history() override;
  Result<void> log_history(const std::string& command) override;

  // PoolServices
  Result<pool::TxHold> hold_txg() override;
  Result<void> wait_synced() override { return sync(); }
  Result<void> reserve(std::uint64_t directory, std::uint64_t bytes, bool frees) override;
  Result<std::uint64_t> available(std::uint64_t directory) override;
  Dsl& dsl() override { return *dsl_; }

  // The checks of check_pool() on this pool, which must be open read-only.
  Result<CheckedPool> check(const std::function<bool(std::uint64_t, std::uint64_t)>& progress);

  object::Objset& mos() { return *mos_; }
  pool::Storage& storage() { return *storage_; }
  Features& features() { return features_; }
  void mark_destroyed() { final_state_ = pool::PoolState::destroyed; }

 private:
  using Task = std::function<Result<void>(object::Tx&)>;

  // pool_open.cpp
  Result<void> open_mos(const format::Blkptr& root, bool create);
  Result<void> load_directory();
  Result<void> load_dtls();
  Result<void> check_intent_logs();
  Result<std::shared_ptr<Head>> make_head(const NamedDataset& named, bool new_objset);
  object::ObjsetPolicy policy_for(const PropertySet& properties) const;
  std::string why_unreadable(std::uint64_t dataset);

  // pool_sync.cpp
  Result<void> sync_txg(std::uint64_t txg);
  Result<void> first_sync(object::Tx& tx);
  Result<void> sync_heads(object::Tx& tx);
  Result<void> sync_tasks(object::Tx& tx);
  Result<void> sync_dtls(object::Tx& tx);
  Result<void> sync_config(object::Tx& tx);
  Result<void> sync_scan(object::Tx& tx);
  Result<void> sync_error_log(object::Tx& tx);
  Result<format::Blkptr> sync_mos(object::Tx& tx);
  Result<void> commit(std::uint64_t txg, const format::Blkptr& root);
  Result<void> drain_deferred_frees(object::Tx& tx);
  Result<void> write_pool_property(object::Tx& tx, const std::string& name,
                                   const std::string& value);
  // Has the sync thread run `task` in the next group, and waits for its answer.
  Result<void> run_task(Task task);
  pool::PoolConfig current_config(std::uint64_t txg);
  std::uint64_t usable_space() const;

  // check.cpp
  Result<std::vector<std::string>> check_accounting();

  // pool_scan.cpp
  Result<void> load_scan();
  Result<void> load_error_log();
  Result<std::vector<pool::ScanRoot>> scan_roots();

  const std::string name_;
  const std::uint64_t guid_;
  const Options options_;
  std::unique_ptr<pool::Storage> storage_;
  MosOwner mos_owner_;
  std::unique_ptr<object::Objset> mos_;
  std::unique_ptr<Dsl> dsl_;
  Features features_;
  SpaceMaps space_maps_;
  std::uint64_t config_object_ = 0;
  std::uint64_t mos_directory_ = 0;   // dsl_dir of $MOS
  std::uint64_t history_object_ = 0;  // 0: none yet

  mutable Mutex mutex_{LockRank::dataset_pool};
  pool::PoolConfig config_ ZUSE_GUARDED_BY(mutex_);
  bool config_dirty_ ZUSE_GUARDED_BY(mutex_) = false;
  std::uint64_t tree_generation_ ZUSE_GUARDED_BY(mutex_) = 0;
  format::Uberblock uberblock_ ZUSE_GUARDED_BY(mutex_);
  std::map<std::uint64_t, std::weak_ptr<Head>> heads_ ZUSE_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<Head>> writable_ ZUSE_GUARDED_BY(mutex_);
  std::deque<Task> tasks_ ZUSE_GUARDED_BY(mutex_);
  bool closing_ ZUSE_GUARDED_BY(mutex_) = false;

  pool::PoolState final_state_ = pool::PoolState::exported;
  bool first_ = true;  // the first group of this session has extra work
  bool started_ = false;
  std::uint64_t scan_generation_ = 0;
  std::uint64_t scan_queue_ = 0;  // object, while a scan is under way
  format::ScanPhys scan_phys_;
  std::uint64_t error_generation_ = 0;
  std::unique_ptr<pool::Scan> scan_;
  std::unique_ptr<pool::TxgManager> txgs_;  // last: its thread uses everything above
};

}  // namespace zuse::dataset
