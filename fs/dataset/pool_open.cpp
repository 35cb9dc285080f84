// Opening a pool: from the newest uberblock to the MOS, its object directory, features, space maps
// and datasets. source: format page 04 section 9.
#include <algorithm>

#include "fs/dataset/intent_log.h"
#include "fs/dataset/mos.h"
#include "fs/dataset/new_pool.h"
#include "fs/dataset/owner.h"
#include "fs/dataset/pool_impl.h"
#include "fs/format/feature.h"
#include "vdev/base/log.h"

namespace zuse::dataset {
namespace {

spdlog::logger& log() {
  static auto& logger = layer_log("dataset");
  return logger;
}

constexpr std::string_view kLivelistKey = "com.delphix:livelist";

// The objset's owner where nothing may be written.
class NobodyOwns final : public object::BlockOwner {
 public:
  void born(std::uint64_t, const format::Blkptr&) override { ZUSE_CHECK(false); }
  void killed(std::uint64_t, const format::Blkptr&) override { ZUSE_CHECK(false); }
};

}  // namespace

PoolImpl::PoolImpl(pool::PoolConfig config, std::unique_ptr<pool::Storage> storage, Options options)
    : name_(config.name),
      guid_(config.pool_guid),
      options_(std::move(options)),
      storage_(std::move(storage)),
      mos_owner_(storage_->pipeline()),
      config_(std::move(config)) {}

PoolImpl::~PoolImpl() {
  if (started_) {
    auto closed = close(false);
    if (!closed) {
      log().error("pool_close_failed pool={} why={}", name_, closed.error().what());
    }
  }
}

Result<void> PoolImpl::open_mos(const format::Blkptr& root, bool create) {
  object::ObjsetContext context{.store = storage_->pipeline(),
                                .owner = mos_owner_,
                                .id = 0,
                                .name = "MOS of " + name_,
                                .policy = {},
                                .read_only = options_.read_only,
                                .on_dirty = {},
                                .owner_of = {}};
  // Until the features are known; writing starts later.
  context.policy.metadata_copies = context.policy.data_copies = 3;
  if (create) {
    mos_ = object::Objset::create(std::move(context), format::ObjsetType::meta, pool::kFirstTxg);
    return {};
  }
  ZUSE_TRY(mos_, object::Objset::open(std::move(context), root));
  if (mos_->type() != format::ObjsetType::meta) {
    return fail(Errc::corrupt,
                "the uberblock of pool '" + name_ + "' does not point to a meta object set");
  }
  return {};
}

Result<void> PoolImpl::load(const format::Uberblock& uberblock) {
  uberblock_ = uberblock;
  ZUSE_TRY_VOID(open_mos(uberblock.root, false));
  ZUSE_TRY_VOID(load_directory());
  ZUSE_TRY_VOID(load_scan());
  ZUSE_TRY_VOID(load_error_log());
  if (options_.read_only) {
    return {};
  }
  ZUSE_TRY_VOID(features_.check_writable());
  ZUSE_TRY_VOID(check_intent_logs());
  {
    const LockGuard lock(mutex_);
    ZUSE_TRY_VOID(space_maps_.load(*mos_, features_, config_, storage_->allocator()));
  }
  return load_dtls();
}

Result<void> PoolImpl::load_directory() {
  ZUSE_TRY(const auto config_object, directory_entry(*mos_, key::kConfig));
  ZUSE_TRY(const auto root_directory, directory_entry(*mos_, key::kRootDataset));
  if (!config_object || !root_directory) {
    return fail(Errc::corrupt,
                "the object directory of pool '" + name_ + "' lacks its root or configuration");
  }
  config_object_ = *config_object;
  ZUSE_TRY(const codec::NvList list, read_packed_list(*mos_, config_object_));
  ZUSE_TRY(const pool::PoolConfig recorded, pool::decode_mos_config(list));
  {
    // The labels say where the leaves are; the MOS says what the pool is. Its tree is the whole
    // one.
    const LockGuard lock(mutex_);
    if (recorded.pool_guid != guid_) {
      return fail(Errc::corrupt,
                  "the configuration inside pool '" + name_ + "' is of another pool");
    }
    if (pool::guid_sum(recorded.root) != uberblock_.guid_sum) {
      return fail(Errc::corrupt, "the vdevs of pool '" + name_ +
                                     "' do not add up (guid sum): devices are missing");
    }
    const std::string name = config_.name;
    config_ = recorded;
    config_.name = name;  // an import may rename
  }
  std::array<std::uint64_t, 3> zaps{};
  std::size_t i = 0;
  for (const std::string_view key :
       {key::kFeaturesForRead, key::kFeaturesForWrite, key::kFeatureDescriptions}) {
    ZUSE_TRY(const auto object, directory_entry(*mos_, key));
    zaps[i++] = object.value_or(0);
  }
  ZUSE_TRY(features_, Features::load(*mos_, zaps[0], zaps[1], zaps[2]));
  ZUSE_TRY_VOID(features_.check_readable());

  object::ObjsetPolicy policy = mos_->policy();
  const bool lz4 = features_.active(feature::kLz4Compress);
  policy.metadata_compression =
      policy.compression = {lz4 ? format::Compression::lz4 : format::Compression::lzjb, 0};
  policy.hole_birth = features_.active(feature::kHoleBirth);
  mos_->set_policy(policy);
  storage_->pipeline().set_features({.hole_birth = policy.hole_birth, .embedded_data = false});

  dsl_ = std::make_unique<Dsl>(*mos_, *root_directory, name_);
  ZUSE_TRY(const auto root, dsl_->directory(*root_directory));
  if (root.child_zap != 0) {
    ZUSE_TRY(const object::Zap children, object::Zap::open(*mos_, root.child_zap));
    mos_directory_ = children.lookup("$MOS").value_or(0);
  }
  ZUSE_TRY(const auto history, directory_entry(*mos_, key::kHistory));
  history_object_ = history.value_or(0);
  return {};
}

Result<void> PoolImpl::load_dtls() {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> objects;
  {
    const LockGuard lock(mutex_);
    for (const vdev::VdevConfig* const leaf : pool::leaves_of(config_.root)) {
      if (leaf->dtl_object != 0) {
        objects.emplace_back(leaf->guid, leaf->dtl_object);
      }
    }
  }
  for (const auto& [guid, object] : objects) {
    ZUSE_TRY(vdev::Dtl dtl, read_dtl(*mos_, object));
    storage_->tree().load_dtl(guid, std::move(dtl));
  }
  return {};
}

// Acknowledged writes of another program may wait in intent logs; zuse cannot replay them, and to
// write without doing so would lose them. source: format page 09, head.
Result<void> PoolImpl::check_intent_logs() {
  NobodyOwns owner;
  ZUSE_TRY(const auto heads, dsl_->list(false));
  for (const NamedDataset& named : heads) {
    ZUSE_TRY(const auto phys, dsl_->dataset(named.dataset));
    if (phys.bp.is_hole() || !why_unreadable(named.dataset).empty()) {
      continue;
    }
    object::ObjsetContext context{.store = storage_->pipeline(),
                                  .owner = owner,
                                  .id = named.dataset,
                                  .name = named.name,
                                  .policy = {},
                                  .read_only = true,
                                  .on_dirty = {},
                                  .owner_of = {}};
    ZUSE_TRY(const auto objset, object::Objset::open(std::move(context), phys.bp));
    ZUSE_TRY(const bool waiting, log_has_records_after(storage_->pipeline(), named.dataset,
                                                       objset->zil_header(), uberblock_.txg));
    if (waiting) {
      return fail(Errc::unsupported,
                  "dataset '" + named.name +
                      "' has an intent log with writes that were not replayed; import and "
                      "export the pool where it was used, or import it with -o readonly=on");
    }
  }
  return {};
}

object::ObjsetPolicy PoolImpl::policy_for(const PropertySet& properties) const {
  object::ObjsetPolicy policy;
  const bool lz4 = features_.active(feature::kLz4Compress);
  const format::Compression on = lz4 ? format::Compression::lz4 : format::Compression::lzjb;
  policy.compression = compression_choice(properties.number("compression"), on);
  if (policy.compression.algorithm == format::Compression::zstd &&
      !features_.enabled(feature::kZstdCompress)) {
    policy.compression = {on, 0};
  }
  policy.metadata_compression = {on, 0};
  const auto checksum = static_cast<format::Checksum>(properties.number("checksum"));
  const bool usable =
      checksum == format::Checksum::off || checksum == format::Checksum::fletcher2 ||
      checksum == format::Checksum::sha256 || checksum == format::Checksum::noparity ||
      (checksum == format::Checksum::sha512 && features_.enabled(feature::kSha512));
  policy.checksum = usable ? checksum : format::Checksum::fletcher4;
  policy.metadata_checksum =
      checksum == format::Checksum::sha256 || policy.checksum == format::Checksum::sha512
          ? policy.checksum
          : format::Checksum::fletcher4;
  policy.data_copies =
      std::clamp<unsigned>(static_cast<unsigned>(properties.number("copies")), 1, 3);
  policy.metadata_copies = std::min(policy.data_copies + 1, 3U);
  const std::uint64_t record = properties.number("recordsize");
  const bool valid = record >= 512 && record <= kMiB && std::has_single_bit(record);
  const bool large = features_.enabled(feature::kLargeBlocks);
  policy.record_size =
      static_cast<std::uint32_t>(!valid  ? 131072
                                 : large ? record
                                         : std::min<std::uint64_t>(record, 131072));
  policy.hole_birth = features_.active(feature::kHoleBirth);
  return policy;
}

std::string PoolImpl::why_unreadable(std::uint64_t dataset) {
  const auto dnode = mos_->hold(dataset);
  if (!dnode || (*dnode)->type() != format::ObjectType::zap_metadata) {
    return {};
  }
  std::string why;
  const auto visited =
      object::Zap(*dnode).for_each([&](const object::ZapEntry& entry) -> Result<void> {
        const format::Feature* const info = format::find_feature(entry.name);
        if (info != nullptr && info->per_dataset && info->support == format::FeatureSupport::none) {
          why = "uses feature " + std::string(info->name) + ", which this version cannot read";
        }
        return {};
      });
  return visited ? why : visited.error().what();
}

Result<std::shared_ptr<Head>> PoolImpl::make_head(const NamedDataset& named, bool new_objset) {
  ZUSE_TRY(const auto phys, dsl_->dataset(named.dataset));
  ZUSE_TRY(PropertySet properties, dsl_->properties(named));
  const std::string why = why_unreadable(named.dataset);
  if (!why.empty()) {
    return fail(Errc::unsupported, "dataset '" + named.name + "' " + why);
  }
  if ((phys.flags & format::kDatasetInconsistent) != 0) {
    return fail(Errc::unsupported,
                "dataset '" + named.name + "' was only half received and cannot be opened");
  }
  bool read_only = options_.read_only || named.snapshot || properties.number("readonly") != 0;
  ZUSE_TRY(const object::DnodeRef directory, mos_->hold(named.directory));
  if (!read_only && directory->type() == format::ObjectType::zap_metadata) {
    ZUSE_TRY(const bool livelist, object::Zap(directory).contains(kLivelistKey));
    if (livelist) {
      log().info("dataset_read_only dataset={} why=livelist", named.name);
      read_only = true;
    }
  }
  object::ObjsetPolicy policy = policy_for(properties);
  auto head = std::make_shared<Head>(*this, *this, storage_->pipeline(), named, phys, properties,
                                     read_only);
  object::ObjsetContext context{.store = storage_->pipeline(),
                                .owner = *head,
                                .id = named.dataset,
                                .name = named.name,
                                .policy = policy,
                                .read_only = read_only,
                                .on_dirty = {},
                                .owner_of = file_owner};
  if (!read_only) {
    context.on_dirty = [this](std::uint64_t txg, std::uint64_t bytes) {
      if (txgs_) {
        txgs_->add_dirty(txg, bytes);
      }
    };
  }
  if (new_objset) {
    head->attach(
        object::Objset::create(std::move(context), format::ObjsetType::zfs, pool::kFirstTxg));
    return head;
  }
  if (phys.bp.is_hole()) {
    return fail(Errc::corrupt, "dataset '" + named.name + "' has no contents");
  }
  ZUSE_TRY(auto objset, object::Objset::open(std::move(context), phys.bp));
  // Counts per user were kept by whoever wrote the pool; they go on being kept (format page 08
  // section 11).
  policy.user_accounting = (objset->flags() & format::kObjsetUserAccounting) != 0;
  policy.user_object_accounting = (objset->flags() & format::kObjsetUserObjectAccounting) != 0;
  policy.project_accounting = (objset->flags() & format::kObjsetProjectQuota) != 0;
  objset->set_policy(policy);
  head->attach(std::move(objset));
  return head;
}

Result<std::shared_ptr<Dataset>> PoolImpl::open_dataset(const std::string& wanted) {
  ZUSE_TRY(const NamedDataset named, dsl_->find(wanted));
  {
    const LockGuard lock(mutex_);
    if (closing_) {
      return fail(Errc::stopped, "pool '" + name_ + "' is being closed");
    }
    const auto it = heads_.find(named.dataset);
    if (it != heads_.end()) {
      if (auto head = it->second.lock()) {
        return head;
      }
    }
  }
  ZUSE_TRY(std::shared_ptr<Head> head, make_head(named, false));
  const LockGuard lock(mutex_);
  auto& known = heads_[named.dataset];
  if (auto other = known.lock()) {
    return other;  // somebody was faster
  }
  known = head;
  if (!head->read_only()) {
    writable_.push_back(
        head);  // stays open until the pool closes: its last changes must be written
  }
  return head;
}

void PoolImpl::start() {
  started_ = true;
  if (options_.read_only) {
    return;
  }
  pool::TxgOptions options;
  options.dirty_limit = options_.dirty_max;
  options.dirty_sync = options_.dirty_max / 4;
  txgs_ = std::make_unique<pool::TxgManager>(uberblock_.txg, options,
                                             [this](std::uint64_t txg) { return sync_txg(txg); });
  if (scan_ != nullptr) {
    scan_->load(scan_phys_);
  }
  txgs_->kick();  // the first group says in the labels that the pool is active here
}

Result<void> PoolImpl::close(bool exported) {
  started_ = false;
  if (scan_ != nullptr) {
    scan_->shut_down();
  }
  Result<void> result;
  if (txgs_ != nullptr) {
    if (exported) {
      ZUSE_TRY_VOID(txgs_->wait_synced());
      const LockGuard lock(mutex_);
      closing_ = true;
      config_dirty_ = true;
    }
    result = txgs_->stop();
    txgs_.reset();
  }
  const LockGuard lock(mutex_);
  writable_.clear();
  heads_.clear();
  return result;
}

}  // namespace zuse::dataset
