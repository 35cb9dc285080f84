// Dnode: changing an object in memory. Nothing here waits for the disk but to read what a partial
// write keeps, or the indirect block above a block that is overwritten: the sync will need it, and
// a writer should hear of an unreadable one while it can still be told.
#include <algorithm>
#include <cstring>
#include <utility>

#include "fs/object/dnode_internal.h"
#include "fs/object/objset.h"
#include "vdev/base/units.h"

namespace zuse::object {

namespace {

// Memory that a changed dnode costs beside its records: header, indirect blocks while syncing.
constexpr std::uint64_t kDirtyDnodeCost = 2048;

bool is_pow2(std::uint64_t value) {
  return (value & (value - 1)) == 0;
}

}  // namespace

DirtyGroup& Dnode::group_locked(std::uint64_t txg) {
  auto at = live_.end();
  while (at != live_.begin() && (*std::prev(at))->txg > txg) {
    --at;
  }
  if (at == live_.begin() || (*std::prev(at))->txg != txg || (*std::prev(at))->syncing) {
    auto group = std::make_shared<DirtyGroup>();
    group->txg = txg;
    group->header = at == live_.begin() ? *base_ : (*std::prev(at))->header;
    at = std::next(live_.insert(at, std::move(group)));
    host_.note_dirty(shared_from_this(), txg);
  }
  DirtyGroup& own = **std::prev(at);
  for (; at != live_.end(); ++at) {
    own.absorb(**at);  // this change comes late
  }
  return own;
}

void Dnode::change_locked(std::uint64_t txg, const std::function<void(DnodeHeader&)>& change) {
  DirtyGroup& own = group_locked(txg);
  bool newer = false;
  for (const auto& group : live_) {
    newer = newer || group.get() == &own;
    if (newer) {
      change(group->header);
    }
  }
}

Buffer& Dnode::writable_locked(std::uint64_t txg, std::uint64_t block, const SharedBuffer& clean,
                               bool whole, std::uint64_t& dirtied) {
  DirtyGroup& own = group_locked(txg);
  const Source source = find_locked(block);
  if (source.kind == Source::Kind::record && live_[source.group].get() == &own) {
    return *source.data;
  }
  const Buffer* const from = source.kind == Source::Kind::record ? source.data.get() : clean.get();
  const std::size_t size = own.header.block_size;
  auto data = std::make_shared<Buffer>(size);
  if (!whole) {
    const std::size_t have = from == nullptr ? 0 : std::min(from->size(), size);
    if (have != 0) {
      std::memcpy(data->data(), from->data(), have);
    }
    std::memset(data->data() + have, 0, size - have);
  }
  Buffer& buffer = *data;
  own.records[block] = std::move(data);
  dirtied += size;
  if (block > own.header.max_block) {
    change_locked(txg, [&](DnodeHeader& header) { header.max_block = block; });
  }
  return buffer;
}

Result<void> Dnode::change_block(Tx& tx, std::uint64_t block, bool whole, WritePath& path,
                                 const std::function<void(std::span<std::byte>)>& edit) {
  SharedBuffer clean;
  std::shared_ptr<const format::DnodePhys> read_from;
  std::uint64_t dirtied = 0;
  for (;;) {
    {
      const LockGuard lock(mutex_);
      ZUSE_TRY_VOID(check_live_locked());
      const bool first = !std::any_of(live_.begin(), live_.end(), [&](const auto& group) {
        return group->txg == tx.txg() && !group->syncing;
      });
      const Source source = find_locked(block);
      if (source.kind != Source::Kind::tree || read_from == phys_) {
        edit(writable_locked(tx.txg(), block, clean, whole, dirtied).span());
        dirtied += first ? kDirtyDnodeCost : 0;
        break;
      }
      read_from = phys_;
    }
    if (path.tree != read_from) {
      path.tree = read_from;
      path.reader.emplace(objset_.store(), objset_.id(), object_, *read_from);
    }
    auto blkptr = path.reader->find(block);
    if (blkptr && !whole && !blkptr->is_hole()) {
      auto bytes = read_tree(*read_from, block);
      if (bytes) {
        clean = *std::move(bytes);
      } else {
        blkptr = std::unexpected(std::move(bytes).error());
      }
    } else {
      clean = nullptr;
    }
    if (!blkptr && read_from == phys()) {
      return std::unexpected(within(std::move(blkptr).error()));
    }
    if (!blkptr) {
      read_from = nullptr;
    }
  }
  if (dirtied != 0) {
    host_.add_dirty_bytes(tx.txg(), dirtied);
  }
  return {};
}

Result<void> Dnode::write(Tx& tx, std::uint64_t offset, std::span<const std::byte> from) {
  if (from.empty()) {
    return {};
  }
  if (offset >= kMaxOffset || from.size() > kMaxOffset - offset) {
    return fail(Errc::too_large, "writing past the largest offset");
  }
  const std::uint64_t size = block_size();
  if (!is_pow2(size) && offset + from.size() > size) {
    return fail(Errc::invalid, "a second block needs a block size that is a power of two");
  }
  WritePath path;
  while (!from.empty()) {
    const std::uint64_t block = offset / size;
    const std::uint64_t at = offset % size;
    const std::size_t length = std::min<std::uint64_t>(from.size(), size - at);
    const auto copy = [&](std::span<std::byte> bytes) {
      ZUSE_CHECK(at + length <= bytes.size());
      std::memcpy(bytes.data() + at, from.data(), length);
    };
    ZUSE_TRY_VOID(change_block(tx, block, length == size, path, copy));
    offset += length;
    from = from.subspan(length);
  }
  return {};
}

Result<std::span<std::byte>> Dnode::edit_block(Tx& tx, std::uint64_t block) {
  const std::uint64_t size = block_size();
  if (block >= kMaxOffset / size) {
    return fail(Errc::too_large, "writing past the largest offset");
  }
  if (!is_pow2(size) && block != 0) {
    return fail(Errc::invalid, "a second block needs a block size that is a power of two");
  }
  WritePath path;
  std::span<std::byte> span;
  ZUSE_TRY_VOID(
      change_block(tx, block, false, path, [&](std::span<std::byte> bytes) { span = bytes; }));
  return span;
}

// Zeroes bytes [from, to) of a block, if it is not a hole.
Result<void> Dnode::zero_part(Tx& tx, std::uint64_t block, std::uint32_t from, std::uint32_t to) {
  for (;;) {
    std::shared_ptr<const format::DnodePhys> tree;
    {
      const LockGuard lock(mutex_);
      ZUSE_TRY_VOID(check_live_locked());
      const Source source = find_locked(block);
      if (source.kind == Source::Kind::hole) {
        return {};
      }
      if (source.kind == Source::Kind::record) {
        break;
      }
      tree = phys_;
    }
    TreeReader reader(objset_.store(), objset_.id(), object_, *tree);
    auto blkptr = reader.find(block);
    if (blkptr && blkptr->is_hole()) {
      return {};
    }
    if (blkptr) {
      break;
    }
    if (tree == phys()) {
      return std::unexpected(within(std::move(blkptr).error()));
    }
  }
  WritePath path;
  return change_block(tx, block, false, path, [&](std::span<std::byte> bytes) {
    ZUSE_CHECK(from <= to && to <= bytes.size());
    std::memset(bytes.data() + from, 0, to - from);
  });
}

Result<void> Dnode::free_range(Tx& tx, std::uint64_t offset, std::uint64_t length) {
  std::uint64_t size = 0;
  std::uint64_t max = 0;
  {
    const LockGuard lock(mutex_);
    ZUSE_TRY_VOID(check_live_locked());
    size = head_locked().block_size;
    max = head_locked().max_block;
  }
  if (length == 0 || offset > max * size + (size - 1)) {
    return {};
  }
  const std::uint64_t present_end = (max + 1) * size;  // of what can hold data
  const bool to_end = length >= present_end - offset;
  const std::uint64_t end = to_end ? present_end : offset + length;
  const std::uint64_t first = div_ceil(offset, size);
  const std::uint64_t after = end / size;
  if (offset / size == end / size) {  // within one block
    return zero_part(tx, offset / size, static_cast<std::uint32_t>(offset % size),
                     static_cast<std::uint32_t>(end % size));
  }
  if (offset % size != 0) {
    ZUSE_TRY_VOID(zero_part(tx, offset / size, static_cast<std::uint32_t>(offset % size),
                            static_cast<std::uint32_t>(size)));
  }
  if (end % size != 0) {
    ZUSE_TRY_VOID(zero_part(tx, end / size, 0, static_cast<std::uint32_t>(end % size)));
  }
  if (first >= after) {
    return {};
  }
  {
    const LockGuard lock(mutex_);
    ZUSE_TRY_VOID(check_live_locked());
    DirtyGroup& own = group_locked(tx.txg());
    own.records.erase(own.records.lower_bound(first), own.records.lower_bound(after));
    own.freed.add(first, after);
    if (to_end) {
      change_locked(tx.txg(), [&](DnodeHeader& header) {
        if (header.max_block == max) {  // nobody has appended meanwhile
          header.max_block = first == 0 ? 0 : first - 1;
        }
      });
    }
  }
  host_.add_dirty_bytes(tx.txg(), kDirtyDnodeCost);
  return {};
}

Result<void> Dnode::set_block_size(Tx& tx, std::uint32_t bytes) {
  if (bytes == 0 || bytes % 512 != 0 || bytes > format::kMaxBlockSize) {
    return fail(Errc::invalid, "block size is not a multiple of 512 up to 16 MiB");
  }
  if (block_size() == bytes) {
    return {};
  }
  for (;;) {
    std::shared_ptr<const format::DnodePhys> tree;
    Source source;
    {
      const LockGuard lock(mutex_);
      ZUSE_TRY_VOID(check_live_locked());
      if (head_locked().max_block != 0) {
        return fail(Errc::invalid, "the block size is fixed once there is a second block");
      }
      tree = phys_;
      source = find_locked(0);
    }
    SharedBuffer old = source.data;
    if (source.kind == Source::Kind::tree) {
      auto read = read_tree(*tree, 0);
      if (!read) {
        if (tree != phys()) {
          continue;
        }
        return std::unexpected(within(std::move(read).error()));
      }
      old = *std::move(read);
    }
    {
      const LockGuard lock(mutex_);
      ZUSE_TRY_VOID(check_live_locked());
      const Source now = find_locked(0);
      if (phys_ != tree || now.kind != source.kind || now.data != source.data) {
        continue;
      }
      if (head_locked().max_block != 0) {
        return fail(Errc::invalid, "the block size is fixed once there is a second block");
      }
      change_locked(tx.txg(), [&](DnodeHeader& header) { header.block_size = bytes; });
      if (old) {
        auto data = std::make_shared<Buffer>(bytes);
        const std::size_t keep = std::min<std::size_t>(bytes, old->size());
        std::memcpy(data->data(), old->data(), keep);
        std::memset(data->data() + keep, 0, bytes - keep);
        group_locked(tx.txg()).records[0] = std::move(data);
      }
    }
    host_.add_dirty_bytes(tx.txg(), kDirtyDnodeCost + (old ? bytes : 0));
    return {};
  }
}

Result<void> Dnode::set_bonus(Tx& tx, std::span<const std::byte> bytes) {
  {
    const LockGuard lock(mutex_);
    ZUSE_TRY_VOID(check_live_locked());
    const DnodeHeader& head = head_locked();
    const std::size_t room = head.bonus_capacity() - (head.has_spill ? format::kBlkptrSize : 0);
    if (head.bonus_capacity() < (head.has_spill ? format::kBlkptrSize : 0) || bytes.size() > room) {
      return fail(Errc::invalid, "bonus of " + std::to_string(bytes.size()) + " bytes, room for " +
                                     std::to_string(room));
    }
    change_locked(tx.txg(),
                  [&](DnodeHeader& header) { header.bonus.assign(bytes.begin(), bytes.end()); });
  }
  host_.add_dirty_bytes(tx.txg(), kDirtyDnodeCost);
  return {};
}

Result<void> Dnode::set_bonus_type(Tx& tx, format::ObjectType type) {
  const LockGuard lock(mutex_);
  ZUSE_TRY_VOID(check_live_locked());
  change_locked(tx.txg(), [&](DnodeHeader& header) { header.bonus_type = type; });
  return {};
}

Result<void> Dnode::set_type(Tx& tx, format::ObjectType type) {
  if (type == format::ObjectType::none) {
    return fail(Errc::invalid, "an object needs a type");
  }
  const LockGuard lock(mutex_);
  ZUSE_TRY_VOID(check_live_locked());
  change_locked(tx.txg(), [&](DnodeHeader& header) { header.type = type; });
  return {};
}

Result<void> Dnode::set_spill(Tx& tx, std::span<const std::byte> bytes) {
  if (bytes.empty() || bytes.size() % 512 != 0 || bytes.size() > 128 * kKiB) {
    return fail(Errc::invalid, "spill block is not a multiple of 512 up to 128 KiB");
  }
  auto data = std::make_shared<Buffer>(Buffer::copy_of(bytes));
  {
    const LockGuard lock(mutex_);
    ZUSE_TRY_VOID(check_live_locked());
    const DnodeHeader& head = head_locked();
    if (head.bonus.size() + format::kBlkptrSize > head.bonus_capacity()) {
      return fail(Errc::invalid, "the bonus leaves no room for a spill pointer");
    }
    change_locked(tx.txg(), [](DnodeHeader& header) { header.has_spill = true; });
    group_locked(tx.txg()).spill = std::move(data);
  }
  host_.add_dirty_bytes(tx.txg(), bytes.size());
  return {};
}

Result<void> Dnode::remove_spill(Tx& tx) {
  const LockGuard lock(mutex_);
  ZUSE_TRY_VOID(check_live_locked());
  if (!head_locked().has_spill) {
    return {};
  }
  change_locked(tx.txg(), [](DnodeHeader& header) { header.has_spill = false; });
  DirtyGroup& own = group_locked(tx.txg());
  own.spill = nullptr;
  own.spill_removed = true;
  return {};
}

void Dnode::make(Tx& tx, DnodeHeader header) {
  const LockGuard lock(mutex_);
  group_locked(tx.txg()).header = std::move(header);
}

void Dnode::free_all(Tx& tx) {
  const LockGuard lock(mutex_);
  DirtyGroup& own = group_locked(tx.txg());
  own.records.clear();
  own.spill = nullptr;
  own.spill_removed = true;
  own.freed.add(0, kMaxOffset);
  change_locked(tx.txg(), [](DnodeHeader& header) {
    header.allocated = false;
    header.type = format::ObjectType::none;
    header.max_block = 0;
    header.has_spill = false;
  });
}

}  // namespace zuse::object
