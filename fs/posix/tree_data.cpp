// The bytes of regular files: reading, writing, lengths and holes.
//
// A small file is one block, just as large as the file needs (in steps of 512 bytes), until it
// reaches the record size; from its second block on the block size stays. The bytes of the last
// block past the end of the file are zero always, so growing a file needs no write.
#include <linux/falloc.h>
#include <sys/stat.h>

#include <algorithm>
#include <bit>

#include "fs/posix/tree.h"
#include "fs/posix/tree_internal.h"
#include "vdev/base/units.h"

namespace zuse::posix {
namespace {

constexpr std::uint64_t kFileMax = static_cast<std::uint64_t>(INT64_MAX);
constexpr std::uint64_t kWriteStep = 1 * kMiB;  // bytes written in one transaction
// Blocks freed in one transaction; a large file goes in several.
constexpr std::uint64_t kFreeBlocks = 65536;

bool is_power_of_two(std::uint64_t value) noexcept {
  return std::has_single_bit(value);
}

// The block size of a file of one block that is to reach `end`.
// source: format page 05 section 7.
std::uint64_t grown_block(std::uint64_t block, std::uint64_t end, std::uint64_t record) noexcept {
  const std::uint64_t target =
      block > record && !is_power_of_two(block) ? pow2(log2_floor(block) + 1) : record;
  const std::uint64_t needed = end >= target ? target : round_up(end, 512);
  return std::max(std::min(target, needed), block);
}

}  // namespace

bool Tree::must_grow_block(const Znode& znode, std::uint64_t size, std::uint64_t end) const {
  const std::uint64_t block = znode.dnode->block_size();
  if (end <= block || size > block || znode.dnode->max_block() != 0) {
    return false;
  }
  return grown_block(block, end, objset_.policy().record_size) != block;
}

// The caller holds the whole file.
Result<void> Tree::grow_block(object::Tx& tx, Znode& znode, std::uint64_t end) {
  const std::uint64_t block =
      grown_block(znode.dnode->block_size(), end, objset_.policy().record_size);
  return znode.dnode->set_block_size(tx, static_cast<std::uint32_t>(block));
}

Result<std::vector<object::Piece>> Tree::read(Inode inode, std::uint64_t offset,
                                              std::uint64_t length) {
  ZUSE_TRY(const ZnodeRef znode, get_file(inode));
  std::vector<object::Piece> pieces;
  if (length == 0) {
    return pieces;
  }
  {
    const RangeLocks::Guard range = ranges_.lock(znode->object, offset, length, true);
    std::uint64_t size = 0;
    {
      const LockGuard lock(znode->mutex);
      size = znode->fields.size;
    }
    if (offset >= size) {
      return pieces;
    }
    ZUSE_TRY(pieces, znode->dnode->read_pieces(offset, std::min(length, size - offset)));
  }
  note_access(*znode);
  return pieces;
}

Result<void> Tree::clear_set_id_locked(object::Tx& tx, Znode& znode, const Caller& caller) {
  const std::uint64_t mode = without_set_id(znode.fields.mode);
  if (!caller.clears_set_id || mode == znode.fields.mode) {
    return {};
  }
  znode.fields.mode = mode;
  return znode.put_acl_locked(*registry_, tx);
}

Result<void> Tree::clear_set_id(Znode& znode, const Caller& caller) {
  {
    const LockGuard lock(znode.mutex);
    if (!caller.clears_set_id || without_set_id(znode.fields.mode) == znode.fields.mode) {
      return {};
    }
  }
  ZUSE_TRY(object::Tx tx, begin(kMetadataBytes, true));
  const Time when = now();
  const LockGuard lock(znode.mutex);
  ZUSE_TRY_VOID(clear_set_id_locked(tx, znode, caller));
  znode.fields.ctime = when;
  return znode.save_locked(*registry_, tx);
}

Result<void> Tree::write(Inode inode, std::uint64_t offset, std::span<const std::byte> from,
                         const Caller& caller) {
  ZUSE_TRY_VOID(check_writable());
  ZUSE_TRY(const ZnodeRef znode, get_file(inode));
  if (from.empty()) {
    return {};
  }
  if (offset > kFileMax || from.size() > kFileMax - offset) {
    return fail(Errc::too_large, "a file has at most 2^63 - 1 bytes");
  }
  const std::uint64_t end = offset + from.size();
  std::uint64_t size = 0;
  {
    const LockGuard lock(znode->mutex);
    size = znode->fields.size;
    if ((znode->fields.flags & kFlagImmutable) != 0 ||
        ((znode->fields.flags & kFlagAppendOnly) != 0 && offset < size)) {
      return fail(Errc::not_permitted, "the file is immutable or for appending only");
    }
  }
  RangeLocks::Guard range = ranges_.lock(znode->object, offset, from.size(), false);
  bool grow = must_grow_block(*znode, size, end);
  if (grow) {  // resizing the block concerns the whole file
    range.release();
    range = ranges_.lock(znode->object, 0, RangeLocks::kWholeFile, false);
    const LockGuard lock(znode->mutex);
    grow = must_grow_block(*znode, znode->fields.size, end);
  }
  std::uint64_t at = offset;
  while (at < end) {
    // Steps end at multiples of the step, so that whole records are written whole.
    const std::uint64_t step_end = std::min(end, round_down(at, kWriteStep) + kWriteStep);
    ZUSE_TRY(object::Tx tx, begin(step_end - at + kMetadataBytes));
    if (grow) {
      ZUSE_TRY_VOID(grow_block(tx, *znode, end));
      grow = false;
    }
    ZUSE_TRY_VOID(znode->dnode->write(tx, at,
                                      from.subspan(static_cast<std::size_t>(at - offset),
                                                   static_cast<std::size_t>(step_end - at))));
    const Time when = now();
    const LockGuard lock(znode->mutex);
    ZnodeFields& fields = znode->fields;
    fields.size = std::max(fields.size, step_end);
    fields.mtime = fields.ctime = when;
    fields.flags |= kFlagArchive;
    ZUSE_TRY_VOID(clear_set_id_locked(tx, *znode, caller));
    ZUSE_TRY_VOID(znode->save_locked(*registry_, tx));
    at = step_end;
  }
  return {};
}

// Sets the length. Shrinking a large file takes several transactions, from its end downwards: at
// any moment the file is a beginning of what it was.
Result<void> Tree::truncate(Znode& znode, std::uint64_t size) {
  if (size > kFileMax) {
    return fail(Errc::too_large, "a file has at most 2^63 - 1 bytes");
  }
  const RangeLocks::Guard range = ranges_.lock(znode.object, 0, RangeLocks::kWholeFile, false);
  std::uint64_t current = 0;
  {
    const LockGuard lock(znode.mutex);
    current = znode.fields.size;
    if ((znode.fields.flags & kFlagAppendOnly) != 0 && size < current) {
      return fail(Errc::not_permitted, "the file is for appending only");
    }
  }
  const auto save_size = [&](object::Tx& tx, std::uint64_t to) -> Result<void> {
    const Time when = now();
    const LockGuard lock(znode.mutex);
    znode.fields.size = to;
    znode.fields.mtime = znode.fields.ctime = when;
    return znode.save_locked(*registry_, tx);
  };
  if (size >= current) {
    ZUSE_TRY(object::Tx tx,
             begin(kMetadataBytes + (size > current ? znode.dnode->block_size() : 0)));
    if (must_grow_block(znode, current, size)) {
      ZUSE_TRY_VOID(grow_block(tx, znode, size));
    }
    return save_size(tx, size);
  }
  const std::uint64_t step = kFreeBlocks * znode.dnode->block_size();
  // What lies past the last block ever present needs no steps.
  const std::uint64_t blocks_end = (znode.dnode->max_block() + 1) * znode.dnode->block_size();
  std::uint64_t at = std::min(current, std::max(blocks_end, size));
  do {
    at = at - size > step ? at - step : size;
    ZUSE_TRY(object::Tx tx, begin(kMetadataBytes + znode.dnode->block_size(), true));
    ZUSE_TRY_VOID(znode.dnode->free_range(tx, at, object::kToEnd));
    ZUSE_TRY_VOID(save_size(tx, at));
  } while (at > size);
  return {};
}

Result<void> Tree::allocate(Inode inode, int mode, std::uint64_t offset, std::uint64_t length,
                            const Caller& caller) {
  ZUSE_TRY_VOID(check_writable());
  ZUSE_TRY(const ZnodeRef znode, get_file(inode));
  constexpr int kKnown = FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE;
  const bool keep_size = (mode & FALLOC_FL_KEEP_SIZE) != 0;
  const bool punch = (mode & FALLOC_FL_PUNCH_HOLE) != 0;
  const bool zero = (mode & FALLOC_FL_ZERO_RANGE) != 0;
  if ((mode & ~kKnown) != 0 || (punch && (zero || !keep_size))) {
    return fail(Errc::unsupported, "this mode of fallocate");
  }
  if (length == 0) {
    return fail(Errc::invalid, "a range of no bytes");
  }
  if (offset > kFileMax || length > kFileMax - offset) {
    return fail(Errc::too_large, "a file has at most 2^63 - 1 bytes");
  }
  const std::uint64_t end = offset + length;
  if (!punch && !zero) {
    // Blocks are allocated anew at each write, so none can be set aside: all that can be promised
    // is that there is room now, and the length.
    if (dataset_->space().available < length) {
      return fail(Errc::no_space, "not enough room for the range");
    }
    if (keep_size) {
      return clear_set_id(*znode, caller);
    }
  }
  const RangeLocks::Guard range = ranges_.lock(znode->object, 0, RangeLocks::kWholeFile, false);
  std::uint64_t size = 0;
  {
    const LockGuard lock(znode->mutex);
    size = znode->fields.size;
    if ((znode->fields.flags & (kFlagImmutable | kFlagAppendOnly)) != 0) {
      return fail(Errc::not_permitted, "the file is immutable or for appending only");
    }
  }
  const auto save = [&](object::Tx& tx, std::uint64_t new_size) -> Result<void> {
    const Time when = now();
    const LockGuard lock(znode->mutex);
    znode->fields.size = new_size;
    znode->fields.mtime = znode->fields.ctime = when;
    return znode->save_locked(*registry_, tx);
  };
  if (punch || zero) {
    const std::uint64_t stop = std::min(end, size);
    const std::uint64_t step = kFreeBlocks * znode->dnode->block_size();
    for (std::uint64_t at = offset; at < stop;) {
      const std::uint64_t step_end = stop - at > step ? at + step : stop;
      ZUSE_TRY(object::Tx tx, begin(kMetadataBytes + 2 * znode->dnode->block_size(), punch));
      ZUSE_TRY_VOID(znode->dnode->free_range(tx, at, step_end - at));
      ZUSE_TRY_VOID(save(tx, size));
      at = step_end;
    }
  }
  if (!keep_size && end > size) {
    ZUSE_TRY(object::Tx tx, begin(kMetadataBytes + znode->dnode->block_size()));
    if (must_grow_block(*znode, size, end)) {
      ZUSE_TRY_VOID(grow_block(tx, *znode, end));
    }
    ZUSE_TRY_VOID(save(tx, end));
  }
  return clear_set_id(*znode, caller);
}

Result<std::uint64_t> Tree::seek_data(Inode inode, std::uint64_t offset) {
  ZUSE_TRY(const ZnodeRef znode, get_file(inode));
  const RangeLocks::Guard range = ranges_.lock(znode->object, 0, RangeLocks::kWholeFile, true);
  std::uint64_t size = 0;
  {
    const LockGuard lock(znode->mutex);
    size = znode->fields.size;
  }
  if (offset >= size) {
    return fail(Errc::not_found, "past the end of the file");
  }
  ZUSE_TRY(const std::uint64_t found, znode->dnode->next_data(offset));
  if (found >= size) {
    return fail(Errc::not_found, "there is no more data");
  }
  return found;
}

Result<std::uint64_t> Tree::seek_hole(Inode inode, std::uint64_t offset) {
  ZUSE_TRY(const ZnodeRef znode, get_file(inode));
  const RangeLocks::Guard range = ranges_.lock(znode->object, 0, RangeLocks::kWholeFile, true);
  std::uint64_t size = 0;
  {
    const LockGuard lock(znode->mutex);
    size = znode->fields.size;
  }
  if (offset >= size) {
    return fail(Errc::not_found, "past the end of the file");
  }
  auto found = znode->dnode->next_hole(offset);
  if (!found) {
    if (found.error().code() == Errc::not_found) {
      return size;
    }
    return found;
  }
  return std::min(*found, size);
}

Result<void> Tree::fsync(Inode inode) {
  ZUSE_TRY(const ZnodeRef znode, get(inode));
  if (read_only_ || !znode->dnode->dirty()) {
    return {};
  }
  return dataset_->sync();
}

}  // namespace zuse::posix
