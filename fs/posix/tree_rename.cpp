// Renaming: the one call that changes two directories, and three objects' attributes, at once.
#include <stdio.h>
#include <sys/stat.h>

#include "fs/object/zap.h"
#include "fs/posix/tree.h"

namespace zuse::posix {
namespace {

constexpr unsigned kNoReplace = RENAME_NOREPLACE;
constexpr unsigned kExchange = RENAME_EXCHANGE;
constexpr unsigned kDepthMax = 1U << 20U;  // directories above one another, at most

class MaybeLock {
 public:
  explicit MaybeLock(Mutex* mutex) ZUSE_NO_THREAD_SAFETY_ANALYSIS : mutex_(mutex) {
    if (mutex_ != nullptr) {
      mutex_->lock();
    }
  }
  ~MaybeLock() ZUSE_NO_THREAD_SAFETY_ANALYSIS {
    if (mutex_ != nullptr) {
      mutex_->unlock();
    }
  }
  MaybeLock(const MaybeLock&) = delete;
  MaybeLock& operator=(const MaybeLock&) = delete;

 private:
  Mutex* const mutex_;
};

}  // namespace

// Whether `ancestor` is `directory` or above it. The caller holds the rename lock, so that no
// directory moves meanwhile.
Result<bool> Tree::is_below(std::uint64_t directory, std::uint64_t ancestor) {
  for (unsigned depth = 0; depth < kDepthMax; ++depth) {
    if (directory == ancestor) {
      return true;
    }
    if (directory == root_) {
      return false;
    }
    ZUSE_TRY(const ZnodeRef znode, get(directory));
    const LockGuard lock(znode->mutex);
    if (znode->fields.parent == directory) {
      return false;
    }
    directory = znode->fields.parent;
  }
  return fail(Errc::corrupt, "directories form a loop above object " + std::to_string(directory));
}

Result<void> Tree::rename(Inode old_parent, std::string_view old_name, Inode new_parent,
                          std::string_view new_name, unsigned flags, const Caller& /*caller*/) {
  ZUSE_TRY_VOID(check_writable());
  if ((flags & ~(kNoReplace | kExchange)) != 0 || flags == (kNoReplace | kExchange)) {
    return fail(Errc::invalid, "rename flags other than NOREPLACE or EXCHANGE");
  }
  ZUSE_TRY_VOID(check_name(old_name));
  if (old_name == "." || old_name == ".." || new_name == "." || new_name == "..") {
    return fail(Errc::busy, "the names . and .. stay where they are");
  }
  ZUSE_TRY_VOID(check_new_name(new_name, rules_));
  const bool exchange = (flags & kExchange) != 0;
  ZUSE_TRY(const ZnodeRef from, get_directory(old_parent));
  ZUSE_TRY(const ZnodeRef to, get_directory(new_parent));

  const auto find = [&](Znode& directory, std::string_view name) -> Result<ZnodeRef> {
    auto entry = find_entry(directory, name, rules_);
    if (!entry) {
      if (entry.error().code() == Errc::not_found) {
        return ZnodeRef{};
      }
      return std::unexpected(std::move(entry).error());
    }
    return get(entry->object);
  };

  std::uint64_t replaced = 0;
  // One move between directories at a time: otherwise two could each move below the other.
  const MaybeLock one_at_a_time(from == to ? nullptr : &rename_mutex_);
  for (;;) {
    ZnodeRef source, target;
    {
      const SharedGuard names(from->names);
      ZUSE_TRY(source, find(*from, old_name));
    }
    {
      const SharedGuard names(to->names);
      ZUSE_TRY(target, find(*to, new_name));
    }
    if (source == nullptr || (exchange && target == nullptr)) {
      return fail(Errc::not_found);
    }
    if (target != nullptr && (flags & kNoReplace) != 0) {
      return fail(Errc::exists);
    }
    const bool source_is_directory = source->is_directory();
    const bool target_is_directory = target != nullptr && target->is_directory();
    // A directory that is replaced must stay empty meanwhile, hence its lock.
    const NamesLock names{from.get(), to.get(),
                          target_is_directory && !exchange ? target.get() : nullptr};
    ZUSE_TRY(const ZnodeRef source_now, find(*from, old_name));
    ZUSE_TRY(const ZnodeRef target_now, find(*to, new_name));
    if (source_now != source || target_now != target) {
      continue;  // changed while no lock was held
    }
    if (target == source) {
      return {};  // two names of one file: nothing to do
    }
    std::uint64_t to_flags = 0;
    std::optional<std::uint64_t> to_project;
    {
      const LockGuard lock(to->mutex);
      if (to->fields.links == 0) {
        return fail(Errc::not_found, "the directory has been removed");
      }
      to_flags = to->fields.flags;
      to_project = to->fields.project;
    }
    if (target != nullptr && !exchange) {
      if (source_is_directory && !target_is_directory) {
        return fail(Errc::not_directory);
      }
      if (!source_is_directory && target_is_directory) {
        return fail(Errc::is_directory);
      }
    }
    if (from != to) {
      if (source_is_directory) {
        ZUSE_TRY(const bool loop, is_below(to->object, source->object));
        if (loop) {
          return fail(Errc::invalid, "a directory cannot move below itself");
        }
      }
      if (exchange && target_is_directory) {
        ZUSE_TRY(const bool loop, is_below(from->object, target->object));
        if (loop) {
          return fail(Errc::invalid, "a directory cannot move below itself");
        }
      }
    }
    ZUSE_TRY_VOID(check_removable(*from, *source));
    if (target != nullptr) {
      ZUSE_TRY_VOID(check_removable(*to, *target));
    }
    if (target_is_directory && !exchange) {
      ZUSE_TRY(const std::uint64_t count, object::Zap(target->dnode).count());
      if (count != 0) {
        return fail(Errc::not_empty);
      }
    }
    if ((to_flags & kFlagImmutable) != 0) {
      return fail(Errc::not_permitted, "the directory is immutable");
    }
    {
      const LockGuard lock(source->mutex);
      if ((to_flags & kFlagProjectInherit) != 0 && to_project != source->fields.project) {
        return fail(Errc::cross_device, "the directory belongs to another project");
      }
    }

    ZUSE_TRY(object::Tx tx, begin(kMetadataBytes));
    const Time when = now();
    object::Zap from_zap(from->dnode);
    object::Zap to_zap(to->dnode);
    const std::uint64_t source_entry = encode_entry(source->object, source->type());
    const auto move_to = [&](Znode& znode, Znode& parent) -> Result<void> {
      const LockGuard lock(znode.mutex);
      znode.fields.parent = parent.object;
      znode.fields.ctime = when;
      return znode.save_locked(*registry_, tx);
    };
    ZUSE_TRY_VOID(to_zap.update(tx, new_name, source_entry));
    const int moved = source_is_directory ? 1 : 0;
    const int gone = target_is_directory ? 1 : 0;
    if (exchange) {
      ZUSE_TRY_VOID(from_zap.update(tx, old_name, encode_entry(target->object, target->type())));
      ZUSE_TRY_VOID(move_to(*source, *to));
      ZUSE_TRY_VOID(move_to(*target, *from));
      if (from == to) {
        return touch_directory(tx, *from, 0, 0, when);
      }
      ZUSE_TRY_VOID(touch_directory(tx, *from, 0, gone - moved, when));
      return touch_directory(tx, *to, 0, moved - gone, when);
    }
    ZUSE_TRY_VOID(from_zap.remove(tx, old_name));
    ZUSE_TRY_VOID(move_to(*source, *to));
    if (target != nullptr) {
      replaced = target->object;
      ZUSE_TRY_VOID(drop_link(tx, *target, target_is_directory ? ~std::uint64_t{0} : 1, when));
    }
    const int added = target == nullptr ? 1 : 0;
    if (from == to) {
      ZUSE_TRY_VOID(touch_directory(tx, *from, added - 1, -gone, when));
    } else {
      ZUSE_TRY_VOID(touch_directory(tx, *from, -1, -moved, when));
      ZUSE_TRY_VOID(touch_directory(tx, *to, added, moved - gone, when));
    }
    break;
  }
  if (replaced != 0) {
    reap_if_dead(replaced);
  }
  return {};
}

}  // namespace zuse::posix
