// Random work on files, held against a plain model: the object set while it changes, and every
// group as it is on disk. Two groups are always in work: the next one fills before the last one is
// synced.
#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

#include "tests/object/fixture.h"

namespace zuse::test {
namespace {

using object::DnodeRef;
using object::NewObject;
using object::Objset;
using object::Tx;

struct ModelFile {
  std::uint32_t block_size = 0;
  std::map<std::uint64_t, std::vector<std::byte>> blocks;  // what is not here reads as zeros
  std::uint64_t max_block = 0;
  std::vector<std::byte> bonus;
  std::vector<std::byte> spill;  // empty: none

  std::vector<std::byte> read(std::uint64_t offset, std::size_t length) const {
    std::vector<std::byte> bytes(length);
    for (std::size_t i = 0; i < length;) {
      const std::uint64_t block = (offset + i) / block_size;
      const std::size_t at = (offset + i) % block_size;
      const std::size_t part = std::min<std::size_t>(length - i, block_size - at);
      if (const auto it = blocks.find(block); it != blocks.end()) {
        std::memcpy(bytes.data() + i, it->second.data() + at, part);
      }
      i += part;
    }
    return bytes;
  }
  void write(std::uint64_t offset, std::span<const std::byte> bytes) {
    for (std::size_t i = 0; i < bytes.size();) {
      const std::uint64_t block = (offset + i) / block_size;
      const std::size_t at = (offset + i) % block_size;
      const std::size_t part = std::min<std::size_t>(bytes.size() - i, block_size - at);
      auto& data = blocks[block];
      data.resize(block_size);
      std::memcpy(data.data() + at, bytes.data() + i, part);
      max_block = std::max(max_block, block);
      i += part;
    }
  }
  void zero(std::uint64_t offset, std::uint64_t length, bool to_end) {
    const std::uint64_t end = to_end ? ~std::uint64_t{0} : offset + length;
    for (auto it = blocks.begin(); it != blocks.end();) {
      const std::uint64_t start = it->first * block_size;
      const std::uint64_t from = std::max(start, offset);
      const std::uint64_t until = std::min(start + block_size, end);
      if (from >= until) {
        ++it;
      } else if (from == start && until == start + block_size) {
        it = blocks.erase(it);
      } else {
        std::fill(it->second.begin() + static_cast<std::ptrdiff_t>(from - start),
                  it->second.begin() + static_cast<std::ptrdiff_t>(until - start), std::byte{0});
        ++it;
      }
    }
  }
};
using Model = std::map<std::uint64_t, ModelFile>;

class ModelTest : public ObjsetTest, public testing::WithParamInterface<std::pair<bool, bool>> {
 protected:
  ModelTest()
      : ObjsetTest(
            {.hole_birth = GetParam().first, .embedded = GetParam().second, .cpu_threads = 2}) {}

  std::uint64_t below(std::uint64_t bound) { return rng_() % bound; }

  void compare_file(object::Dnode& dnode, const ModelFile& file) {
    ASSERT_EQ(dnode.block_size(), file.block_size);
    ASSERT_EQ(dnode.bonus(), file.bonus);
    auto spill = dnode.spill();
    ASSERT_OK(spill);
    ASSERT_EQ(*spill != nullptr, !file.spill.empty());
    if (*spill) {
      ASSERT_EQ((*spill)->size(), file.spill.size());
      ASSERT_EQ(std::memcmp((*spill)->data(), file.spill.data(), file.spill.size()), 0);
    }
    for (int i = 0; i < 6; ++i) {
      const std::uint64_t size = (file.max_block + 2) * file.block_size;
      std::uint64_t offset = below(size);
      if (i == 0 || file.blocks.empty()) {
        offset = 0;
      } else if (i % 2 == 1) {
        auto it = file.blocks.begin();
        std::advance(it, static_cast<std::ptrdiff_t>(below(file.blocks.size())));
        offset = it->first * file.block_size;
        offset -= std::min<std::uint64_t>(offset, below(2 * file.block_size));
      }
      std::vector<std::byte> read(1 + below(8 * file.block_size));
      ASSERT_OK(dnode.read(offset, read));
      ASSERT_EQ(read, file.read(offset, read.size())) << "at " << offset;
    }
    for (const auto& [block, data] : file.blocks) {
      auto read = dnode.read_block(block);
      ASSERT_OK(read);
      ASSERT_EQ((*read)->size(), data.size());
      ASSERT_EQ(std::memcmp((*read)->data(), data.data(), data.size()), 0) << "block " << block;
    }
    compare_seeks(dnode, file);
  }

