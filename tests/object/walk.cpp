#include "tests/object/walk.h"

#include <cstring>

namespace zuse::test {

using format::Blkptr;
using format::DnodePhys;

namespace {

class Walker {
 public:
  explicit Walker(MemoryStore& store) : store_(store) {}

  void root(const Blkptr& root) {
    const SharedBuffer block = take(root, 0, root.logical_birth, "objset");
    if (!block) {
      return;
    }
    auto decoded = format::decode_objset(block->span(), root.order);
    if (!decoded) {
      complain("objset: " + decoded.error().what());
      return;
    }
    out.objset = *decoded;
    std::uint64_t used = 0;
    const std::uint64_t fill = tree(0, decoded->meta_dnode, root.logical_birth, used);
    if (fill != root.fill) {
      complain("root fill " + std::to_string(root.fill) + ", found " + std::to_string(fill));
    }
    for (const DnodePhys* special :
         {&decoded->user_used, &decoded->group_used, &decoded->project_used}) {
      if (special->type != format::ObjectType::none) {
        tree(~std::uint64_t{0}, *special, root.logical_birth, used);
      }
    }
  }

  Walked out;

 private:
  void complain(std::string what) { out.problems.push_back(std::move(what)); }

  SharedBuffer take(const Blkptr& blkptr, unsigned level, std::uint64_t parent_birth,
                    const std::string& where) {
    if (blkptr.logical_birth > parent_birth) {
      complain(where + ": younger than its parent");
    }
    if (blkptr.level != level) {
      complain(where + ": wrong level");
    }
    if (!blkptr.embedded) {
      for (const format::Dva& dva : blkptr.dva) {
        if (dva.asize != 0 && !out.addresses.insert(dva.offset).second) {
          complain(where + ": block referenced twice");
        }
      }
    }
    auto block = store_.read(blkptr, {});
    if (!block) {
      complain(where + ": " + block.error().what());
      return nullptr;
    }
    return *block;
  }

  std::uint64_t tree(std::uint64_t object, const DnodePhys& dnode, std::uint64_t birth,
                     std::uint64_t& used_out) {
    const std::string where = "object " + std::to_string(object);
    std::uint64_t fill = 0;
    std::uint64_t used = 0;
    for (std::size_t i = 0; i < dnode.blkptr.size(); ++i) {
      fill += below(dnode, dnode.blkptr[i], dnode.levels - 1U, i, birth, used, where);
    }
    if (dnode.spill) {
      take(*dnode.spill, 0, birth, where + " spill");
      used += store_.dsize(*dnode.spill);
      if (dnode.spill->fill != 1 && !dnode.spill->embedded) {
        complain(where + ": spill fill");
      }
    }
    if (used != dnode.used_bytes()) {
      complain(where + ": dn_used " + std::to_string(dnode.used_bytes()) + ", found " +
               std::to_string(used));
    }
    used_out += used;
    return fill;
  }

  std::uint64_t below(const DnodePhys& dnode, const Blkptr& blkptr, unsigned level,
                      std::uint64_t id, std::uint64_t birth, std::uint64_t& used,
                      const std::string& object) {
    const std::string where =
        object + " level " + std::to_string(level) + " block " + std::to_string(id);
    if (blkptr.is_hole()) {
      if (blkptr.fill != 0 || blkptr.logical_birth > birth) {
        complain(where + ": bad hole");
      }
      return 0;
    }
    used += store_.dsize(blkptr);
    const SharedBuffer block = take(blkptr, level, birth, where);
    if (!block) {
      return 0;
    }
    std::uint64_t fill = 0;
    if (level == 0) {
      if (id > dnode.max_block) {
        complain(where + ": beyond the highest block");
      }
      if (block->size() != dnode.block_size) {
        complain(where + ": wrong size");
      }
      fill = 1;
      if (dnode.type == format::ObjectType::dnode) {
        fill = dnodes(*block, id, blkptr);
        if (fill == 0) {
          complain(where + ": an empty block of dnodes is not a hole");
        }
      }
    } else {
      if (block->size() != std::size_t{1} << dnode.indirect_shift) {
        complain(where + ": wrong size");
      }
      const std::size_t count = block->size() / format::kBlkptrSize;
      for (std::size_t slot = 0; slot < count; ++slot) {
        format::BlkptrPhys phys;
        std::memcpy(&phys, block->data() + slot * format::kBlkptrSize, sizeof phys);
        fill += below(dnode, format::decode(phys, blkptr.order), level - 1, id * count + slot,
                      blkptr.logical_birth, used, object);
      }
      if (fill == 0) {
        complain(where + ": an indirect block of holes is not a hole");
      }
    }
    if (fill != blkptr.fill_count()) {
      complain(where + ": fill " + std::to_string(blkptr.fill_count()) + ", found " +
               std::to_string(fill));
    }
    return fill;
  }

  std::uint64_t dnodes(const Buffer& block, std::uint64_t id, const Blkptr& parent) {
    std::uint64_t count = 0;
    const std::size_t slots = block.size() / format::kDnodeSlotSize;
    for (std::size_t slot = 0; slot < slots;) {
      const auto bytes = block.span().subspan(slot * format::kDnodeSlotSize);
      if (bytes[0] == std::byte{0}) {
        for (std::size_t i = 0; i < format::kDnodeSlotSize; ++i) {
          if (bytes[i] != std::byte{0}) {
            complain("free slot " + std::to_string(id * slots + slot) + " is not zero");
            break;
          }
        }
        ++slot;
        continue;
      }
      auto dnode = format::decode_dnode(bytes, parent.order);
      if (!dnode) {
        complain(dnode.error().what());
        return count;
      }
      ++count;
      std::uint64_t used = 0;
      const std::uint64_t object = id * slots + slot;
      tree(object, *dnode, parent.logical_birth, used);
      out.dnodes[object] = *dnode;
      slot += dnode->slots();
    }
    return count;
  }

  MemoryStore& store_;
};

}  // namespace

Walked walk(MemoryStore& store, const Blkptr& root) {
  Walker walker(store);
  walker.root(root);
  return std::move(walker.out);
}

}  // namespace zuse::test
