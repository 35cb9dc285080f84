// The walk. Each indirect block's children, and each block of dnodes' trees, are read ahead a
// window at a time through read_many, so that one thread keeps many reads in flight.
//
// The order as numbers. A block's place is (object, tier, offset, depth): for block b at level l of
// the dnodes themselves, object is the first number in it and tier 0, so that it stands before its
// objects; for block b at level l of object o, tier is 1 and offset the first level-0 block below
// it; depth is -l, so that parents stand before children. A subtree lies wholly before the resume
// point if its end does.
#include "fs/pool/traverse.h"

#include <algorithm>
#include <limits>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

namespace zuse::pool {
namespace {

constexpr std::size_t kWindow = 64;  // blocks read ahead at a time

struct Place {
  std::uint64_t object = 0;
  unsigned tier = 0;
  std::uint64_t offset = 0;
  std::int64_t depth = 0;
  auto operator<=>(const Place&) const = default;
};

// value << shift, or the largest number.
std::uint64_t shifted(std::uint64_t value, unsigned shift) noexcept {
  if (value == 0) {
    return 0;
  }
  if (shift >= 64 || value > std::numeric_limits<std::uint64_t>::max() >> shift) {
    return std::numeric_limits<std::uint64_t>::max();
  }
  return value << shift;
}

class Walk {
 public:
  Walk(BlockStore& store, std::uint64_t objset, const TraverseOptions& options,
       const TraverseCalls& calls)
      : store_(store), objset_(objset), options_(options), calls_(calls) {}

  Result<void> run(const format::Blkptr& root) {
    const Bookmark at{objset_, 0, -1, 0};
    if (passed_by(root)) {
      return {};
    }
    const bool resumed = options_.resume && *options_.resume != at;
    if (!resumed) {
      ZUSE_TRY_VOID(visit(root, at, BlockKind::objset));
    }
    if (root.is_hole()) {
      return {};
    }
    const Result<SharedBuffer> block = read(root, at);
    if (!block) {
      return report(at, block.error());
    }
    const auto objset = format::decode_objset((*block)->span(), root.order);
    if (!objset) {
      return report(at, objset.error());
    }
    if (calls_.objset && !resumed) {
      ZUSE_TRY_VOID(calls_.objset(*objset));
    }
    if (objset->meta_dnode.type != format::ObjectType::none) {
      ZUSE_TRY_VOID(tree(Tree(0, objset->meta_dnode, true)));
    }
    for (const auto& [number, dnode] :
         {std::pair(-3, &objset->project_used), std::pair(-2, &objset->group_used),
          std::pair(-1, &objset->user_used)}) {
      if (dnode->type != format::ObjectType::none) {
        ZUSE_TRY_VOID(object(static_cast<std::uint64_t>(std::int64_t{number}), *dnode));
      }
    }
    return {};
  }

 private:
  // One dnode's tree of blocks.
  struct Tree {
    Tree(std::uint64_t number, const format::DnodePhys& phys, bool of_dnodes)
        : object(number),
          dnode(phys),
          meta(of_dnodes),
          width_shift(phys.indirect_shift - 7U),
          slots_per_block(phys.block_size / format::kDnodeSlotSize) {}

    std::uint64_t object;
    const format::DnodePhys& dnode;
    bool meta;
    unsigned width_shift;  // log2 of the pointers in an indirect block
    std::uint64_t slots_per_block;

    // Level-0 blocks below one block of `level`, as a shift.
    unsigned span_shift(std::int64_t level) const noexcept {
      return static_cast<unsigned>(level) * width_shift;
    }
    std::uint64_t first_below(std::int64_t level, std::uint64_t block) const noexcept {
      return shifted(block, span_shift(level));
    }
    Place place(std::int64_t level, std::uint64_t block) const noexcept {
      const std::uint64_t first = first_below(level, block);
      return meta ? Place{saturating(first), 0, 0, -level} : Place{object, 1, first, -level};
    }
    // The place after everything below it.
    Place end(std::int64_t level, std::uint64_t block) const noexcept {
      return place(level, block + 1);
    }
    std::uint64_t saturating(std::uint64_t first) const noexcept {
      return first > std::numeric_limits<std::uint64_t>::max() / slots_per_block
                 ? std::numeric_limits<std::uint64_t>::max()
                 : first * slots_per_block;
    }
  };

  Result<void> report(const Bookmark& at, const Error& error) {
    if (calls_.error) {
      calls_.error(at, error);
    }
    return {};
  }

  Result<SharedBuffer> read(const format::Blkptr& blkptr, const Bookmark& at) {
    return store_.read(blkptr, at, {.cache = options_.cache});
  }

