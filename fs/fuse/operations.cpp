// What all handlers share: the start of a connection, the form of attributes, how long the kernel
// may keep them, and errors.
//
// The pool is ours alone, so the kernel may keep what it learnt for as long as it likes. Two
// exceptions: the virtual .zfs tree, which changes with each snapshot, and the number of blocks of
// a file written moments ago, which is settled only when its transaction group has synced.
#include "fs/fuse/operations.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <chrono>
#include <ctime>

#include "fs/fuse/errno.h"
#include "vdev/base/log.h"

namespace zuse::fuse {
namespace {

spdlog::logger& log() {
  static auto& logger = layer_log("fuse");
  return logger;
}

constexpr double kForever = 365.0 * 86400;
constexpr double kUnsettled = 1.0;
constexpr double kVirtual = 1.0;
constexpr std::int64_t kSettleSeconds = 15;  // a few sync intervals

// The virtual .zfs directories count down from 2^48 - 1; objects count up from 1 and stay below
// 2^48 less the number of datasets. source: format page 08 section 12.
constexpr posix::Inode kVirtualFirst = posix::Inode{0xFFFF00000000};

std::int64_t now_seconds() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME_COARSE, &now);
  return now.tv_sec;
}

void set(fuse_conn_info& connection, unsigned capability, bool wanted) {
  if (wanted) {
    connection.want |= connection.capable & capability;
  } else {
    connection.want &= ~capability;
  }
}

void start_connection(void* data, fuse_conn_info* connection) {
  Served& state = *static_cast<Served*>(data);
  set(*connection, FUSE_CAP_ASYNC_READ, true);
  set(*connection, FUSE_CAP_ASYNC_DIO, true);
  set(*connection, FUSE_CAP_WRITEBACK_CACHE, state.writeback);
  set(*connection, FUSE_CAP_PARALLEL_DIROPS, true);
  set(*connection, FUSE_CAP_READDIRPLUS, true);
  set(*connection, FUSE_CAP_READDIRPLUS_AUTO, true);
  set(*connection, FUSE_CAP_CACHE_SYMLINKS, true);
  set(*connection, FUSE_CAP_NO_OPEN_SUPPORT, true);
  state.opens_itself.store((connection->want & FUSE_CAP_NO_OPEN_SUPPORT) != 0);
  set(*connection, FUSE_CAP_POSIX_ACL, state.posix_acl);
  set(*connection, FUSE_CAP_DONT_MASK, state.posix_acl);
  // Nobody else changes files, so cached pages need no second look.
  set(*connection, FUSE_CAP_AUTO_INVAL_DATA, false);
  set(*connection, FUSE_CAP_EXPLICIT_INVAL_DATA, true);
  // The kernel truncates by setattr (open is not asked for at all), and keeps flock and fcntl locks
  // itself. Set-id bits it clears itself where it knows no better way (set_id_bits.h).
  set(*connection, FUSE_CAP_ATOMIC_O_TRUNC, false);
  set(*connection, FUSE_CAP_HANDLE_KILLPRIV, false);
  set(*connection, FUSE_CAP_FLOCK_LOCKS, false);
  set(*connection, FUSE_CAP_POSIX_LOCKS, false);
  // A request is read straight into the worker's buffer and a reply written from one: the detour
  // over a pipe saves no copy, since the bytes end in record buffers.
  set(*connection, FUSE_CAP_SPLICE_READ, false);
  set(*connection, FUSE_CAP_SPLICE_WRITE, false);
  set(*connection, FUSE_CAP_SPLICE_MOVE, false);
  connection->max_write = static_cast<unsigned>(kRequestSizeMax);
  connection->max_read = static_cast<unsigned>(kRequestSizeMax);
  connection->max_readahead = static_cast<unsigned>(kRequestSizeMax);
  connection->max_background = 64;
  connection->congestion_threshold = 48;
  connection->time_gran = 1;
  log().debug("connection_started version={}.{} capable={:#x} want={:#x}", connection->proto_major,
              connection->proto_minor, connection->capable, connection->want);
}

timespec to_timespec(const posix::Time& time) {
  return {static_cast<std::time_t>(time.seconds), static_cast<long>(time.nanoseconds)};
}

}  // namespace

void reply_error(fuse_req_t request, const char* operation, fuse_ino_t node, const Error& error) {
  const int number = to_errno(error.code());
  if (number == EIO) {
    Served& state = served(request);
    const std::int64_t now = now_seconds();
    std::int64_t last = state.failure_logged.load(std::memory_order_relaxed);
    if (now != last && state.failure_logged.compare_exchange_strong(last, now)) {
      log().error("request_failed op={} inode={} why=\"{}\" not_shown={}", operation,
                  state.inode(node), error.what(), state.failures_silent.exchange(0));
    } else {
      state.failures_silent.fetch_add(1, std::memory_order_relaxed);
    }
  }
  fuse_reply_err(request, number);
}

struct stat to_stat(const posix::Attributes& attributes) {
  struct stat result{};
  result.st_ino = attributes.inode;
  result.st_mode = attributes.mode;
  result.st_nlink = attributes.links;
  result.st_uid = attributes.uid;
  result.st_gid = attributes.gid;
  result.st_rdev = makedev(attributes.rdev_major, attributes.rdev_minor);
  result.st_size = static_cast<off_t>(attributes.size);
  result.st_blocks = static_cast<blkcnt_t>(attributes.blocks);
  result.st_blksize = static_cast<blksize_t>(attributes.block_size);
  result.st_atim = to_timespec(attributes.atime);
  result.st_mtim = to_timespec(attributes.mtime);
  result.st_ctim = to_timespec(attributes.ctime);
  return result;
}

double entry_timeout(posix::Inode inode) {
  return inode >= kVirtualFirst ? kVirtual : kForever;
}

double attribute_timeout(const posix::Attributes& attributes) {
  if (attributes.inode >= kVirtualFirst) {
    return kVirtual;
  }
  const bool settled = !S_ISREG(attributes.mode) || attributes.size == 0 ||
                       attributes.ctime.seconds + kSettleSeconds < now_seconds();
  return settled ? kForever : kUnsettled;
}

fuse_entry_param to_entry(const Served& state, const posix::Attributes& attributes) {
  fuse_entry_param entry{};
  entry.ino = state.node(attributes.inode);
  entry.generation = attributes.generation;
  entry.attr = to_stat(attributes);
  entry.attr_timeout = attribute_timeout(attributes);
  entry.entry_timeout = entry_timeout(attributes.inode);
  return entry;
}

posix::Caller caller_of(fuse_req_t request) {
  const fuse_ctx* const context = fuse_req_ctx(request);
  const Served& state = served(request);
  return {.uid = context->uid,
          .gid = context->gid,
          .umask = state.posix_acl ? context->umask : 0,
          .clears_set_id =
              request_marks.clears_set_id && state.promised.load(std::memory_order_relaxed)};
}

fuse_lowlevel_ops operations() {
  fuse_lowlevel_ops table{};
  table.init = start_connection;
  add_name_operations(table);
  add_data_operations(table);
  return table;
}

}  // namespace zuse::fuse
