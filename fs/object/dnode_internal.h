// Helpers that the files of Dnode share. Internal to fs/object.
#pragma once

#include <memory>
#include <optional>

#include "fs/object/block_tree.h"
#include "fs/object/dirty.h"
#include "fs/object/dnode.h"

namespace zuse::object {

// The spill block's number in bookmarks. source: format page 05 section 1.2.
inline constexpr std::uint64_t kSpillBookmark = ~std::uint64_t{0} - 1;

// Objects and bytes end here: offsets stay positive as signed numbers.
inline constexpr std::uint64_t kMaxOffset = std::uint64_t{1} << 63;

DnodeHeader header_of(const format::DnodePhys& phys);

// Where the newest contents of a block are.
struct Dnode::Source {
  enum class Kind : std::uint8_t { record, hole, tree };
  Kind kind = Kind::hole;
  std::shared_ptr<Buffer> data;  // record
  std::size_t group = 0;         // record: index in live_
};

// What one call has already found on disk, so that runs of blocks read their indirect block once.
struct Dnode::WritePath {
  std::shared_ptr<const format::DnodePhys> tree;
  std::optional<TreeReader> reader;
};

}  // namespace zuse::object
