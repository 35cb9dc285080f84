// Logging: spdlog, one logger a layer, lines of the form `event key=value`. error: data lost or at
// risk; warn: redundancy used; info: what an operator did; debug: decisions; trace: every I/O.
#pragma once

#include <spdlog/spdlog.h>

#include <string>

namespace zuse {

// The logger of a layer ("vdev", "pool", "fuse"), made at first use. Thread-safe. A file's own
// `log()` helper keeps the reference: `spdlog::logger& log() { static auto& l = layer_log("vdev");
// return l; }`
spdlog::logger& layer_log(const char* layer);

// Sends every layer's log to this file as well as to stderr (stderr only where the path is empty),
// from `level` on ("trace" ... "error", "off"). Call before threads start.
void configure_log(const std::string& path, const std::string& level);

}  // namespace zuse
