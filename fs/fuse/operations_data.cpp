// Handlers of contents: read, write, seek, allocate, directories, extended attributes, fsync.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "fs/fuse/errno.h"
#include "fs/fuse/operations.h"
#include "vdev/base/buffer.h"

namespace zuse::fuse {
namespace {

// Parts of a reply that go to the kernel as they lie, beside its header; more (tiny records) are
// copied together first. A kernel takes 1024.
constexpr std::size_t kReplyPieces = 256;

// A thread's place for replies: what the file system reads into and the kernel copies from.
std::span<std::byte> reply_space(std::size_t size) {
  thread_local Buffer space;
  if (space.size() < size) {
    space = Buffer(std::max(size, kRequestSizeMax));
  }
  return space.span().first(size);
}

const char* chars(std::span<const std::byte> bytes) {
  return reinterpret_cast<const char*>(bytes.data());
}

void reply_bytes(fuse_req_t request, std::span<const std::byte> bytes) {
  fuse_reply_buf(request, chars(bytes), bytes.size());
}

void read(fuse_req_t request, fuse_ino_t node, std::size_t size, off_t offset,
          fuse_file_info* /*file*/) {
  Served& state = served(request);
  const auto pieces =
      state.file_system.read(state.inode(node), static_cast<std::uint64_t>(offset), size);
  if (!pieces) {
    return reply_error(request, "read", node, pieces.error());
  }
  if (pieces->size() >= kReplyPieces) {
    const std::span<std::byte> space = reply_space(size);
    return reply_bytes(request, space.first(object::copy_pieces(*pieces, space)));
  }
  std::array<iovec, kReplyPieces> parts;
  std::size_t count = 0;
  for (const object::Piece& piece : *pieces) {
    // The kernel only reads what the vector names.
    parts[count++] = {const_cast<std::byte*>(piece.bytes.data()), piece.bytes.size()};
  }
  fuse_reply_iov(request, parts.data(), static_cast<int>(count));
}

// The kernel keeps modes for as long as it likes: that one changed with a write it must be told.
bool loses_set_id(const Served& state, fuse_ino_t node, const posix::Caller& caller) {
  if (!caller.clears_set_id) {
    return false;
  }
  const auto attributes = state.file_system.attributes(state.inode(node));
  return attributes && (attributes->mode & (S_ISUID | S_ISGID)) != 0;
}

void forget_attributes(const Served& state, fuse_ino_t node) {
  constexpr off_t kAttributesOnly = -1;
  fuse_lowlevel_notify_inval_inode(state.session, node, kAttributesOnly, 0);
}

void write(fuse_req_t request, fuse_ino_t node, const char* bytes, std::size_t size, off_t offset,
           fuse_file_info* /*file*/) {
  Served& state = served(request);
  const posix::Caller caller = caller_of(request);
  const bool loses = loses_set_id(state, node, caller);
  const auto done = state.file_system.write(state.inode(node), static_cast<std::uint64_t>(offset),
                                            std::as_bytes(std::span(bytes, size)), caller);
  if (!done) {
    return reply_error(request, "write", node, done.error());
  }
  if (loses) {
    forget_attributes(state, node);
  }
  fuse_reply_write(request, size);
}

void fsync(fuse_req_t request, fuse_ino_t node, int /*data_only*/, fuse_file_info* /*file*/) {
  Served& state = served(request);
  if (const auto done = state.file_system.fsync(state.inode(node)); !done) {
    return reply_error(request, "fsync", node, done.error());
  }
  fuse_reply_err(request, 0);
}

void fallocate(fuse_req_t request, fuse_ino_t node, int mode, off_t offset, off_t length,
               fuse_file_info* /*file*/) {
  Served& state = served(request);
  const posix::Caller caller = caller_of(request);
  const bool loses = loses_set_id(state, node, caller);
  if (const auto done =
          state.file_system.allocate(state.inode(node), mode, static_cast<std::uint64_t>(offset),
                                     static_cast<std::uint64_t>(length), caller);
      !done) {
    return reply_error(request, "fallocate", node, done.error());
  }
  if (loses) {
    forget_attributes(state, node);
  }
  fuse_reply_err(request, 0);
}

void lseek(fuse_req_t request, fuse_ino_t node, off_t offset, int whence,
           fuse_file_info* /*file*/) {
  Served& state = served(request);
  if (whence != SEEK_DATA && whence != SEEK_HOLE) {
    fuse_reply_err(request, EINVAL);
    return;
  }
  if (offset < 0) {
    fuse_reply_err(request, ENXIO);
    return;
  }
  const auto from = static_cast<std::uint64_t>(offset);
  const auto found = whence == SEEK_DATA ? state.file_system.seek_data(state.inode(node), from)
                                         : state.file_system.seek_hole(state.inode(node), from);
  if (!found) {
    const Errc code = found.error().code();
    // Nothing there any more, or past the end: lseek(2) has a number of its own for that.
    if (code == Errc::range || code == Errc::no_data || code == Errc::not_found) {
      fuse_reply_err(request, ENXIO);
      return;
    }
    return reply_error(request, "lseek", node, found.error());
  }
  fuse_reply_lseek(request, static_cast<off_t>(*found));
}

void opendir(fuse_req_t request, fuse_ino_t node, fuse_file_info* file) {
  // The kernel may keep what it read of a directory; of the virtual ones, which change without it,
  // it keeps nothing.
  const bool keep = entry_timeout(served(request).inode(node)) > 60;
  file->keep_cache = keep ? 1 : 0;
  file->cache_readdir = keep ? 1 : 0;
  fuse_reply_open(request, file);
}

bool is_dot(const std::string& name) {
  return name == "." || name == "..";
}

// Fills at most `size` bytes with entries from `offset` on. With `plus`, each entry brings its
// attributes and counts as looked up, except the dots.
void list(fuse_req_t request, fuse_ino_t node, std::size_t size, off_t offset, bool plus) {
  Served& state = served(request);
  const posix::Inode directory = state.inode(node);
  size = std::min(size, kRequestSizeMax);
  // An entry takes 32 bytes at least; with attributes, 160.
  const std::size_t limit = std::max<std::size_t>(1, size / (plus ? 160 : 32));
  const auto entries =
      state.file_system.read_directory(directory, static_cast<std::uint64_t>(offset), limit);
  if (!entries) {
    return reply_error(request, "readdir", node, entries.error());
  }
  const std::span<std::byte> space = reply_space(size);
  auto* const out = reinterpret_cast<char*>(space.data());
  std::size_t used = 0;
  std::vector<posix::Inode> counted;
  for (const posix::DirectoryEntry& entry : *entries) {
    const std::size_t left = size - used;
    const auto next = static_cast<off_t>(entry.next_offset);
    std::size_t needed = 0;
    if (!plus) {
      struct stat info{};
      info.st_ino = entry.inode;
      info.st_mode = static_cast<mode_t>(DTTOIF(entry.type));
      needed = fuse_add_direntry(request, out + used, left, entry.name.c_str(), &info, next);
    } else {
      fuse_entry_param parameters{};
      parameters.attr.st_ino = entry.inode;
      parameters.attr.st_mode = static_cast<mode_t>(DTTOIF(entry.type));
      // Ask for the size first: a lookup that does not fit would have to be taken back.
      needed = fuse_add_direntry_plus(request, nullptr, 0, entry.name.c_str(), &parameters, next);
      if (needed > left) {
        break;
      }
      if (!is_dot(entry.name)) {
        const auto found = state.file_system.lookup(directory, entry.name);
        if (found) {
          parameters = to_entry(state, *found);
          counted.push_back(found->inode);
        }  // else it went away just now, or cannot be read: name without attributes
      }
      needed =
          fuse_add_direntry_plus(request, out + used, left, entry.name.c_str(), &parameters, next);
    }
    if (needed > left) {
      break;
    }
    used += needed;
  }
  if (fuse_reply_buf(request, out, used) == -ENOENT) {
    for (const posix::Inode inode : counted) {
      state.file_system.forget(inode, 1);
    }
  }
}

void readdir(fuse_req_t request, fuse_ino_t node, std::size_t size, off_t offset,
             fuse_file_info* /*file*/) {
  list(request, node, size, offset, false);
}

void readdirplus(fuse_req_t request, fuse_ino_t node, std::size_t size, off_t offset,
                 fuse_file_info* /*file*/) {
  list(request, node, size, offset, true);
}

// Both xattr reads have two forms: with size 0 the length is asked for, else the bytes.
void reply_sized(fuse_req_t request, std::span<const std::byte> bytes, std::size_t size) {
  if (size == 0) {
    fuse_reply_xattr(request, bytes.size());
  } else if (bytes.size() > size) {
    fuse_reply_err(request, ERANGE);
  } else {
    reply_bytes(request, bytes);
  }
}

// Without acltype=posix nobody would judge by such a list: it is refused, and tools set mode bits
// instead.
bool refused_acl(const Served& state, const char* name) {
  return !state.posix_acl && std::string_view(name).starts_with("system.posix_acl_");
}

void getxattr(fuse_req_t request, fuse_ino_t node, const char* name, std::size_t size) {
  Served& state = served(request);
  if (refused_acl(state, name)) {
    return reply_error(request, "getxattr", node, Error(Errc::unsupported));
  }
  const auto value = state.file_system.get_xattr(state.inode(node), name);
  if (!value) {
    return reply_error(request, "getxattr", node, value.error());
  }
  reply_sized(request, *value, size);
}

void listxattr(fuse_req_t request, fuse_ino_t node, std::size_t size) {
  Served& state = served(request);
  const auto names = state.file_system.list_xattrs(state.inode(node));
  if (!names) {
    return reply_error(request, "listxattr", node, names.error());
  }
  std::string all;
  for (const std::string& name : *names) {
    all += name;
    all += '\0';
  }
  reply_sized(request, std::as_bytes(std::span(all)), size);
}

void setxattr(fuse_req_t request, fuse_ino_t node, const char* name, const char* value,
              std::size_t size, int flags) {
  Served& state = served(request);
  if (refused_acl(state, name)) {
    return reply_error(request, "setxattr", node, Error(Errc::unsupported));
  }
  using Mode = posix::FileSystem::XattrMode;
  const Mode mode = (flags & XATTR_CREATE) != 0    ? Mode::create
                    : (flags & XATTR_REPLACE) != 0 ? Mode::replace
                                                   : Mode::any;
  if (const auto done = state.file_system.set_xattr(state.inode(node), name,
                                                    std::as_bytes(std::span(value, size)), mode);
      !done) {
    return reply_error(request, "setxattr", node, done.error());
  }
  fuse_reply_err(request, 0);
}

void removexattr(fuse_req_t request, fuse_ino_t node, const char* name) {
  Served& state = served(request);
  if (const auto done = state.file_system.remove_xattr(state.inode(node), name); !done) {
    return reply_error(request, "removexattr", node, done.error());
  }
  fuse_reply_err(request, 0);
}

}  // namespace

void add_data_operations(fuse_lowlevel_ops& table) {
  table.read = read;
  table.write = write;
  table.fsync = fsync;
  table.fsyncdir = fsync;
  table.fallocate = fallocate;
  table.lseek = lseek;
  table.opendir = opendir;
  table.readdir = readdir;
  table.readdirplus = readdirplus;
  table.getxattr = getxattr;
  table.listxattr = listxattr;
  table.setxattr = setxattr;
  table.removexattr = removexattr;
}

}  // namespace zuse::fuse
