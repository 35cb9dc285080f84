// Handlers of names and attributes: lookup, create, remove, rename, getattr, setattr, links.
//
// Each reply that hands the kernel an inode under a name has been counted by the file system (a
// lookup reference). When the kernel did not take the reply (the caller was interrupted), the
// reference is given back at once: nobody else would.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <ctime>

#include "fs/fuse/errno.h"
#include "fs/fuse/operations.h"

namespace zuse::fuse {
namespace {

void reply_entry(fuse_req_t request, const char* operation, fuse_ino_t parent,
                 const Result<posix::Attributes>& made) {
  if (!made) {
    return reply_error(request, operation, parent, made.error());
  }
  Served& state = served(request);
  const fuse_entry_param entry = to_entry(state, *made);
  if (fuse_reply_entry(request, &entry) == -ENOENT) {
    state.file_system.forget(made->inode, 1);
  }
}

void reply_void(fuse_req_t request, const char* operation, fuse_ino_t node,
                const Result<void>& done) {
  if (!done) {
    return reply_error(request, operation, node, done.error());
  }
  fuse_reply_err(request, 0);
}

void lookup(fuse_req_t request, fuse_ino_t parent, const char* name) {
  Served& state = served(request);
  const posix::Inode directory = state.inode(parent);
  const auto found = state.file_system.lookup(directory, name);
  if (!found && found.error().code() == Errc::not_found) {
    // The kernel remembers absence, too: until someone creates the name, through it.
    fuse_entry_param absent{};
    absent.entry_timeout = entry_timeout(directory);
    fuse_reply_entry(request, &absent);
    return;
  }
  reply_entry(request, "lookup", parent, found);
}

void forget(fuse_req_t request, fuse_ino_t node, std::uint64_t count) {
  Served& state = served(request);
  if (node != FUSE_ROOT_ID) {
    state.file_system.forget(state.inode(node), count);
  }
  fuse_reply_none(request);
}

void forget_multi(fuse_req_t request, std::size_t count, fuse_forget_data* forgets) {
  Served& state = served(request);
  for (std::size_t i = 0; i < count; ++i) {
    if (forgets[i].ino != FUSE_ROOT_ID) {
      state.file_system.forget(state.inode(forgets[i].ino), forgets[i].nlookup);
    }
  }
  fuse_reply_none(request);
}

void getattr(fuse_req_t request, fuse_ino_t node, fuse_file_info* /*file*/) {
  Served& state = served(request);
  const auto attributes = state.file_system.attributes(state.inode(node));
  if (!attributes) {
    return reply_error(request, "getattr", node, attributes.error());
  }
  const struct stat info = to_stat(*attributes);
  fuse_reply_attr(request, &info, attribute_timeout(*attributes));
}

posix::Time from_timespec(const timespec& time) {
  return {static_cast<std::int64_t>(time.tv_sec), static_cast<std::uint32_t>(time.tv_nsec)};
}

void setattr(fuse_req_t request, fuse_ino_t node, struct stat* wanted, int which,
             fuse_file_info* /*file*/) {
  Served& state = served(request);
  posix::AttributeChange change;
  if ((which & FUSE_SET_ATTR_MODE) != 0) {
    change.mode = wanted->st_mode;
  }
  if ((which & FUSE_SET_ATTR_UID) != 0) {
    change.uid = wanted->st_uid;
  }
  if ((which & FUSE_SET_ATTR_GID) != 0) {
    change.gid = wanted->st_gid;
  }
  if ((which & FUSE_SET_ATTR_SIZE) != 0) {
    change.size = static_cast<std::uint64_t>(wanted->st_size);
  }
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if ((which & FUSE_SET_ATTR_ATIME_NOW) != 0) {
    change.atime = from_timespec(now);
  } else if ((which & FUSE_SET_ATTR_ATIME) != 0) {
    change.atime = from_timespec(wanted->st_atim);
  }
  if ((which & FUSE_SET_ATTR_MTIME_NOW) != 0) {
    change.mtime = from_timespec(now);
  } else if ((which & FUSE_SET_ATTR_MTIME) != 0) {
    change.mtime = from_timespec(wanted->st_mtim);
  }
  if ((which & FUSE_SET_ATTR_CTIME) != 0) {
    change.ctime = from_timespec(wanted->st_ctim);
  }
  const auto attributes =
      state.file_system.set_attributes(state.inode(node), change, caller_of(request));
  if (!attributes) {
    return reply_error(request, "setattr", node, attributes.error());
  }
  const struct stat info = to_stat(*attributes);
  fuse_reply_attr(request, &info, attribute_timeout(*attributes));
}

void readlink(fuse_req_t request, fuse_ino_t node) {
  Served& state = served(request);
  const auto target = state.file_system.read_symlink(state.inode(node));
  if (!target) {
    return reply_error(request, "readlink", node, target.error());
  }
  fuse_reply_readlink(request, target->c_str());
}

void mknod(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode, dev_t device) {
  Served& state = served(request);
  reply_entry(request, "mknod", parent,
              state.file_system.create(state.inode(parent), name, mode, major(device),
                                       minor(device), caller_of(request)));
}

void mkdir(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode) {
  Served& state = served(request);
  reply_entry(request, "mkdir", parent,
              state.file_system.make_directory(state.inode(parent), name, (mode & 07777) | S_IFDIR,
                                               caller_of(request)));
}

void symlink(fuse_req_t request, const char* target, fuse_ino_t parent, const char* name) {
  Served& state = served(request);
  reply_entry(
      request, "symlink", parent,
      state.file_system.make_symlink(state.inode(parent), name, target, caller_of(request)));
}

void link(fuse_req_t request, fuse_ino_t node, fuse_ino_t parent, const char* name) {
  Served& state = served(request);
  reply_entry(request, "link", parent,
              state.file_system.link(state.inode(node), state.inode(parent), name));
}

void unlink(fuse_req_t request, fuse_ino_t parent, const char* name) {
  Served& state = served(request);
  reply_void(request, "unlink", parent,
             state.file_system.unlink(state.inode(parent), name, caller_of(request)));
}

void rmdir(fuse_req_t request, fuse_ino_t parent, const char* name) {
  Served& state = served(request);
  reply_void(request, "rmdir", parent,
             state.file_system.remove_directory(state.inode(parent), name, caller_of(request)));
}

void rename(fuse_req_t request, fuse_ino_t old_parent, const char* old_name, fuse_ino_t new_parent,
            const char* new_name, unsigned flags) {
  Served& state = served(request);
  reply_void(request, "rename", old_parent,
             state.file_system.rename(state.inode(old_parent), old_name, state.inode(new_parent),
                                      new_name, flags, caller_of(request)));
}

void create(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode,
            fuse_file_info* file) {
  Served& state = served(request);
  const auto made = state.file_system.create(state.inode(parent), name, (mode & 07777) | S_IFREG, 0,
                                             0, caller_of(request));
  if (!made) {
    return reply_error(request, "create", parent, made.error());
  }
  const fuse_entry_param entry = to_entry(state, *made);
  file->keep_cache = 1;
  if (fuse_reply_create(request, &entry, file) == -ENOENT) {
    state.file_system.forget(made->inode, 1);
  }
}

// Files have no open state here: the kernel is told once that it need not ask, and from then on
// opens and closes by itself.
void open(fuse_req_t request, fuse_ino_t /*node*/, fuse_file_info* file) {
  if (served(request).opens_itself.load(std::memory_order_relaxed)) {
    fuse_reply_err(request, ENOSYS);
    return;
  }
  file->keep_cache = 1;
  fuse_reply_open(request, file);
}

void statfs(fuse_req_t request, fuse_ino_t node) {
  Served& state = served(request);
  const auto statistics = state.file_system.statistics();
  if (!statistics) {
    return reply_error(request, "statfs", node, statistics.error());
  }
  struct statvfs info{};
  info.f_bsize = statistics->block_size;
  info.f_frsize = statistics->block_size;
  info.f_blocks = statistics->blocks;
  info.f_bfree = statistics->free;
  info.f_bavail = statistics->available;
  info.f_files = statistics->files;
  info.f_ffree = statistics->files_free;
  info.f_favail = statistics->files_free;
  info.f_fsid = statistics->fsid;
  info.f_namemax = statistics->name_max;
  fuse_reply_statfs(request, &info);
}

}  // namespace

void add_name_operations(fuse_lowlevel_ops& table) {
  table.lookup = lookup;
  table.forget = forget;
  table.forget_multi = forget_multi;
  table.getattr = getattr;
  table.setattr = setattr;
  table.readlink = readlink;
  table.mknod = mknod;
  table.mkdir = mkdir;
  table.symlink = symlink;
  table.link = link;
  table.unlink = unlink;
  table.rmdir = rmdir;
  table.rename = rename;
  table.create = create;
  table.open = open;
  table.statfs = statfs;
}

}  // namespace zuse::fuse