  // Too old to be looked at, with all below. Holes that may have none of it stay.
  bool passed_by(const format::Blkptr& blkptr) const noexcept {
    if (blkptr.is_hole()) {
      return !options_.holes ||
             (blkptr.logical_birth != 0 && blkptr.logical_birth <= options_.min_birth);
    }
    return blkptr.logical_birth <= options_.min_birth;
  }

  Result<void> visit(const format::Blkptr& blkptr, const Bookmark& at, BlockKind kind) {
    if (calls_.visit && blkptr.birth() <= options_.max_birth) {
      return calls_.visit(blkptr, at, kind);
    }
    return {};
  }

  // Where the resume point lies, seen from this tree; nullopt: the whole tree comes after it.
  // `skip`: the whole tree comes before it.
  std::optional<Place> resume_in(const Tree& tree, bool& skip) const {
    skip = false;
    if (!options_.resume) {
      return std::nullopt;
    }
    const Bookmark& resume = *options_.resume;
    if (resume.level < 0) {
      return std::nullopt;
    }
    if (tree.meta) {
      return resume.object == 0 ? tree.place(resume.level, resume.block)
                                : Place{resume.object, 1, 0, std::numeric_limits<int>::min()};
    }
    if (resume.object == tree.object) {
      return tree.place(resume.level, resume.block);
    }
    // With object 0, the point is a block of dnodes: the meta tree has passed by what is before it.
    skip = resume.object != 0 && tree.object < resume.object;
    return std::nullopt;
  }

  Result<void> tree(const Tree& tree) {
    bool skip = false;
    const std::optional<Place> resume = resume_in(tree, skip);
    if (skip) {
      return {};
    }
    const std::int64_t top = std::int64_t{tree.dnode.levels} - 1;
    return children(tree, tree.dnode.blkptr, top, 0, resume);
  }

  // The pointers `blkptrs`, blocks first, first + 1, ... of `level`.
  Result<void> children(const Tree& tree, std::span<const format::Blkptr> blkptrs,
                        std::int64_t level, std::uint64_t first,
                        const std::optional<Place>& resume) {
    const bool read_below = level > 0 || tree.meta;
    std::vector<std::size_t> wanted;
    for (std::size_t i = 0; i < blkptrs.size(); ++i) {
      const std::uint64_t block = first + i;
      if (tree.first_below(level, block) > tree.dnode.max_block) {
        break;  // what lies beyond the last block is not there, whatever the pointers say
      }
      if (passed_by(blkptrs[i]) || (resume && tree.end(level, block) <= *resume)) {
        continue;
      }
      wanted.push_back(i);
    }
    for (std::size_t from = 0; from < wanted.size(); from += kWindow) {
      const std::size_t count = std::min(kWindow, wanted.size() - from);
      const std::span window = std::span(wanted).subspan(from, count);
      std::vector<SharedBuffer> blocks(count);
      std::vector<std::optional<Error>> errors(count);
      if (read_below) {
        read_window(tree, blkptrs, level, first, window, blocks, errors);
      }
      for (std::size_t w = 0; w < count; ++w) {
        const format::Blkptr& blkptr = blkptrs[window[w]];
        const std::uint64_t block = first + window[w];
        const Bookmark at{objset_, tree.object, level, block};
        const bool before = resume && tree.place(level, block) < *resume;
        if (!before) {
          const BlockKind kind = level > 0   ? BlockKind::indirect
                                 : tree.meta ? BlockKind::dnodes
                                             : BlockKind::data;
          ZUSE_TRY_VOID(visit(blkptr, at, kind));
        }
        if (!read_below || blkptr.is_hole()) {
          continue;
        }
        if (errors[w]) {
          ZUSE_TRY_VOID(report(at, *errors[w]));
          continue;
        }
        const SharedBuffer contents = std::move(blocks[w]);
        if (level > 0) {
          ZUSE_TRY_VOID(indirect(tree, blkptr, *contents, at, resume));
        } else {
          ZUSE_TRY_VOID(dnodes(tree, blkptr, *contents, at));
        }
      }
    }
    return {};
  }

  void read_window(const Tree& tree, std::span<const format::Blkptr> blkptrs, std::int64_t level,
                   std::uint64_t first, std::span<const std::size_t> window,
                   std::span<SharedBuffer> blocks, std::span<std::optional<Error>> errors) {
    std::vector<format::Blkptr> pointers;
    std::vector<Bookmark> bookmarks;
    std::vector<std::size_t> index;
    for (std::size_t w = 0; w < window.size(); ++w) {
      if (!blkptrs[window[w]].is_hole()) {
        pointers.push_back(blkptrs[window[w]]);
        bookmarks.push_back({objset_, tree.object, level, first + window[w]});
        index.push_back(w);
      }
    }
    std::vector<Result<SharedBuffer>> results(pointers.size());
    store_.read_many(pointers, bookmarks, results, {.cache = options_.cache});
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (results[i]) {
        blocks[index[i]] = *std::move(results[i]);
      } else {
        errors[index[i]] = std::move(results[i]).error();
      }
    }
  }

