// The sync of a transaction group: the one place where state on disk changes.
//
//   heads      each dirty dataset writes its blocks; its space and deadlist are booked
//   tasks      administration that was waiting: properties, history
//   records    scan position, error log, dirty time logs, configuration
//   MOS        passes: write what is dirty; book its own space; append to the space maps; this
//   dirties the
//              MOS again, less each time - blocks born in this group are rewritten in place, and
//              from some pass on nothing is compressed, so that sizes stop changing - until nothing
//              is dirty
//   commit     flush, labels, uberblock
//
// source: format page 04 section 4.1, page 01 section 8.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <ctime>

#include "fs/dataset/bpobj.h"
#include "fs/dataset/history.h"
#include "fs/dataset/mos.h"
#include "fs/dataset/pool_impl.h"
#include "vdev/base/log.h"

namespace zuse::dataset {
namespace {

constexpr unsigned kPassesMax = 64;

spdlog::logger& log() {
  static auto& logger = layer_log("dataset");
  return logger;
}

// Takes over what the live tree knows of itself: flags and paths. Objects and the metaslab layout
// stay.
void merge_live(vdev::VdevConfig& config, const vdev::VdevConfig& live) {
  config.offline = live.offline;
  config.faulted = live.faulted;
  config.degraded = live.degraded;
  config.removed = live.removed;
  config.not_present = live.not_present;
  config.resilver_txg = live.resilver_txg;
  if (!live.path.empty()) {
    config.path = live.path;
  }
  for (vdev::VdevConfig& child : config.children) {
    const auto match = std::ranges::find(live.children, child.guid, &vdev::VdevConfig::guid);
    if (match != live.children.end()) {
      merge_live(child, *match);
    }
  }
}

vdev::VdevConfig* find_leaf(vdev::VdevConfig& config, std::uint64_t guid) {
  if (config.guid == guid && config.children.empty()) {
    return &config;
  }
  for (vdev::VdevConfig& child : config.children) {
    if (vdev::VdevConfig* const found = find_leaf(child, guid)) {
      return found;
    }
  }
  return nullptr;
}

std::string local_hostname() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

}  // namespace

void MosOwner::born(std::uint64_t, const format::Blkptr& blkptr) {
  const BlockSpace space = space_of(store_, blkptr);
  const LockGuard lock(mutex_);
  delta_ += {space.used, space.compressed, space.compressed};
}

void MosOwner::killed(std::uint64_t txg, const format::Blkptr& blkptr) {
  store_.free(txg, blkptr);
  const BlockSpace space = space_of(store_, blkptr);
  const LockGuard lock(mutex_);
  delta_ -= {space.used, space.compressed, space.compressed};
}

SpaceDelta MosOwner::take() {
  const LockGuard lock(mutex_);
  return std::exchange(delta_, {});
}

Result<void> PoolImpl::sync_txg(std::uint64_t txg) {
  object::Tx tx = object::Tx::syncing(txg);
  bool work = first_ || mos_->dirty(txg);
  {
    const LockGuard lock(mutex_);
    const std::uint64_t generation = storage_->tree().config_generation();
    config_dirty_ |= generation != std::exchange(tree_generation_, generation) || first_;
    work |= config_dirty_ || !tasks_.empty() || closing_;
    for (const auto& head : writable_) {
      work |= head->objset().dirty(txg);
    }
  }
  work |= scan_ != nullptr && scan_->generation() != scan_generation_;
  work |= storage_->pipeline().error_log().generation() != error_generation_;
  if (!work) {
    return {};  // nothing changed: nothing is written, and the uberblock stays
  }
  storage_->allocator().begin_sync(txg);
  if (first_) {
    ZUSE_TRY_VOID(first_sync(tx));
  }
  ZUSE_TRY_VOID(sync_heads(tx));
  ZUSE_TRY_VOID(sync_tasks(tx));
  ZUSE_TRY_VOID(sync_scan(tx));
  ZUSE_TRY_VOID(sync_error_log(tx));
  ZUSE_TRY_VOID(sync_dtls(tx));
  ZUSE_TRY_VOID(sync_config(tx));
  ZUSE_TRY(const format::Blkptr root, sync_mos(tx));
  ZUSE_TRY_VOID(commit(txg, root));
  first_ = false;
  return {};
}

// What an import leaves to its first group: frees that another program had deferred, and log space
// maps, which zuse does not write.
Result<void> PoolImpl::first_sync(object::Tx& tx) {
  ZUSE_TRY_VOID(drain_deferred_frees(tx));
  if (space_maps_.has_logs()) {
    ZUSE_TRY_VOID(space_maps_.retire_logs(*mos_, tx, features_, current_config(tx.txg())));
  }
  return {};
}

Result<void> PoolImpl::drain_deferred_frees(object::Tx& tx) {
  ZUSE_TRY(const auto object, directory_entry(*mos_, key::kSyncBplist));
  if (!object) {
    return {};
  }
  ZUSE_TRY(Bpobj deferred, Bpobj::open(*mos_, *object));
  if (deferred.empty()) {
    return {};
  }
  ZUSE_TRY_VOID(deferred.for_each([&](const format::Blkptr& blkptr) -> Result<void> {
    storage_->pipeline().free(tx.txg(), blkptr);
    return {};
  }));
  return deferred.clear(tx);
}

Result<void> PoolImpl::sync_heads(object::Tx& tx) {
  std::vector<std::shared_ptr<Head>> heads;
  {
    const LockGuard lock(mutex_);
    heads = writable_;
  }
  for (const auto& head : heads) {
    auto synced = head->sync_txg(tx, features_);
    if (!synced) {
      return std::unexpected(std::move(synced).error().within("writing " + head->name()));
    }
  }
  return {};
}

Result<void> PoolImpl::sync_tasks(object::Tx& tx) {
  for (;;) {
    Task task;
    {
      const LockGuard lock(mutex_);
      if (tasks_.empty()) {
        return {};
      }
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    ZUSE_TRY_VOID(task(tx));
  }
}

Result<void> PoolImpl::run_task(Task task) {
  struct Outcome {
    Result<void> result = fail(Errc::stopped, "the pool is closing");
  };
  const auto outcome = std::make_shared<Outcome>();
  {
    const LockGuard lock(mutex_);
    // A task's own failure is its caller's affair, not the group's.
    tasks_.push_back([outcome, task = std::move(task)](object::Tx& tx) -> Result<void> {
      outcome->result = task(tx);
      return {};
    });
  }
  ZUSE_TRY_VOID(txgs_->wait_synced());
  return outcome->result;
}

Result<void> PoolImpl::sync_dtls(object::Tx& tx) {
  for (const vdev::VdevTree::LeafDtl& dtl : storage_->tree().dtls(true)) {
    std::uint64_t object = 0;
    {
      const LockGuard lock(mutex_);
      const vdev::VdevConfig* const leaf = find_leaf(config_.root, dtl.guid);
      if (leaf == nullptr) {
        continue;
      }
      object = leaf->dtl_object;
    }
    if (object == 0 && dtl.missing.empty()) {
      continue;
    }
    ZUSE_TRY(const std::uint64_t stored, write_dtl(*mos_, tx, features_, object, dtl.missing));
    const LockGuard lock(mutex_);
    find_leaf(config_.root, dtl.guid)->dtl_object = stored;
    config_dirty_ |= stored != object;
  }
  return {};
}

pool::PoolConfig PoolImpl::current_config(std::uint64_t txg) {
  pool::PoolConfig config;
  {
    const LockGuard lock(mutex_);
    config = config_;
    config.state = closing_ ? final_state_ : pool::PoolState::active;
  }
  merge_live(config.root, storage_->tree().config());
  config.txg = txg;
  config.hostid = pool::local_hostid();
  config.hostname = local_hostname();
  config.features_for_read = features_.label_features();
  return config;
}

Result<void> PoolImpl::sync_config(object::Tx& tx) {
  {
    const LockGuard lock(mutex_);
    if (!config_dirty_ && !closing_) {
      return {};
    }
  }
  return write_packed_list(*mos_, tx, config_object_,
                           pool::encode_mos_config(current_config(tx.txg())));
}

Result<format::Blkptr> PoolImpl::sync_mos(object::Tx& tx) {
  format::Blkptr root = mos_->root();
  ZUSE_TRY_VOID(dsl_->flush(tx));
  ZUSE_TRY_VOID(space_maps_.flush(*mos_, tx, features_, 1));
  for (unsigned pass = 1; mos_->dirty(tx.txg()); ++pass) {
    if (pass > kPassesMax) {
      return fail(Errc::io,
                  "the MOS does not settle within " + std::to_string(kPassesMax) + " passes");
    }
    ZUSE_TRY(root, mos_->sync(tx.txg(), pass));
    const SpaceDelta delta = mos_owner_.take();
    if (delta != SpaceDelta{} && mos_directory_ != 0) {
      ZUSE_TRY_VOID(dsl_->did_use(mos_directory_, format::UsedPart::head, delta));
    }
    ZUSE_TRY_VOID(dsl_->flush(tx));
    ZUSE_TRY_VOID(space_maps_.flush(*mos_, tx, features_, pass + 1));
  }
  return root;
}

Result<void> PoolImpl::commit(std::uint64_t txg, const format::Blkptr& root) {
  const pool::PoolConfig config = current_config(txg);
  format::Uberblock next;
  bool labels = false;
  {
    const LockGuard lock(mutex_);
    next = uberblock_;
    labels = config_dirty_ || closing_;
  }
  next.version = config.version;
  next.txg = txg;
  next.guid_sum = pool::guid_sum(config.root);
  next.timestamp = static_cast<std::uint64_t>(std::time(nullptr));
  next.root = root;
  next.software_version = format::kPoolVersionFeatures;
  next.mmp_magic = format::kMmpMagic;
  ZUSE_TRY_VOID(storage_->commit(next, config, labels));
  const LockGuard lock(mutex_);
  uberblock_ = next;
  config_dirty_ = false;
  log().debug("txg_synced pool={} txg={} labels={}", name_, txg, labels);
  return {};
}

Result<void> PoolImpl::sync() {
  if (options_.read_only) {
    return {};
  }
  return txgs_->wait_synced();
}

Result<pool::TxHold> PoolImpl::hold_txg() {
  return txgs_->hold();
}

std::uint64_t PoolImpl::usable_space() const {
  const std::uint64_t size = storage_->allocator().dspace();
  const std::uint64_t slop = storage_->allocator().slop();
  return size > slop ? size - slop : 0;
}

Result<std::uint64_t> PoolImpl::available(std::uint64_t directory) {
  return dsl_->available(directory, usable_space());
}

// Dirty bytes weigh more than their size: small blocks and metadata cost parity and copies. When
// the sum does not fit, a sync tells what was really used; freed space comes back two groups later.
Result<void> PoolImpl::reserve(std::uint64_t directory, std::uint64_t bytes, bool frees) {
  constexpr unsigned kTries = 5;
  constexpr std::uint64_t kWeight = 2;
  const pool::Allocator& allocator = storage_->allocator();
  const std::uint64_t limit = usable_space() + (frees ? allocator.slop() / 2 : 0);
  for (unsigned attempt = 0;; ++attempt) {
    const std::uint64_t pending = (txgs_->dirty_bytes() + bytes) * kWeight;
    ZUSE_TRY(const std::uint64_t free, dsl_->available(directory, limit));
    const std::uint64_t raw =
        allocator.dspace() - std::min(allocator.dspace(), allocator.deflated_allocated());
    const std::uint64_t reserve_raw = allocator.slop() / (frees ? 4 : 2);
    if (free > pending && raw > pending + reserve_raw) {
      return {};
    }
    const bool settled = txgs_->dirty_bytes() == 0;
    if (attempt == kTries || (settled && free <= pending)) {
      return fail(Errc::no_space, "the pool is full");
    }
    ZUSE_TRY_VOID(txgs_->wait_synced());
  }
}

}  // namespace zuse::dataset
