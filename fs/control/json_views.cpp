// The views. Every field is always there, so that readers need not ask.
#include "fs/control/json_views.h"

#include "vdev/tree.h"

namespace zuse::control {
namespace {

const char* type_name(vdev::VdevType type) {
  switch (type) {
    case vdev::VdevType::root: return "root";
    case vdev::VdevType::file: return "file";
    case vdev::VdevType::disk: return "disk";
    case vdev::VdevType::mirror: return "mirror";
    case vdev::VdevType::raidz: return "raidz";
    case vdev::VdevType::replacing: return "replacing";
    case vdev::VdevType::spare: return "spare";
    case vdev::VdevType::hole: return "hole";
    case vdev::VdevType::missing: return "missing";
  }
  return "unknown";
}

const char* aux_words(vdev::VdevAux aux) {
  switch (aux) {
    case vdev::VdevAux::none: return "";
    case vdev::VdevAux::open_failed: return "cannot open";
    case vdev::VdevAux::corrupt_data: return "corrupted data";
    case vdev::VdevAux::no_replicas: return "insufficient replicas";
    case vdev::VdevAux::bad_guid_sum: return "missing device";
    case vdev::VdevAux::too_small: return "too small";
    case vdev::VdevAux::bad_label: return "label missing or invalid";
    case vdev::VdevAux::err_exceeded: return "too many errors";
    case vdev::VdevAux::external: return "external device fault";
  }
  return "";
}

const char* scan_function(dataset::ScanStatus::Function function) {
  using enum dataset::ScanStatus::Function;
  switch (function) {
    case none: return "none";
    case scrub: return "scrub";
    case resilver: return "resilver";
  }
  return "none";
}

const char* scan_state(dataset::ScanStatus::State state) {
  using enum dataset::ScanStatus::State;
  switch (state) {
    case none: return "none";
    case scanning: return "scanning";
    case paused: return "paused";
    case finished: return "finished";
    case canceled: return "canceled";
  }
  return "none";
}

}  // namespace

const char* to_string(dataset::PropertySource source) noexcept {
  using enum dataset::PropertySource;
  switch (source) {
    case none: return "none";
    case local: return "local";
    case inherited: return "inherited";
    case defaulted: return "default";
    case received: return "received";
    case temporary: return "temporary";
  }
  return "none";
}

Json vdev_view(const vdev::VdevStatus& vdev) {
  Json children = Json::array();
  for (const vdev::VdevStatus& child : vdev.children) {
    children.push_back(vdev_view(child));
  }
  return {{"type", type_name(vdev.type)},
          {"guid", std::to_string(vdev.guid)},
          {"name", vdev.name},
          {"state", vdev::to_string(vdev.state)},
          {"aux", aux_words(vdev.aux)},
          {"read", vdev.stats.read_errors},
          {"write", vdev.stats.write_errors},
          {"checksum", vdev.stats.checksum_errors},
          {"repaired", vdev.stats.bytes_repaired},
          {"size", vdev.asize},
          {"ashift", vdev.ashift},
          {"children", std::move(children)}};
}

Json scan_view(const dataset::ScanStatus& scan) {
  return {{"function", scan_function(scan.function)},
          {"state", scan_state(scan.state)},
          {"start", scan.start_time},
          {"end", scan.end_time},
          {"to_examine", scan.to_examine},
          {"examined", scan.examined},
          {"repaired", scan.repaired},
          {"errors", scan.errors},
          {"rate", scan.bytes_per_second}};
}

Json property_view(const dataset::PropertyValue& value) {
  return {{"text", value.text},
          {"number", value.number},
          {"source", to_string(value.source)},
          {"from", value.inherited_from}};
}

Json dataset_view(const dataset::DatasetEntry& entry) {
  Json properties = Json::object();
  for (const auto& [name, value] : entry.properties.all()) {
    properties[name] = property_view(value);
  }
  return {{"name", entry.name},
          {"type", entry.type},
          {"mountable", entry.mountable},
          {"why_not", entry.why_not},
          {"used", entry.space.used},
          {"available", entry.space.available},
          {"referenced", entry.space.referenced},
          {"properties", std::move(properties)}};
}

Json candidate_view(const dataset::ImportCandidate& candidate) {
  return {{"name", candidate.name},
          {"guid", std::to_string(candidate.guid)},
          {"config", vdev_view(candidate.config)},
          {"status", candidate.status},
          {"action", candidate.action},
          {"problem", candidate.problem}};
}

Json status_view(dataset::Pool& pool, const PathOf& path_of) {
  Json errors = Json::array();
  for (const dataset::DataError& error : pool.data_errors()) {
    // A path under the mount says it all; else the dataset and a number.
    const auto path = error.objset == 0 ? Result<std::string>(fail(Errc::not_found))
                                        : path_of(error.dataset, error.object);
    errors.push_back({{"dataset", path ? "" : error.dataset}, {"path", path.value_or(error.path)}});
  }
  const vdev::VdevStatus tree = pool.status();
  return {{"name", pool.name()},
          {"guid", std::to_string(pool.guid())},
          {"read_only", pool.read_only()},
          {"state", vdev::to_string(tree.state)},
          {"scan", scan_view(pool.scan_status())},
          {"config", vdev_view(tree)},
          {"errors", std::move(errors)}};
}

}  // namespace zuse::control
