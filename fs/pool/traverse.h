// A walk over every block pointer below the root of an object set: the object set's own block, the
// blocks of dnodes, and each object's blocks, in an order that stays the same from one day to the
// next, so that a walk can go on where another one ended, in a newer version of the tree.
//
// Order: parents before children. A block of dnodes comes before the objects in it, objects come by
// number, an object's blocks by offset, its spill block last; the accounting objects (numbers near
// 2^64) come after all others.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "fs/format/dnode_phys.h"
#include "fs/format/objset_phys.h"
#include "fs/pool/block_store.h"

namespace zuse::pool {

enum class BlockKind : std::uint8_t { objset, dnodes, indirect, data, spill };

// Artificial block number of a spill block. source: format page 05 section 1.2.
inline constexpr std::uint64_t kSpillBlock = ~std::uint64_t{0} - 1;

struct TraverseOptions {
  // Blocks born in min_birth or before are not looked at, nor what is below them; those born after
  // max_birth are passed by, but not what is below them.
  std::uint64_t min_birth = 0;
  std::uint64_t max_birth = ~std::uint64_t{0};
  // The first block to visit: everything before it in the order is passed by.
  std::optional<Bookmark> resume;
  bool holes = false;  // visit holes with a birth in range, too
  bool cache = true;   // what the walk reads may displace others in the cache
};

struct TraverseCalls {
  // A block in range; its contents are not known to be readable. An error ends the walk: `stopped`
  // when the caller has had enough.
  std::function<Result<void>(const format::Blkptr&, const Bookmark&, BlockKind)> visit;
  // An allocated dnode whose block is not passed by, before its blocks. May be empty.
  std::function<Result<void>(std::uint64_t object, const format::DnodePhys&)> dnode;
  // The object set's decoded block, before all others. May be empty.
  std::function<Result<void>(const format::ObjsetPhys&)> objset;
  // A block that the walk needed to go on could not be read, or makes no sense: what is below it is
  // passed by. May be empty.
  std::function<void(const Bookmark&, const Error&)> error;
};

// errors: what visit and dnode answer; nothing else, unreadable blocks go to `error`.
Result<void> traverse(BlockStore& store, std::uint64_t objset, const format::Blkptr& root,
                      const TraverseOptions& options, const TraverseCalls& calls);

}  // namespace zuse::pool