  Result<void> indirect(const Tree& tree, const format::Blkptr& blkptr, const Buffer& contents,
                        const Bookmark& at, const std::optional<Place>& resume) {
    const std::size_t count = contents.size() / format::kBlkptrSize;
    if (contents.size() != pow2(tree.width_shift) * format::kBlkptrSize) {
      return report(at, Error(Errc::corrupt, "an indirect block of the wrong size"));
    }
    std::vector<format::Blkptr> pointers;
    pointers.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      format::BlkptrPhys phys;
      std::copy_n(contents.data() + i * format::kBlkptrSize, format::kBlkptrSize,
                  reinterpret_cast<std::byte*>(&phys));
      pointers.push_back(format::decode(phys, blkptr.order));
      const format::Blkptr& child = pointers.back();
      if (!child.is_hole() && child.level != at.level - 1) {
        ZUSE_TRY_VOID(report(at, Error(Errc::corrupt, "a pointer to a block of another level")));
        pointers.back() = {};
      }
    }
    return children(tree, pointers, at.level - 1, at.block << tree.width_shift, resume);
  }

  // A block of dnodes: first the tops of all their trees ahead, then one after the other.
  Result<void> dnodes(const Tree& tree, const format::Blkptr& blkptr, const Buffer& contents,
                      const Bookmark& at) {
    std::vector<std::pair<std::uint64_t, format::DnodePhys>> found;
    const std::size_t slots = contents.size() / format::kDnodeSlotSize;
    const std::uint64_t first = tree.saturating(at.block);
    for (std::size_t slot = 0; slot < slots;) {
      const std::span<const std::byte> rest =
          contents.span().subspan(slot * format::kDnodeSlotSize);
      auto dnode = format::decode_dnode(rest, blkptr.order);
      if (!dnode) {
        ZUSE_TRY_VOID(report({objset_, first + slot, 0, 0}, dnode.error()));
        ++slot;
        continue;
      }
      const unsigned used = dnode->type == format::ObjectType::none ? 1U : dnode->slots();
      if (dnode->type != format::ObjectType::none && first + slot != 0) {
        found.emplace_back(first + slot, *std::move(dnode));
      }
      slot += used;
    }
    read_ahead(found);
    for (const auto& [number, dnode] : found) {
      ZUSE_TRY_VOID(object(number, dnode));
    }
    return {};
  }

  // Brings the top indirect blocks of many small trees into the cache at once.
  void read_ahead(std::span<const std::pair<std::uint64_t, format::DnodePhys>> dnodes) {
    if (!options_.cache) {
      return;
    }
    std::vector<format::Blkptr> pointers;
    std::vector<Bookmark> bookmarks;
    for (const auto& [number, dnode] : dnodes) {
      const bool before = options_.resume && options_.resume->object > number;
      for (std::size_t i = 0; i < dnode.blkptr.size() && dnode.levels > 1 && !before; ++i) {
        if (!dnode.blkptr[i].is_hole() && !passed_by(dnode.blkptr[i])) {
          pointers.push_back(dnode.blkptr[i]);
          bookmarks.push_back({objset_, number, std::int64_t{dnode.levels} - 1, i});
        }
      }
    }
    if (pointers.size() > 1) {
      std::vector<Result<SharedBuffer>> results(pointers.size());
      store_.read_many(pointers, bookmarks, results, {.cache = true, .prefetch = true});
    }
  }

  Result<void> object(std::uint64_t number, const format::DnodePhys& dnode) {
    const Tree own(number, dnode, false);
    bool skip = false;
    const std::optional<Place> resume = resume_in(own, skip);
    if (skip) {
      return {};
    }
    if (calls_.dnode) {
      ZUSE_TRY_VOID(calls_.dnode(number, dnode));
    }
    const Place spill{number, 1, kSpillBlock, 0};
    if (!resume || *resume < spill) {
      ZUSE_TRY_VOID(tree(own));
    }
    if (dnode.spill && !passed_by(*dnode.spill)) {
      ZUSE_TRY_VOID(visit(*dnode.spill, {objset_, number, 0, kSpillBlock}, BlockKind::spill));
    }
    return {};
  }

  BlockStore& store_;
  const std::uint64_t objset_;
  const TraverseOptions& options_;
  const TraverseCalls& calls_;
};

}  // namespace

Result<void> traverse(BlockStore& store, std::uint64_t objset, const format::Blkptr& root,
                      const TraverseOptions& options, const TraverseCalls& calls) {
  return Walk(store, objset, options, calls).run(root);
}

}  // namespace zuse::pool
