// The two tables between kinds of errors and errno. The first switch has no default, so the
// compiler names a kind that is added and forgotten here.
#include "fs/fuse/errno.h"

#include <cerrno>
#include <system_error>

namespace zuse::fuse {

int to_errno(Errc code) noexcept {
  switch (code) {
    case Errc::io:
    case Errc::gone:
    case Errc::checksum:
    case Errc::corrupt:
    case Errc::stopped: return EIO;
    case Errc::unsupported: return EOPNOTSUPP;
    case Errc::no_space: return ENOSPC;
    case Errc::not_found: return ENOENT;
    case Errc::exists: return EEXIST;
    case Errc::access: return EACCES;
    case Errc::not_permitted: return EPERM;
    case Errc::read_only: return EROFS;
    case Errc::busy: return EBUSY;
    case Errc::invalid: return EINVAL;
    case Errc::not_directory: return ENOTDIR;
    case Errc::is_directory: return EISDIR;
    case Errc::not_empty: return ENOTEMPTY;
    case Errc::name_too_long: return ENAMETOOLONG;
    case Errc::too_large: return EFBIG;
    case Errc::no_data: return ENODATA;
    case Errc::range: return ERANGE;
    case Errc::cross_device: return EXDEV;
    case Errc::too_many_links: return EMLINK;
    case Errc::stale: return ESTALE;
  }
  return EIO;
}

Errc from_errno(int number) noexcept {
  switch (number) {
    case ENXIO:
    case ENODEV: return Errc::gone;
    case EOPNOTSUPP:
    case ENOSYS: return Errc::unsupported;
    case ENOSPC:
    case EDQUOT: return Errc::no_space;
    case ENOENT: return Errc::not_found;
    case EEXIST: return Errc::exists;
    case EACCES: return Errc::access;
    case EPERM: return Errc::not_permitted;
    case EROFS: return Errc::read_only;
    case EBUSY:
    case EADDRINUSE: return Errc::busy;
    case EINVAL: return Errc::invalid;
    case ENOTDIR: return Errc::not_directory;
    case EISDIR: return Errc::is_directory;
    case ENOTEMPTY: return Errc::not_empty;
    case ENAMETOOLONG: return Errc::name_too_long;
    case EFBIG:
    case E2BIG: return Errc::too_large;
    case ENODATA: return Errc::no_data;
    case ERANGE: return Errc::range;
    case EXDEV: return Errc::cross_device;
    case EMLINK: return Errc::too_many_links;
    case ESTALE: return Errc::stale;
    case ECONNABORTED:
    case ENOTCONN:
    case ESHUTDOWN: return Errc::stopped;
    default: return Errc::io;
  }
}

Error system_error(int number, const std::string& context) {
  return Error(from_errno(number), context + ": " + std::generic_category().message(number));
}

}  // namespace zuse::fuse
