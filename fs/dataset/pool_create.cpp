// Creating a pool: labels wiped, a MOS filled, one transaction group written, left exported.
// source: format page 04 section 10.
#include <algorithm>
#include <memory>
#include <set>

#include "fs/dataset/history.h"
#include "fs/dataset/mos.h"
#include "fs/dataset/new_pool.h"
#include "fs/dataset/pool_impl.h"
#include "fs/pool/label.h"
#include "vdev/base/random.h"

namespace zuse::dataset {
namespace {

constexpr unsigned kAshiftMin = 9, kAshiftMax = 16;

using Devices = std::map<std::string, std::unique_ptr<vdev::BlockDevice>>;

Result<void> check_shape(const CreateOptions& options) {
  ZUSE_TRY_VOID(check_pool_name(options.name));
  if (options.ashift < kAshiftMin || options.ashift > kAshiftMax) {
    return fail(Errc::invalid,
                "ashift must be from 9 to 16, not " + std::to_string(options.ashift));
  }
  if (options.vdevs.empty()) {
    return fail(Errc::invalid, "no devices were given");
  }
  for (const VdevSpec& spec : options.vdevs) {
    const std::size_t count = spec.paths.size();
    if (spec.type == vdev::VdevType::raidz) {
      if (spec.parity < 1 || spec.parity > 3) {
        return fail(Errc::invalid, "raidz has 1 to 3 parity devices");
      }
      if (count < spec.parity + 1) {
        return fail(Errc::invalid, "raidz" + std::to_string(spec.parity) + " needs at least " +
                                       std::to_string(spec.parity + 1) + " devices, and has " +
                                       std::to_string(count));
      }
      if (count > 255) {
        return fail(Errc::invalid, "raidz takes at most 255 devices");
      }
    } else if (spec.type == vdev::VdevType::mirror && count < 2) {
      return fail(Errc::invalid, "a mirror needs at least 2 devices");
    }
  }
  return {};
}

// Whatever a device holds now must not be lost by mistake.
Result<void> check_unused(vdev::BlockDevice& device, bool force) {
  const auto labels = pool::read_labels(device);
  if (!labels) {
    return labels.error().code() == Errc::invalid ? Result<void>(std::unexpected(labels.error()))
                                                  : Result<void>();
  }
  const auto state = static_cast<pool::PoolState>(labels->config().u64_or("state", 0));
  const std::string name = labels->config().string_or("name", "?");
  if (state == pool::PoolState::active && !force) {
    return fail(Errc::busy, device.name() + " is part of active pool '" + name + "'");
  }
  if (state == pool::PoolState::exported && !force) {
    return fail(Errc::busy,
                device.name() + " is part of exported pool '" + name + "'; use -f to overwrite it");
  }
  return {};
}

vdev::VdevConfig leaf_config(const std::string& path, std::uint64_t id) {
  vdev::VdevConfig leaf;
  leaf.type = vdev::VdevType::file;
  leaf.id = id;
  leaf.guid = secure_random_u64();
  leaf.create_txg = pool::kFirstTxg;
  leaf.path = path;
  return leaf;
}

// The tree of the new pool, sizes included.
Result<vdev::VdevConfig> build_tree(const CreateOptions& options, const Devices& devices) {
  vdev::VdevConfig root;
  root.type = vdev::VdevType::root;
  root.guid = secure_random_u64();
  root.create_txg = pool::kFirstTxg;
  for (const VdevSpec& spec : options.vdevs) {
    const bool single = spec.type == vdev::VdevType::file || spec.type == vdev::VdevType::disk;
    for (std::size_t first = 0; first < spec.paths.size();
         first += single ? 1 : spec.paths.size()) {
      vdev::VdevConfig top;
      std::uint64_t smallest = ~std::uint64_t{0};
      if (single) {
        top = leaf_config(spec.paths[first], root.children.size());
        smallest = pool::leaf_asize(devices.at(spec.paths[first])->size());
        top.asize = smallest;
      } else {
        top.type = spec.type;
        top.id = root.children.size();
        top.guid = secure_random_u64();
        top.create_txg = pool::kFirstTxg;
        top.parity = spec.type == vdev::VdevType::raidz ? spec.parity : 0;
        for (const std::string& path : spec.paths) {
          top.children.push_back(leaf_config(path, top.children.size()));
          smallest = std::min(smallest, pool::leaf_asize(devices.at(path)->size()));
        }
        const bool raidz = spec.type == vdev::VdevType::raidz;
        top.asize = round_down(raidz ? smallest * spec.paths.size() : smallest, pool::kLabelSize);
      }
      top.ashift = options.ashift;
      top.metaslab_shift = pool::choose_metaslab_shift(top.asize);
      root.children.push_back(std::move(top));
    }
  }
  return root;
}

}  // namespace

Result<void> Pool::create(const CreateOptions& options, const DeviceFactory& factory) {
  ZUSE_TRY_VOID(check_shape(options));
  for (const auto& [name, value] : options.properties) {
    if (name.find(':') != std::string::npos) {
      continue;
    }
    const PropertyInfo* const property = find_property(name);
    if (property == nullptr || property->kind == PropertyKind::computed) {
      return fail(Errc::invalid, "invalid property '" + name + "'");
    }
    if (property->kind != PropertyKind::text) {
      ZUSE_TRY_VOID(parse_property(*property, value));
    }
  }
  for (const auto& [name, value] : options.pool_properties) {
    if (name != "comment" && name != "failmode") {
      return fail(Errc::invalid, "invalid property '" + name + "'");
    }
  }
  // Everything is opened and looked at before anything is written.
  Devices devices;
  for (const VdevSpec& spec : options.vdevs) {
    for (const std::string& path : spec.paths) {
      if (devices.contains(path)) {
        return fail(Errc::invalid, path + " is given twice");
      }
      ZUSE_TRY(devices[path], factory(path, false));
      if (devices[path]->size() < pool::kLeafSizeMin) {
        return fail(Errc::invalid, path + " is too small: a device needs at least 64 MiB");
      }
      if (devices[path]->sector_shift() > options.ashift) {
        return fail(Errc::invalid,
                    path + " has sectors of " +
                        std::to_string(pow2(devices[path]->sector_shift())) +
                        " bytes: give -o ashift=" + std::to_string(devices[path]->sector_shift()));
      }
      ZUSE_TRY_VOID(check_unused(*devices[path], options.force));
    }
  }
  ZUSE_TRY(vdev::VdevConfig root, build_tree(options, devices));
  for (auto& [path, device] : devices) {
    ZUSE_TRY_VOID(pool::wipe_labels(*device));
  }

  pool::PoolConfig config;
  config.version = format::kPoolVersionFeatures;
  config.name = options.name;
  config.pool_guid = root.guid;
  config.vdev_children = root.children.size();
  config.root = std::move(root);
  if (const auto comment = options.pool_properties.find("comment");
      comment != options.pool_properties.end()) {
    config.comment = comment->second;
  }
  pool::StorageOptions storage_options;
  storage_options.read_only = false;
  ZUSE_TRY(auto storage,
           pool::Storage::open(
               config.root,
               [&](const vdev::VdevConfig& leaf) -> Result<std::unique_ptr<vdev::BlockDevice>> {
                 return std::move(devices.at(leaf.path));
               },
               storage_options));
  PoolImpl pool(std::move(config), std::move(storage),
                PoolImpl::Options{false, ImportOptions{}.dirty_max, factory, {}});
  return pool.initialise(options);
}

Result<void> PoolImpl::initialise(const CreateOptions& options) {
  object::Tx tx = object::Tx::syncing(pool::kFirstTxg);
  ZUSE_TRY_VOID(open_mos({}, true));
  ZUSE_TRY(NewPool made, fill_new_mos(*mos_, tx, storage_->allocator().dspace()));
  features_ = std::move(made.features);
  config_object_ = made.config;
  history_object_ = made.history;
  object::ObjsetPolicy policy = mos_->policy();
  policy.metadata_compression = policy.compression = {format::Compression::lz4, 0};
  mos_->set_policy(policy);
  dsl_ = std::make_unique<Dsl>(*mos_, made.root_directory, name_);
  ZUSE_TRY(const auto root, dsl_->directory(made.root_directory));
  ZUSE_TRY(const object::Zap children, object::Zap::open(*mos_, root.child_zap));
  ZUSE_TRY(mos_directory_, children.lookup("$MOS"));
  {
    const LockGuard lock(mutex_);
    ZUSE_TRY_VOID(space_maps_.create(*mos_, tx, config_, storage_->allocator()));
    closing_ = true;  // left exported
  }
  const NamedDataset named{name_, made.root_dataset, made.root_directory, false};
  for (const auto& [property, value] : options.properties) {
    ZUSE_TRY_VOID(dsl_->set_property(tx, named, property, value));
  }
  if (const auto failmode = options.pool_properties.find("failmode");
      failmode != options.pool_properties.end()) {
    ZUSE_TRY_VOID(write_pool_property(tx, failmode->first, failmode->second));
  }
  ZUSE_TRY(std::shared_ptr<Head> head, make_head(named, true));
  ZUSE_TRY_VOID(options.format_root(head->objset(), tx));
  {
    const LockGuard lock(mutex_);
    writable_.push_back(head);
  }
  if (!options.command_line.empty()) {
    ZUSE_TRY_VOID(append_history(*mos_, tx, history_object_,
                                 command_record(options.command_line, tx.txg())));
  }
  first_ = true;
  ZUSE_TRY_VOID(sync_txg(pool::kFirstTxg));
  const LockGuard lock(mutex_);
  writable_.clear();
  return {};
}

}  // namespace zuse::dataset
