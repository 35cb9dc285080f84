// Resolving and setting properties. A value is looked for in the dataset's own directory, then, for
// those that are inherited, in each parent up to the root; then it is the default.
// source: format page 07 sections 5, 11.
#include <array>
#include <ctime>

#include "fs/dataset/dsl.h"

namespace zuse::dataset {
namespace {

constexpr std::string_view kReceived = "$recvd";
constexpr std::string_view kInherit = "$inherit";
constexpr std::string_view kFuture = "$iuv";  // the real value of an index that old software lacks

// One directory's stored value of a property, if any.
struct Stored {
  object::ZapValue value;
  bool received = false;
};

Result<std::optional<Stored>> stored(object::Objset& mos, std::uint64_t zap,
                                     const std::string& name) {
  if (zap == 0) {
    return std::nullopt;
  }
  ZUSE_TRY(const object::Zap props, object::Zap::open(mos, zap));
  const auto get = [&](const std::string& key) -> Result<std::optional<object::ZapValue>> {
    auto value = props.lookup_value(key);
    if (value) {
      return *std::move(value);
    }
    if (value.error().code() == Errc::not_found) {
      return std::nullopt;
    }
    return std::unexpected(std::move(value).error());
  };
  for (const std::string& key : {name + std::string(kFuture), name}) {
    ZUSE_TRY(auto value, get(key));
    if (value) {
      return Stored{*std::move(value), false};
    }
  }
  ZUSE_TRY(const auto inherit, get(name + std::string(kInherit)));
  if (inherit) {
    return std::nullopt;
  }
  ZUSE_TRY(auto value, get(name + std::string(kReceived)));
  if (value) {
    return Stored{*std::move(value), true};
  }
  return std::nullopt;
}

PropertyValue number(std::uint64_t value, std::string text) {
  return {std::move(text), value, PropertySource::none, {}};
}
PropertyValue bytes(std::uint64_t value) {
  return number(value, format_size(value));
}

std::string ratio(std::uint64_t uncompressed, std::uint64_t compressed) {
  const double value =
      compressed == 0 ? 1.0 : static_cast<double>(uncompressed) / static_cast<double>(compressed);
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2fx", value < 1.0 ? 1.0 : value);
  return text.data();
}

std::string date(std::uint64_t seconds) {
  const auto when = static_cast<std::time_t>(seconds);
  std::tm parts{};
  localtime_r(&when, &parts);
  std::array<char, 64> text{};
  std::strftime(text.data(), text.size(), "%a %b %e %H:%M %Y", &parts);
  return text.data();
}

}  // namespace

// The dataset's directory and its parents, each with its name, the nearest first.
Result<std::vector<std::pair<std::uint64_t, std::string>>> Dsl::lineage(std::uint64_t object,
                                                                        const std::string& name) {
  std::vector<std::pair<std::uint64_t, std::string>> chain;
  std::string path = name.substr(0, name.find('@'));
  for (std::uint64_t at = object; at != 0;) {
    if (chain.size() > 64) {
      return fail(Errc::corrupt, "directories are nested too deep above '" + name + "'");
    }
    chain.emplace_back(at, path);
    const std::size_t slash = path.rfind('/');
    path = slash == std::string::npos ? std::string() : path.substr(0, slash);
    ZUSE_TRY(const auto phys, directory(at));
    at = phys.parent;
  }
  return chain;
}

Result<void> Dsl::resolve(const NamedDataset& named, const PropertyInfo& property,
                          PropertySet& into) {
  const std::string key(property.name);
  PropertyValue result{property.kind == PropertyKind::text
                           ? std::string(property.default_text)
                           : format_property(property, property.default_number),
                       property.default_number,
                       PropertySource::defaulted,
                       {}};
  const auto take = [&](const Stored& found, PropertySource source) {
    if (property.kind == PropertyKind::text) {
      result.text = found.value.as_string();
    } else if (!found.value.integers.empty()) {
      result.number = found.value.integers[0];
      result.text = format_property(property, result.number);
    }
    result.source = found.received ? PropertySource::received : source;
  };
  if (named.snapshot) {
    ZUSE_TRY(const auto phys, dataset(named.dataset));
    ZUSE_TRY(const auto own, stored(mos_, phys.props_zap, key));
    if (own) {
      take(*own, PropertySource::local);
      into.all()[key] = result;
      return {};
    }
    if (property.name == "mountpoint" || property.name == "canmount") {
      return {};  // snapshots have neither
    }
  }
  ZUSE_TRY(const auto chain, lineage(named.directory, named.name));
  std::string found_at;
  for (std::size_t i = 0; i < chain.size(); ++i) {
    const auto& [object, name] = chain[i];
    ZUSE_TRY(const auto phys, directory(object));
    ZUSE_TRY(const auto value, stored(mos_, phys.props_zap, key));
    if (value) {
      const bool own = i == 0 && !named.snapshot;
      take(*value, own ? PropertySource::local : PropertySource::inherited);
      if (!own) {
        result.source = PropertySource::inherited;
        result.inherited_from = name;
      }
      found_at = name;
      break;
    }
    if (!property.inheritable) {
      break;
    }
  }
  if (property.name == "mountpoint" && result.text != "none" && result.text != "legacy") {
    // Below where it was set, the names of the children are appended.
    const std::string path = named.name.substr(0, named.name.find('@'));
    if (found_at.empty()) {
      result.text = "/" + path;
    } else if (found_at != path) {
      result.text += (result.text == "/" ? "" : "/") + path.substr(found_at.size() + 1);
    }
  }
  into.all()[key] = result;
  return {};
}

Result<PropertySet> Dsl::properties(const NamedDataset& named) {
  PropertySet set;
  for (const PropertyInfo& property : dataset_properties()) {
    if (property.kind != PropertyKind::computed) {
      ZUSE_TRY_VOID(resolve(named, property, set));
    }
  }
  ZUSE_TRY(const auto phys, dataset(named.dataset));
  ZUSE_TRY(const auto dir, directory(named.directory));
  auto& all = set.all();
  all["type"] = {named.snapshot ? "snapshot" : "filesystem", 0, PropertySource::none, {}};
  all["creation"] = number(phys.creation_time, date(phys.creation_time));
  all["createtxg"] = number(phys.creation_txg, std::to_string(phys.creation_txg));
  all["guid"] = number(phys.guid, std::to_string(phys.guid));
  all["objsetid"] = number(named.dataset, std::to_string(named.dataset));
  all["referenced"] = bytes(phys.referenced);
  all["logicalreferenced"] = bytes(phys.uncompressed);
  if (named.snapshot) {
    all["used"] = bytes(phys.unique);
    all["compressratio"] = number(0, ratio(phys.uncompressed, phys.compressed));
    for (const char* name :
         {"quota", "reservation", "refquota", "refreservation", "recordsize", "compression",
          "checksum", "copies", "atime", "relatime", "logbias", "sync", "dedup", "readonly",
          "dnodesize", "redundant_metadata", "special_small_blocks", "snapdir", "longname"}) {
      all.erase(name);  // a snapshot writes nothing
    }
    return set;
  }
  all["quota"].number = dir.quota;
  all["reservation"].number = dir.reserved;
  for (const char* name : {"quota", "reservation"}) {
    all[name].text = format_property(*find_property(name), all[name].number);
  }
  all["used"] = bytes(dir.used);
  all["logicalused"] = bytes(dir.uncompressed);
  all["compressratio"] = number(0, ratio(dir.uncompressed, dir.compressed));
  const auto part = [&](format::UsedPart kind) { return dir.part(kind); };
  all["usedbydataset"] = bytes(part(format::UsedPart::head));
  all["usedbysnapshots"] = bytes(part(format::UsedPart::snap));
  all["usedbychildren"] = bytes(part(format::UsedPart::child) + part(format::UsedPart::child_rsrv));
  all["usedbyrefreservation"] = bytes(part(format::UsedPart::refrsrv));
  if (dir.origin != 0) {
    const auto origin = name_of(dir.origin);
    if (origin) {  // not the hidden $ORIGIN snapshot
      all["origin"] = {*origin, 0, PropertySource::none, {}};
    }
  }
  return set;
}

Result<void> Dsl::set_property(object::Tx& tx, const NamedDataset& named, std::string_view name,
                               std::string_view value) {
  if (named.snapshot) {
    return fail(Errc::invalid, "'" + named.name + "' is a snapshot: its properties cannot be set");
  }
  ZUSE_TRY(const auto dir, directory(named.directory));
  ZUSE_TRY(object::Zap props, object::Zap::open(mos_, dir.props_zap));
  const std::string key(name);
  if (name.find(':') != std::string_view::npos) {
    return props.update_value(tx, key, object::ZapValue::string(value));
  }
  const PropertyInfo* const property = find_property(name);
  if (property == nullptr) {
    return fail(Errc::invalid, "invalid property '" + key + "'");
  }
  if (property->kind == PropertyKind::computed) {
    return fail(Errc::invalid, "property '" + key + "' is read-only");
  }
  if (property->kind == PropertyKind::text) {
    if (property->name == "mountpoint" && value != "none" && value != "legacy" &&
        (value.empty() || value[0] != '/')) {
      return fail(Errc::invalid, "mountpoint must be an absolute path, 'none' or 'legacy'");
    }
    return props.update_value(tx, property->name, object::ZapValue::string(value));
  }
  ZUSE_TRY(const std::uint64_t stored_number, parse_property(*property, value));
  if (property->name == "refquota" || property->name == "refreservation" ||
      property->name == "reservation") {
    return fail(Errc::unsupported, "property '" + key + "' cannot be set yet (docs/limits.md)");
  }
  if (property->name == "quota") {
    auto changed = dir;
    changed.quota = stored_number;
    put_directory(named.directory, changed);
  }
  return props.update(tx, property->name, stored_number);
}

}  // namespace zuse::dataset
