// The tree of block pointers below a dnode: its geometry, and finding blocks in it.
//
// Level 0 is data. A block of level l > 0 is an array of 2^shift pointers to blocks of level l - 1
// (shift = indirect_shift - 7), and the dnode itself holds the pointers to the top level:
//
//     dnode [ 0 | 1 | 2 ]                    level 3 would start here
//             |   |
//          [ .......... ]  [ .......... ]    level 2 blocks, ids 0, 1
//             |                  |
//          [ ....... ]        [ ....... ]    level 1
//             |
//            data                            level 0: block id = offset / block size
//
// The pointer to block (level, id) lies in slot id mod 2^shift of block (level + 1, id >> shift).
// source: format page 05 section 4.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fs/format/dnode_phys.h"
#include "fs/pool/block_store.h"

namespace zuse::object {

inline constexpr unsigned kMaxLevels = 30;

// Shifts that give 0 (or the largest number) where the language says nothing.
constexpr std::uint64_t shift_right(std::uint64_t value, unsigned by) noexcept {
  return by >= 64 ? 0 : value >> by;
}
constexpr std::uint64_t shift_left_saturating(std::uint64_t value, unsigned by) noexcept {
  if (value == 0) {
    return 0;
  }
  return by >= 64 || (value << by) >> by != value ? ~std::uint64_t{0} : value << by;
}

// Shape of a tree.
struct TreeShape {
  unsigned shift = 10;          // log2 of pointers per indirect block
  unsigned levels = 1;          // data included
  unsigned block_pointers = 1;  // in the dnode

  static TreeShape of(const format::DnodePhys& phys) noexcept {
    return {.shift = phys.indirect_shift - 7U,
            .levels = phys.levels,
            .block_pointers = static_cast<unsigned>(phys.blkptr.size())};
  }
  // Level-0 blocks that it can address; the largest number if that does not fit.
  std::uint64_t capacity() const noexcept {
    return shift_left_saturating(block_pointers, shift * (levels - 1));
  }
  // Levels that a tree needs in order to hold `block`.
  static unsigned levels_for(std::uint64_t block, unsigned block_pointers, unsigned shift) noexcept;
};

// errors: corrupt, if a dnode read from disk has a shape that no tree can have.
Result<void> check_shape(const format::DnodePhys& phys);

// Finds blocks in the tree of a dnode as it is on disk. Remembers the last indirect block of each
// level, so that neighbours cost one step. The dnode must outlive it. Not thread-safe.
class TreeReader {
 public:
  TreeReader(pool::BlockStore& store, std::uint64_t objset, std::uint64_t object,
             const format::DnodePhys& phys)
      : store_(store), objset_(objset), object_(object), phys_(phys), path_(phys.levels) {}

  // The pointer to a level-0 block; a hole for what lies past the end.
  // errors: as BlockStore::read; corrupt, if a pointer is not of the level or size expected.
  Result<format::Blkptr> find(std::uint64_t block);
  // The first block >= from that is data (or a hole), up to max_block. nullopt: there is none.
  Result<std::optional<std::uint64_t>> next(std::uint64_t from, bool data);

  // One indirect block, checked against what its place demands. shape: level >= 1.
  static Result<void> check_pointer(const format::Blkptr& blkptr, unsigned level,
                                    const format::DnodePhys& phys);

 private:
  struct Step {
    std::uint64_t id = 0;
    SharedBuffer bytes;
    ByteOrder order = kHostOrder;
  };

  Result<format::Blkptr> pointer(unsigned level, std::uint64_t id);
  Result<std::optional<std::uint64_t>> next_below(unsigned level, std::uint64_t id,
                                                  std::uint64_t from, bool data);

  pool::BlockStore& store_;
  const std::uint64_t objset_, object_;
  const format::DnodePhys& phys_;
  std::vector<Step> path_;  // by level; path_[l] is the last level-l block read
};

}  // namespace zuse::object
