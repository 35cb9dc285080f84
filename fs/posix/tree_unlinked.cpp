// What has no name any more: objects in the unlinked set are freed when the last who holds them
// lets go, or at the next mount. Data goes first, in bounded transactions, while the object stays
// in the set; the object, its entry in the set and the hand-over of its attribute directory follow
// in one. A crash at any point leaves entries that the next mount finishes.
#include <sys/stat.h>

#include "fs/object/zap.h"
#include "fs/posix/tree.h"
#include "vdev/base/log.h"

namespace zuse::posix {
namespace {

spdlog::logger& log() {
  static auto& logger = layer_log("posix");
  return logger;
}

constexpr std::uint64_t kFreeBlocks = 65536;  // blocks of data in one transaction
constexpr std::size_t kXattrFilesPerTx = 32;  // attribute files in one transaction

Result<void> ignore_missing(Result<void> result) {
  if (!result && result.error().code() == Errc::not_found) {
    return {};
  }
  return result;
}

}  // namespace

void Tree::reap_if_dead(std::uint64_t object) {
  if (read_only_) {
    return;
  }
  const ZnodeRef znode = znodes_->claim_dead(object);
  if (znode == nullptr) {
    return;
  }
  if (auto freed = reap(*znode); !freed) {  // it stays in the unlinked set for the next mount
    log().warn("unlinked_not_freed dataset={} object={} why={}", dataset_->name(), object,
               freed.error().what());
  }
}

Result<void> Tree::free_data(Znode& znode) {
  if (!znode.is_regular() || znode.dnode->max_block() < kFreeBlocks) {
    return {};  // freed with the object
  }
  const std::uint64_t block = znode.dnode->block_size();
  const std::uint64_t step = kFreeBlocks * block;
  std::uint64_t end = (znode.dnode->max_block() + 1) * block;
  while (end > step) {
    end -= step;
    ZUSE_TRY(object::Tx tx, begin(kMetadataBytes, true));
    ZUSE_TRY_VOID(znode.dnode->free_range(tx, end, object::kToEnd));
  }
  return {};
}

Result<void> Tree::reap(Znode& znode) {
  ZUSE_TRY_VOID(free_data(znode));
  std::uint64_t xattr = 0;
  std::uint64_t flags = 0;
  {
    const LockGuard lock(znode.mutex);
    xattr = znode.fields.xattr;
    flags = znode.fields.flags;
  }
  if (znode.is_directory() && (flags & kFlagXattr) != 0) {
    ZUSE_TRY_VOID(purge_xattr_directory(znode));
  }
  ZnodeRef xattr_directory;
  if (xattr != 0) {
    auto held = get(xattr);
    if (held && (*held)->is_directory()) {
      xattr_directory = *std::move(held);
    } else if (!held && held.error().code() != Errc::stale) {
      return std::unexpected(std::move(held).error());
    }
  }
  {
    ZUSE_TRY(object::Tx tx, begin(kMetadataBytes, true));
    if (xattr_directory != nullptr) {
      ZUSE_TRY_VOID(drop_link(tx, *xattr_directory, ~std::uint64_t{0}, now()));
    }
    ZUSE_TRY_VOID(ignore_missing(unlinked_set_->remove(tx, object::Zap::hex_key(znode.object))));
    znodes_->erase(znode.object);
    ZUSE_TRY_VOID(objset_.free_object(tx, znode.object));
  }
  if (xattr_directory != nullptr) {
    const std::uint64_t object = xattr_directory->object;
    xattr_directory.reset();
    reap_if_dead(object);
  }
  return {};
}

Result<void> Tree::purge_xattr_directory(Znode& directory) {
  object::Zap zap(directory.dnode);
  for (;;) {
    ZUSE_TRY(const std::vector<object::ZapEntry> page, zap.page(0, kXattrFilesPerTx));
    if (page.empty()) {
      return {};
    }
    ZUSE_TRY(object::Tx tx, begin(kMetadataBytes, true));
    for (const object::ZapEntry& entry : page) {
      if (!entry.value.integers.empty()) {
        const std::uint64_t file = decode_entry(entry.value.integers[0]).object;
        znodes_->erase(file);
        ZUSE_TRY_VOID(ignore_missing(objset_.free_object(tx, file)));
      }
      ZUSE_TRY_VOID(zap.remove(tx, entry.name));
    }
  }
}

// At mount: everything in the set goes. Entries whose object is missing are dropped; one that
// cannot be freed stays and hinders nobody.
Result<void> Tree::drain_unlinked() {
  std::uint64_t cursor = 0;
  std::uint64_t freed = 0;
  for (;;) {
    constexpr std::size_t kPage = 256;
    ZUSE_TRY(const std::vector<object::ZapEntry> page, unlinked_set_->page(cursor, kPage));
    if (page.empty()) {
      break;
    }
    cursor = page.back().cursor;
    for (const object::ZapEntry& entry : page) {
      const std::uint64_t object =
          entry.value.integers.empty() ? 0 : decode_entry(entry.value.integers[0]).object;
      auto znode = get(object);
      // One that still has names is in use, whatever the set says.
      if ((!znode && znode.error().code() == Errc::stale) || (znode && !(*znode)->unlinked)) {
        ZUSE_TRY(object::Tx tx, begin(kMetadataBytes, true));
        ZUSE_TRY_VOID(ignore_missing(unlinked_set_->remove(tx, entry.name)));
        continue;
      }
      if (znode) {
        reap_if_dead(object);
        ++freed;
      } else {
        log().warn("unlinked_not_read dataset={} object={} why={}", dataset_->name(), object,
                   znode.error().what());
      }
    }
    if (cursor == object::kZapCursorEnd) {
      break;
    }
  }
  if (freed != 0) {
    log().info("unlinked_freed dataset={} files={}", dataset_->name(), freed);
  }
  return {};
}

}  // namespace zuse::posix
