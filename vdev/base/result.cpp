#include "vdev/base/result.h"

#include <cstdio>
#include <cstdlib>

namespace zuse {

const char* to_string(Errc code) noexcept {
  switch (code) {
    case Errc::io: return "io";
    case Errc::gone: return "gone";
    case Errc::checksum: return "checksum";
    case Errc::corrupt: return "corrupt";
    case Errc::unsupported: return "unsupported";
    case Errc::no_space: return "no_space";
    case Errc::not_found: return "not_found";
    case Errc::exists: return "exists";
    case Errc::access: return "access";
    case Errc::not_permitted: return "not_permitted";
    case Errc::read_only: return "read_only";
    case Errc::busy: return "busy";
    case Errc::invalid: return "invalid";
    case Errc::not_directory: return "not_directory";
    case Errc::is_directory: return "is_directory";
    case Errc::not_empty: return "not_empty";
    case Errc::name_too_long: return "name_too_long";
    case Errc::too_large: return "too_large";
    case Errc::no_data: return "no_data";
    case Errc::range: return "range";
    case Errc::cross_device: return "cross_device";
    case Errc::too_many_links: return "too_many_links";
    case Errc::stale: return "stale";
    case Errc::stopped: return "stopped";
  }
  return "unknown";
}

void check_failed(const char* expression, const char* file, int line) noexcept {
  std::fprintf(stderr, "zuse: internal check failed: %s (%s:%d)\n", expression, file, line);
  std::abort();
}

}  // namespace zuse