  // Between where a search for data starts and where it ends there is none, and the end is what was
  // looked for, as far as zeros can tell.
  void compare_seeks(object::Dnode& dnode, const ModelFile& file) {
    const std::uint64_t from = below((file.max_block + 1) * file.block_size);
    const auto nonzero = [&](std::uint64_t block) {
      const auto it = file.blocks.find(block);
      return it != file.blocks.end() && std::any_of(it->second.begin(), it->second.end(),
                                                    [](std::byte b) { return b != std::byte{0}; });
    };
    const auto data = dnode.next_data(from);
    const std::uint64_t until = data ? *data / file.block_size : ~std::uint64_t{0};
    if (!data) {
      ASSERT_EQ(data.error().code(), Errc::not_found);
    }
    for (auto it = file.blocks.lower_bound(from / file.block_size);
         it != file.blocks.end() && it->first < until; ++it) {
      ASSERT_FALSE(nonzero(it->first)) << "data missed in block " << it->first;
    }
    const auto hole = dnode.next_hole(from);
    if (hole) {
      ASSERT_GE(*hole, from);
      ASSERT_FALSE(nonzero(*hole / file.block_size));
      for (std::uint64_t block = from / file.block_size;
           block < *hole / file.block_size && block < 5000; ++block) {
        if (file.blocks.contains(block)) {
          continue;
        }
        // A block of zeros may count as data; one that was never written may not.
        ASSERT_TRUE(written_.contains({dnode.object(), block})) << "hole missed: " << block;
      }
    }
  }

  void compare(Objset& objset, const Model& model) {
    std::vector<std::uint64_t> numbers;
    for (auto next = objset.next_object(0); next; next = objset.next_object(*next)) {
      numbers.push_back(*next);
    }
    std::vector<std::uint64_t> expected;
    for (const auto& [number, file] : model) {
      expected.push_back(number);
    }
    ASSERT_EQ(numbers, expected);
    for (const auto& [number, file] : model) {
      SCOPED_TRACE("object " + std::to_string(number));
      auto dnode = objset.hold(number);
      ASSERT_OK(dnode);
      compare_file(**dnode, file);
      if (HasFatalFailure()) {
        return;
      }
    }
  }

  void change(Objset& objset, Model& model, std::uint64_t txg) {
    Tx tx = Tx::syncing(txg);
    if (model.empty() || (model.size() < 12 && below(10) == 0)) {
      NewObject spec = kFile;
      constexpr std::array<std::uint32_t, 5> kSizes{512, 1024, 4096, 16384, 1536};
      spec.block_size = kSizes[below(kSizes.size())];
      spec.indirect_shift = below(4) == 0 ? std::uint8_t{17} : std::uint8_t{12};
      spec.slots = below(5) == 0 ? 2 : 1;
      spec.bonus_type = below(2) == 0 ? format::ObjectType::sa : format::ObjectType::none;
      auto dnode = objset.allocate(tx, spec);
      ASSERT_OK(dnode);
      ASSERT_FALSE(model.contains((*dnode)->object()));
      model[(*dnode)->object()].block_size = spec.block_size;
      std::erase_if(written_, [&](const auto& at) { return at.first == (*dnode)->object(); });
      return;
    }
    auto it = model.begin();
    std::advance(it, static_cast<std::ptrdiff_t>(below(model.size())));
    ModelFile& file = it->second;
    auto held = objset.hold(it->first);
    ASSERT_OK(held);
    const DnodeRef& dnode = *held;
    const bool single = (file.block_size & (file.block_size - 1)) != 0;
    std::uint64_t span = (file.max_block + 4) * file.block_size;
    if (single) {
      span = file.block_size;
    } else if (below(30) == 0) {
      span = std::uint64_t{file.block_size} << (4 + below(24));  // far away
    }
    std::uint64_t offset = below(span);
    std::uint64_t length = 1 + below(below(2) == 0 ? file.block_size : 20 * file.block_size);
    if (below(3) == 0) {
      offset -= offset % file.block_size;
      length = (1 + length / file.block_size) * file.block_size;
    }
    if (single) {
      length = std::min(length, file.block_size - offset);
    }
    switch (below(12)) {
      case 0: {  // truncate
        ASSERT_OK(dnode->free_range(tx, offset, object::kToEnd));
        file.zero(offset, 0, true);
        // The highest block as format page 05 section 5 has it: the block before the first that was
        // freed whole.
        const std::uint64_t first = (offset + file.block_size - 1) / file.block_size;
        if (first <= file.max_block) {
          file.max_block = first == 0 ? 0 : first - 1;
        }
        break;
      }
      case 1:
      case 2:
        ASSERT_OK(dnode->free_range(tx, offset, length));
        file.zero(offset, length, false);
        if (offset + length >= (file.max_block + 1) * file.block_size &&
            offset < (file.max_block + 1) * file.block_size) {
          const std::uint64_t first = (offset + file.block_size - 1) / file.block_size;
          if (first <= file.max_block) {
            file.max_block = first == 0 ? 0 : first - 1;
          }
        }
        break;
      case 3: {
        const std::size_t room = dnode->bonus_capacity() - (file.spill.empty() ? 0 : 128);
        auto bonus = pattern(rng_, below(std::min<std::size_t>(room, 100) + 1));
        ASSERT_OK(dnode->set_bonus(tx, bonus));
        file.bonus = std::move(bonus);
        break;
      }
      case 4:
        if (dnode->bonus_capacity() < 128 + file.bonus.size()) {
          break;
        }
        file.spill = pattern(rng_, 512 * (1 + below(4)));
        ASSERT_OK(dnode->set_spill(tx, file.spill));
        break;
      case 5:
        file.spill.clear();
        ASSERT_OK(dnode->remove_spill(tx));
        break;
      case 6: {
        const std::uint64_t block = offset / file.block_size;
        auto span_of = dnode->edit_block(tx, block);
        ASSERT_OK(span_of);
        const auto old = file.read(block * file.block_size, file.block_size);
        ASSERT_EQ(std::memcmp(span_of->data(), old.data(), old.size()), 0);
        const auto bytes = pattern(rng_, file.block_size / 2);
        std::memcpy(span_of->data() + file.block_size / 4, bytes.data(), bytes.size());
        file.write(block * file.block_size, old);
        file.write(block * file.block_size + file.block_size / 4, bytes);
        written_.insert({it->first, block});
        break;
      }
      case 7:
        if (below(4) == 0) {
          ASSERT_OK(objset.free_object(tx, it->first));
          model.erase(it);
          return;
        }
        break;
      case 8: {
        const auto size = static_cast<std::uint32_t>(512 * (1 + below(16)));
        const auto answer = dnode->set_block_size(tx, size);
        ASSERT_EQ(answer.has_value(), file.max_block == 0 || size == file.block_size);
        if (answer) {
          if (const auto block = file.blocks.find(0); block != file.blocks.end()) {
            block->second.resize(size);
          }
          file.block_size = size;
        }
        break;
      }
      default: {
        const auto bytes = below(8) == 0 ? std::vector<std::byte>(length) : pattern(rng_, length);
        ASSERT_OK(dnode->write(tx, offset, bytes));
        file.write(offset, bytes);
        for (std::uint64_t block = offset / file.block_size;
             block <= (offset + length - 1) / file.block_size; ++block) {
          written_.insert({it->first, block});
        }
        break;
      }
    }
    ASSERT_EQ(dnode->max_block(), file.max_block);
  }

