// What people ask of an open pool and set on it: lists, properties, errors, history.
#include <algorithm>

#include "fs/dataset/history.h"
#include "fs/dataset/mos.h"
#include "fs/dataset/pool_impl.h"
#include "fs/format/feature.h"
#include "fs/pool/label.h"
#include "raid/registry.h"

namespace zuse::dataset {
namespace {

struct StoredPoolProperty {
  const char* name;
  std::uint64_t default_value;
  std::vector<const char*> values;  // by number
};

const std::vector<StoredPoolProperty>& stored_pool_properties() {
  static const std::vector<StoredPoolProperty> list = {
      {"failmode", 0, {"wait", "continue", "panic"}},
      {"autoexpand", 0, {"off", "on"}},
      {"autoreplace", 0, {"off", "on"}},
      {"autotrim", 0, {"off", "on"}},
      {"delegation", 1, {"off", "on"}},
      {"listsnapshots", 0, {"off", "on"}},
      {"multihost", 0, {"off", "on"}},
  };
  return list;
}

}  // namespace

Result<std::vector<DatasetEntry>> PoolImpl::list() {
  ZUSE_TRY(const auto found, dsl_->list(true));
  std::vector<DatasetEntry> entries;
  for (const NamedDataset& named : found) {
    DatasetEntry entry;
    entry.name = named.name;
    ZUSE_TRY(entry.properties, dsl_->properties(named));
    ZUSE_TRY(const auto phys, dsl_->dataset(named.dataset));
    entry.space.referenced = phys.referenced;
    entry.space.unique = phys.unique;
    if (named.snapshot) {
      entry.type = "snapshot";
      entry.space.used = phys.unique;
    } else {
      ZUSE_TRY(const auto dir, dsl_->directory(named.directory));
      entry.type = "filesystem";
      entry.space.used = dir.used;
      if (!options_.read_only) {
        ZUSE_TRY(entry.space.available, available(named.directory));
      }
      auto& available_property = entry.properties.all()["available"];
      available_property = {
          format_size(entry.space.available), entry.space.available, PropertySource::none, {}};
    }
    entry.why_not = why_unreadable(named.dataset);
    if (entry.why_not.empty() && !phys.bp.is_hole()) {
      const auto block = storage_->pipeline().read(phys.bp, {named.dataset, 0, -1, 0});
      const auto objset = block ? format::decode_objset((*block)->span(), phys.bp.order)
                                : Result<format::ObjsetPhys>(std::unexpected(block.error()));
      if (!objset) {
        entry.why_not = objset.error().what();
      } else if (objset->type == format::ObjsetType::zvol) {
        entry.type = "volume";
        entry.why_not = "it is a volume";
      } else if (objset->type != format::ObjsetType::zfs) {
        entry.why_not = "it is not a file system";
      }
      if (named.snapshot) {
        entry.type = "snapshot";
      }
    }
    entry.properties.all()["type"].text = entry.type;
    entry.mountable = entry.why_not.empty() && entry.type == "filesystem";
    entries.push_back(std::move(entry));
  }
  return entries;
}

Result<std::vector<std::string>> PoolImpl::snapshots(const std::string& filesystem) {
  ZUSE_TRY(const NamedDataset named, dsl_->find(filesystem));
  ZUSE_TRY(const auto found, dsl_->snapshots(named));
  std::vector<std::string> names;
  for (const NamedDataset& snapshot : found) {
    names.push_back(snapshot.name.substr(snapshot.name.find('@') + 1));
  }
  return names;
}

Result<void> PoolImpl::set_property(const std::string& dataset, const std::string& name,
                                    const std::string& value) {
  if (options_.read_only) {
    return fail(Errc::read_only, "pool '" + name_ + "' is read-only");
  }
  ZUSE_TRY(const NamedDataset named, dsl_->find(dataset));
  ZUSE_TRY_VOID(
      run_task([&](object::Tx& tx) { return dsl_->set_property(tx, named, name, value); }));
  // A dataset that is open writes its next blocks by the new value.
  std::shared_ptr<Head> head;
  {
    const LockGuard lock(mutex_);
    const auto it = heads_.find(named.dataset);
    head = it == heads_.end() ? nullptr : it->second.lock();
  }
  if (head != nullptr) {
    ZUSE_TRY(const PropertySet properties, dsl_->properties(named));
    object::ObjsetPolicy policy = policy_for(properties);
    const object::ObjsetPolicy before = head->objset().policy();
    policy.user_accounting = before.user_accounting;
    policy.user_object_accounting = before.user_object_accounting;
    policy.project_accounting = before.project_accounting;
    head->objset().set_policy(policy);
  }
  return {};
}

void PoolImpl::drop_cache() {
  storage_->cache().drop();
}

vdev::VdevStatus PoolImpl::status() const {
  vdev::VdevStatus status = storage_->tree().status();
  status.name = name_;
  return status;
}

std::map<std::string, PropertyValue> PoolImpl::pool_properties() const {
  std::map<std::string, PropertyValue> all;
  const auto number = [&](const char* name, std::uint64_t value, std::string text) {
    all[name] = {std::move(text), value, PropertySource::none, {}};
  };
  const std::uint64_t total = size(), used = allocated();
  const std::uint64_t free = total > used ? total - used : 0;
  number("size", total, format_size(total));
  number("allocated", used, format_size(used));
  number("free", free, format_size(free));
  const std::uint64_t capacity = total == 0 ? 0 : used * 100 / total;
  number("capacity", capacity, std::to_string(capacity) + "%");
  const unsigned fragmentation = storage_->allocator().fragmentation();
  number("fragmentation", fragmentation, std::to_string(fragmentation) + "%");
  number("guid", guid_, std::to_string(guid_));
  all["health"] = {vdev::to_string(storage_->tree().status().state), 0, PropertySource::none, {}};
  all["readonly"] = {
      options_.read_only ? "on" : "off", options_.read_only ? 1U : 0U, PropertySource::none, {}};
  {
    const LockGuard lock(mutex_);
    const bool features = config_.version == format::kPoolVersionFeatures;
    number("version", config_.version, features ? "-" : std::to_string(config_.version));
    all["comment"] = {config_.comment.empty() ? "-" : config_.comment,
                      0,
                      config_.comment.empty() ? PropertySource::defaulted : PropertySource::local,
                      {}};
    std::uint64_t ashift = 0;
    for (const vdev::VdevConfig& top : config_.root.children) {
      ashift = std::max<std::uint64_t>(ashift, top.ashift);
    }
    number("ashift", ashift, std::to_string(ashift));
  }
  const std::string raidz_impl = storage_->tree().raidz_impl();
  all["raidz_impl"] = {
      raidz_impl == "fastest" ? "fastest (" + raid::fastest_in_words() + ")" : raidz_impl,
      0,
      raidz_impl == "fastest" ? PropertySource::defaulted : PropertySource::local,
      {}};
  const auto props = directory_entry(*mos_, key::kPoolProps);
  for (const StoredPoolProperty& property : stored_pool_properties()) {
    std::uint64_t value = property.default_value;
    PropertySource source = PropertySource::defaulted;
    if (props && *props) {
      const auto zap = object::Zap::open(*mos_, **props);
      const auto stored =
          zap ? zap->lookup(property.name) : Result<std::uint64_t>(std::unexpected(zap.error()));
      if (stored && *stored < property.values.size()) {
        value = *stored;
        source = PropertySource::local;
      }
    }
    all[property.name] = {property.values[value], value, source, {}};
  }
  for (const auto& [guid, count] : features_.counts()) {
    const format::Feature* const info = format::find_feature(guid);
    const std::string name =
        info != nullptr ? "feature@" + std::string(info->name) : "unsupported@" + guid;
    all[name] = {count != 0 ? "active" : "enabled", count, PropertySource::local, {}};
  }
  return all;
}

Result<void> PoolImpl::write_pool_property(object::Tx& tx, const std::string& name,
                                           const std::string& value) {
  for (const StoredPoolProperty& property : stored_pool_properties()) {
    if (name != property.name) {
      continue;
    }
    const auto found = std::ranges::find(property.values, value);
    if (found == property.values.end()) {
      return fail(Errc::invalid, "'" + value + "' is not a value of " + name);
    }
    ZUSE_TRY(auto object, directory_entry(*mos_, key::kPoolProps));
    if (!object) {
      object::NewObject spec;
      spec.type = format::ObjectType::pool_props;
      ZUSE_TRY(const object::Zap made, object::Zap::create(*mos_, tx, spec));
      ZUSE_TRY(object::Zap directory, object_directory(*mos_));
      ZUSE_TRY_VOID(directory.add(tx, key::kPoolProps, made.object()));
      object = made.object();
    }
    ZUSE_TRY(object::Zap props, object::Zap::open(*mos_, *object));
    return props.update(tx, name, static_cast<std::uint64_t>(found - property.values.begin()));
  }
  return fail(Errc::invalid, "invalid property '" + name + "'");
}

Result<void> PoolImpl::set_pool_property(const std::string& name, const std::string& value) {
  if (name == "raidz_impl") {  // of this process: nothing is written
    return storage_->tree().set_raidz_impl(value);
  }
  if (options_.read_only) {
    return fail(Errc::read_only, "pool '" + name_ + "' is read-only");
  }
  if (name == "comment") {
    if (value.size() > 32) {
      return fail(Errc::invalid, "a comment has at most 32 characters");
    }
    return run_task([&](object::Tx&) -> Result<void> {
      const LockGuard lock(mutex_);
      config_.comment = value;
      config_dirty_ = true;
      return {};
    });
  }
  if (name == "multihost" && value != "off") {
    return fail(Errc::unsupported, "property 'multihost' cannot be set (docs/limits.md)");
  }
  return run_task([&](object::Tx& tx) { return write_pool_property(tx, name, value); });
}

Result<void> PoolImpl::clear(std::uint64_t leaf_guid) {
  for (const vdev::VdevTree::Leaf& leaf : storage_->tree().leaves()) {
    if (leaf.device == nullptr && (leaf_guid == 0 || leaf_guid == leaf.guid)) {
      // It may be back under the path where it was.
      const auto opened = storage_->tree().reopen_leaf(
          leaf.guid,
          [&](const vdev::VdevConfig& config) -> Result<std::unique_ptr<vdev::BlockDevice>> {
            ZUSE_TRY(auto device, options_.devices(config.path, options_.read_only));
            ZUSE_TRY(const pool::LabelSet labels, pool::read_labels(*device));
            if (labels.config().u64_or("guid", 0) != config.guid ||
                labels.config().u64_or("pool_guid", 0) != guid_) {
              return fail(Errc::invalid, config.path + " is not the device that is missing");
            }
            return options_.decorate ? options_.decorate(std::move(device), config.guid)
                                     : std::move(device);
          });
      if (!opened && leaf_guid == leaf.guid) {
        return opened;
      }
    }
  }
  ZUSE_TRY_VOID(storage_->tree().clear(leaf_guid));
  storage_->pipeline().error_log().clear();
  if (txgs_ != nullptr) {
    txgs_->kick();
  }
  return {};
}

std::vector<DataError> PoolImpl::data_errors() {
  std::vector<DataError> errors;
  for (const pool::BlockError& error : storage_->pipeline().error_log().list()) {
    const auto hex = [](std::uint64_t number) {
      return "<0x" + object::Zap::hex_key(number) + ">";
    };
    DataError named;
    named.objset = error.bookmark.objset;
    named.object = error.bookmark.object;
    if (error.bookmark.objset == 0) {
      named.dataset = "<metadata>";
      named.path = hex(error.bookmark.object);
    } else {
      named.dataset = dsl_->name_of(error.bookmark.objset).value_or(hex(error.bookmark.objset));
      named.path = hex(error.bookmark.object);
    }
    const bool seen = std::ranges::any_of(errors, [&](const DataError& other) {
      return other.objset == named.objset && other.object == named.object;
    });
    if (!seen) {
      errors.push_back(std::move(named));
    }
  }
  return errors;
}

Result<std::vector<Pool::HistoryRecord>> PoolImpl::history() {
  std::vector<HistoryRecord> records;
  if (history_object_ == 0) {
    return records;
  }
  ZUSE_TRY(const auto lists, read_history(*mos_, history_object_));
  for (const codec::NvList& list : lists) {
    if (list.has("history command")) {
      records.push_back({list.u64_or("history time", 0), list.string_or("history command", "")});
    }
  }
  return records;
}

Result<void> PoolImpl::log_history(const std::string& command) {
  if (options_.read_only) {
    return {};
  }
  return run_task([&](object::Tx& tx) -> Result<void> {
    if (history_object_ == 0) {
      ZUSE_TRY(history_object_, create_history(*mos_, tx, storage_->allocator().dspace()));
      ZUSE_TRY(object::Zap directory, object_directory(*mos_));
      ZUSE_TRY_VOID(directory.add(tx, key::kHistory, history_object_));
    }
    return append_history(*mos_, tx, history_object_, command_record(command, tx.txg()));
  });
}

}  // namespace zuse::dataset
