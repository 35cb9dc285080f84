// Pools, vdevs and datasets as JSON: what the control socket answers and --json prints. Sizes are
// bytes, times Unix seconds, guids decimal strings (JSON numbers lose the low bits of 64).
#pragma once

#include "fs/control/message.h"
#include "fs/dataset/pool.h"

namespace zuse::control {

// {"type", "guid", "name", "state", "aux", "read", "write", "checksum", "children": [...]}
Json vdev_view(const vdev::VdevStatus& vdev);
// {"function", "state", "start", "end", "to_examine", "examined", "repaired", "errors", "rate"}
Json scan_view(const dataset::ScanStatus& scan);
// {"text", "number", "source", "from"}
Json property_view(const dataset::PropertyValue& value);
// {"name", "type", "mountable", "why_not", "properties": {...}, "used", "available", "referenced"}
Json dataset_view(const dataset::DatasetEntry& entry);
// {"name", "guid", "config", "status", "action", "problem"}
Json candidate_view(const dataset::ImportCandidate& candidate);
// Everything that `zpool status` prints.
// `path_of` names an object of a dataset, where it is mounted.
using PathOf = std::function<Result<std::string>(const std::string& dataset, std::uint64_t object)>;
Json status_view(dataset::Pool& pool, const PathOf& path_of);

const char* to_string(dataset::PropertySource source) noexcept;

}  // namespace zuse::control