  std::set<std::pair<std::uint64_t, std::uint64_t>> written_;
};

TEST_P(ModelTest, TheDiskHoldsEveryGroupAndMemoryTheNewest) {
  auto objset = create();
  Model newest;
  Model closed;  // as of the end of the group before
  std::uint64_t txg = 4;
  for (int group = 0; group < 40; ++group, ++txg) {
    SCOPED_TRACE("txg " + std::to_string(txg));
    const std::uint64_t changes = below(60);
    for (std::uint64_t i = 0; i < changes; ++i) {
      change(*objset, newest, txg);
      ASSERT_FALSE(HasFatalFailure());
    }
    if (group > 0) {
      // The group before goes to disk now, in the middle of this one.
      const Walked walked = sync(*objset, txg - 1);
      ASSERT_FALSE(HasFailure());
      ASSERT_EQ(objset->object_count(), closed.size());
      for (const auto& [number, file] : closed) {
        ASSERT_EQ(phys_of(walked, number).max_block, file.max_block);
      }
      auto on_disk = Objset::open(context(true), objset->root());
      ASSERT_OK(on_disk);
      if (below(2) == 0) {
        store_.drop_cache();
      }
      compare(**on_disk, closed);
      ASSERT_FALSE(HasFatalFailure()) << "on disk";
      store_.release(txg - 1);
      for (std::uint64_t i = below(20); i > 0; --i) {
        change(*objset, newest, txg);
        ASSERT_FALSE(HasFatalFailure());
      }
    }
    compare(*objset, newest);
    ASSERT_FALSE(HasFatalFailure()) << "in memory";
    closed = newest;
    if (below(8) == 0) {  // start over from the disk
      sync(*objset, txg);
      ASSERT_FALSE(HasFailure());
      auto again = Objset::open(context(), objset->root());
      ASSERT_OK(again);
      objset = std::move(*again);
      ++txg;
    }
  }
  // In the end everything is freed, and nothing but the object set itself is left.
  sync(*objset, txg - 1);
  Tx tx = Tx::syncing(txg);
  for (const auto& [number, file] : newest) {
    ASSERT_OK(objset->free_object(tx, number));
  }
  sync(*objset, txg);
  EXPECT_EQ(store_.live().size(), policy_.metadata_copies);
}

INSTANTIATE_TEST_SUITE_P(Stores, ModelTest,
                         testing::Values(std::pair(true, false), std::pair(false, false),
                                         std::pair(true, true)));

}  // namespace
}  // namespace zuse::test
