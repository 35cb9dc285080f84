// Walking the tree of block pointers; see the header.
#include "fs/object/block_tree.h"

#include <algorithm>

#include "vdev/base/on_disk.h"

namespace zuse::object {

using format::Blkptr;

unsigned TreeShape::levels_for(std::uint64_t block, unsigned block_pointers,
                               unsigned shift) noexcept {
  unsigned levels = 1;
  while (levels < kMaxLevels &&
         shift_left_saturating(block_pointers, shift * (levels - 1)) <= block) {
    ++levels;
  }
  return levels;
}

Result<void> check_shape(const format::DnodePhys& phys) {
  if (phys.indirect_shift < 10 || phys.indirect_shift > 24) {
    return fail(Errc::corrupt, "dnode: indirect block size out of range");
  }
  if (phys.blkptr.empty() || phys.blkptr.size() > 3) {
    return fail(Errc::corrupt, "dnode: number of block pointers out of range");
  }
  const unsigned shift = phys.indirect_shift - 7U;
  // The top level may start past 2^64 only by our own misreading: no writer makes such a tree.
  if (phys.levels < 1 || phys.levels > kMaxLevels || shift * (phys.levels - 1U) >= 64) {
    return fail(Errc::corrupt, "dnode: number of levels out of range");
  }
  if (phys.block_size == 0 || phys.block_size % 512 != 0 ||
      phys.block_size > format::kMaxBlockSize) {
    return fail(Errc::corrupt, "dnode: block size out of range");
  }
  if ((phys.block_size & (phys.block_size - 1)) != 0 && phys.max_block != 0) {
    return fail(Errc::corrupt, "dnode: several blocks of a size that is no power of two");
  }
  if (phys.max_block >= TreeShape::of(phys).capacity()) {
    return fail(Errc::corrupt, "dnode: highest block lies outside its tree");
  }
  return {};
}

Result<void> TreeReader::check_pointer(const Blkptr& blkptr, unsigned level,
                                       const format::DnodePhys& phys) {
  if (blkptr.is_hole()) {
    return {};
  }
  if (blkptr.level != level) {
    return fail(Errc::corrupt, "block pointer of level " + std::to_string(blkptr.level) +
                                   " where level " + std::to_string(level) + " belongs");
  }
  const std::uint64_t size = level == 0 ? phys.block_size : std::uint64_t{1} << phys.indirect_shift;
  if (blkptr.lsize != size) {
    return fail(Errc::corrupt, "block pointer to " + std::to_string(blkptr.lsize) +
                                   " bytes where " + std::to_string(size) + " belong");
  }
  return {};
}

Result<Blkptr> TreeReader::pointer(unsigned level, std::uint64_t id) {
  const TreeShape shape = TreeShape::of(phys_);
  if (level + 1 == shape.levels) {
    if (id >= phys_.blkptr.size()) {
      return Blkptr{};
    }
    ZUSE_TRY_VOID(check_pointer(phys_.blkptr[id], level, phys_));
    return phys_.blkptr[id];
  }
  const std::uint64_t parent_id = id >> shape.shift;
  Step& step = path_[level + 1];
  if (!step.bytes || step.id != parent_id) {
    ZUSE_TRY(const Blkptr parent, pointer(level + 1, parent_id));
    if (parent.is_hole()) {
      // Its children are holes as old as it is.
      Blkptr hole;
      hole.logical_birth = parent.logical_birth;
      return hole;
    }
    const pool::Bookmark at{.objset = objset_,
                            .object = object_,
                            .level = static_cast<std::int64_t>(level) + 1,
                            .block = parent_id};
    ZUSE_TRY(SharedBuffer bytes, store_.read(parent, at));
    if (bytes->size() != std::size_t{1} << phys_.indirect_shift) {
      return fail(Errc::corrupt, "indirect block of the wrong size");
    }
    step = {.id = parent_id, .bytes = std::move(bytes), .order = parent.order};
  }
  const std::size_t slot = id & ((std::uint64_t{1} << shape.shift) - 1);
  ZUSE_TRY(const auto phys,
           read_at<format::BlkptrPhys>(step.bytes->span(), slot * format::kBlkptrSize));
  const Blkptr found = format::decode(phys, step.order);
  ZUSE_TRY_VOID(check_pointer(found, level, phys_));
  return found;
}

Result<Blkptr> TreeReader::find(std::uint64_t block) {
  if (block > phys_.max_block || block >= TreeShape::of(phys_).capacity()) {
    return Blkptr{};
  }
  return pointer(0, block);
}

Result<std::optional<std::uint64_t>> TreeReader::next_below(unsigned level, std::uint64_t id,
                                                            std::uint64_t from, bool data) {
  const TreeShape shape = TreeShape::of(phys_);
  const std::uint64_t first = std::max(from, shift_left_saturating(id, shape.shift * level));
  ZUSE_TRY(const Blkptr here, pointer(level, id));
  if (here.is_hole()) {
    return data ? std::nullopt : std::optional(first);
  }
  if (level == 0) {
    return data ? std::optional(first) : std::nullopt;
  }
  // A full subtree has no hole (dnode blocks count dnodes, not blocks).
  if (!data && phys_.type != format::ObjectType::dnode &&
      here.fill == shift_left_saturating(1, shape.shift * level)) {
    return std::nullopt;
  }
  const std::uint64_t children = std::uint64_t{1} << shape.shift;
  const std::uint64_t last = phys_.max_block >> (shape.shift * (level - 1));
  for (std::uint64_t child = first >> (shape.shift * (level - 1));
       child >> shape.shift == id && child <= last; ++child) {
    ZUSE_TRY(const auto found, next_below(level - 1, child, first, data));
    if (found) {
      return found;
    }
    if ((child & (children - 1)) == children - 1) {
      break;
    }
  }
  return std::nullopt;
}

Result<std::optional<std::uint64_t>> TreeReader::next(std::uint64_t from, bool data) {
  const TreeShape shape = TreeShape::of(phys_);
  const unsigned top = shape.levels - 1;
  for (std::uint64_t id = shift_right(from, shape.shift * top); id < phys_.blkptr.size(); ++id) {
    if (from > phys_.max_block) {
      break;
    }
    ZUSE_TRY(const auto found, next_below(top, id, from, data));
    if (found) {
      return *found <= phys_.max_block ? found : std::nullopt;
    }
  }
  return std::nullopt;
}

}  // namespace zuse::object
