// Opening, locking and measuring a backing file. The I/O itself is io_batch.cpp's.
#include "vdev/file_device.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>

#include "vdev/base/buffer.h"
#include "vdev/base/log.h"
#include "vdev/base/units.h"

namespace zuse::vdev {
namespace {

// Larger alignments than this are not what O_DIRECT asks for anywhere.
constexpr std::uint32_t kAlignmentMax = 64 * 1024;

spdlog::logger& log() {
  static spdlog::logger& logger = layer_log("vdev");
  return logger;
}

Errc kind_of(int error) noexcept {
  switch (error) {
    case ENOENT:
    case ENOTDIR: return Errc::not_found;
    case EACCES:
    case EPERM: return Errc::access;
    case EROFS: return Errc::read_only;
    case EBUSY:
    case EWOULDBLOCK:
    case ETXTBSY: return Errc::busy;
    case ENODEV:
    case ENXIO:
    case ENOMEDIUM: return Errc::gone;
    default: return Errc::io;
  }
}

std::unexpected<Error> refuse(const std::string& path, const char* doing, int error) {
  return fail(kind_of(error), fmt::format("{}: {}: {}", path, doing, std::strerror(error)));
}

bool usable_alignment(std::uint64_t value) noexcept {
  return std::has_single_bit(value) && value <= kAlignmentMax;
}

struct DirectAlignment {
  std::uint32_t memory = 0;  // 0: no direct I/O
  std::uint32_t offset = 0;
};

// What direct I/O on this file asks for: from the kernel where it says so (Linux 6.1), else the
// first common sector size at which a read succeeds.
DirectAlignment direct_alignment(int fd, std::uint64_t size) {
#ifdef STATX_DIOALIGN
  struct statx about{};
  if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &about) == 0 &&
      (about.stx_mask & STATX_DIOALIGN) != 0) {
    if (!usable_alignment(about.stx_dio_mem_align) ||
        !usable_alignment(about.stx_dio_offset_align)) {
      return {};
    }
    return {about.stx_dio_mem_align, about.stx_dio_offset_align};
  }
#endif
  Buffer probe(4096);
  for (const std::uint32_t unit : {512U, 4096U}) {
    if (size >= unit && pread(fd, probe.data(), unit, 0) == static_cast<ssize_t>(unit)) {
      return {unit, unit};
    }
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<FileDevice>> FileDevice::open(const std::string& path,
                                                     const FileDeviceOptions& options) {
  std::unique_ptr<FileDevice> device(new FileDevice(path));
  ZUSE_TRY_VOID(device->open_file(options));
  ZUSE_TRY_VOID(device->measure());
  if (options.direct) {
    device->try_direct(options);
  }
  log().debug("device_opened path={} size={} direct={} sector_shift={} read_only={}", path,
              device->size_, device->direct(), device->sector_shift_, device->read_only_);
  return device;
}

Result<void> FileDevice::open_file(const FileDeviceOptions& options) {
  read_only_ = options.read_only;
  struct stat about{};
  if (::stat(path_.c_str(), &about) != 0) {
    return refuse(path_, "cannot open", errno);
  }
  is_block_device_ = S_ISBLK(about.st_mode);
  if (!is_block_device_ && !S_ISREG(about.st_mode)) {
    return fail(Errc::invalid, fmt::format("{}: neither a regular file nor a block device", path_));
  }
  // On a block device O_EXCL without O_CREAT claims it from mounts and other claimants.
  const int flags = (read_only_ ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_NONBLOCK |
                    (is_block_device_ && !read_only_ ? O_EXCL : 0);
  access_.fd = ::open(path_.c_str(), flags);
  if (access_.fd < 0) {
    return refuse(path_, errno == EBUSY ? "in use" : "cannot open", errno);
  }
  if (flock(access_.fd, (read_only_ ? LOCK_SH : LOCK_EX) | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) {
      return fail(Errc::busy, fmt::format("{}: in use by another pool or process", path_));
    }
    return refuse(path_, "cannot lock", errno);
  }
  // O_NONBLOCK only kept the opening from waiting, where a pipe had been put in the name's place.
  // Left on, io_uring would answer EAGAIN on file systems that cannot but wait.
  const int status_flags = fcntl(access_.fd, F_GETFL);
  if (status_flags < 0 || fcntl(access_.fd, F_SETFL, status_flags & ~O_NONBLOCK) != 0) {
    return refuse(path_, "cannot set up", errno);
  }
  struct stat opened{};
  if (fstat(access_.fd, &opened) != 0) {
    return refuse(path_, "cannot examine", errno);
  }
  if ((opened.st_mode & S_IFMT) != (about.st_mode & S_IFMT)) {
    return fail(Errc::invalid, fmt::format("{}: was replaced while it was opened", path_));
  }
  return {};
}

Result<void> FileDevice::measure() {
  if (is_block_device_) {
    int sector = 0;
    if (ioctl(access_.fd, BLKGETSIZE64, &size_) != 0 ||
        ioctl(access_.fd, BLKSSZGET, &sector) != 0) {
      return refuse(path_, "cannot measure", errno);
    }
    const auto bytes = static_cast<std::uint64_t>(std::max(sector, 512));
    if (!usable_alignment(bytes)) {
      return fail(Errc::unsupported, fmt::format("{}: sectors of {} bytes", path_, bytes));
    }
    sector_shift_ = log2_floor(bytes);
    return {};
  }
  struct stat about{};
  if (fstat(access_.fd, &about) != 0) {
    return refuse(path_, "cannot measure", errno);
  }
  size_ = static_cast<std::uint64_t>(about.st_size);
  return {};
}

// Switches to direct I/O where it fits; leaves the file on the page cache where it does not.
void FileDevice::try_direct(const FileDeviceOptions& options) {
  const int flags = fcntl(access_.fd, F_GETFL);
  if (flags < 0 || fcntl(access_.fd, F_SETFL, flags | O_DIRECT) != 0) {
    return;
  }
  const DirectAlignment wanted = direct_alignment(access_.fd, size_);
  const std::uint64_t smallest_write =
      pow2(std::clamp(std::max(options.smallest_write_shift, sector_shift_), 9U, 16U));
  // Alignments of 1 would read as "page-cached".
  const std::uint32_t offset_alignment = std::max(wanted.offset, 512U);
  const bool fits =
      wanted.memory != 0 && offset_alignment <= smallest_write && size_ % offset_alignment == 0;
  if (!fits) {
    static_cast<void>(fcntl(access_.fd, F_SETFL, flags));
    return;
  }
  access_.memory_alignment = wanted.memory;
  access_.offset_alignment = offset_alignment;
  sector_shift_ = std::max(sector_shift_, log2_floor(offset_alignment));
}

FileDevice::~FileDevice() {
  if (access_.fd >= 0) {
    close(access_.fd);
  }
}

void FileDevice::start(IoRequest& request, IoBatch& batch) {
  const std::uint64_t length = request.size();
  const bool writes = request.op == IoOp::write || request.op == IoOp::discard;
  if (length > size_ || request.offset > size_ - length || (writes && read_only_)) {
    log().warn("io_refused device={} op={} offset={} length={} size={} read_only={}", path_,
               to_string(request.op), request.offset, length, size_, read_only_);
    request.finish(IoStatus::io_error);
    return;
  }
  if (request.op == IoOp::flush && read_only_) {
    request.finish(IoStatus::ok);
    return;
  }
  if (request.op == IoOp::discard) {
    if (length == 0) {
      request.finish(IoStatus::ok);
      return;
    }
    if (is_block_device_) {
      std::array<std::uint64_t, 2> range{request.offset, length};
      const bool done = ioctl(access_.fd, BLKDISCARD, range.data()) == 0;
      // A device that cannot discard loses nothing: it is a hint.
      request.finish(done || errno == EOPNOTSUPP || errno == EINVAL ? IoStatus::ok
                                                                    : IoStatus::io_error);
      return;
    }
  }
  batch.queue_file(access_, request);
}

}  // namespace zuse::vdev
