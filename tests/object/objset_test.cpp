// Object sets and dnodes, claim by claim.
#include <algorithm>
#include <cstring>
#include <set>

#include "fs/object/zap.h"
#include "tests/object/fixture.h"

namespace zuse::test {
namespace {

using format::ObjectType;
using object::DnodeRef;
using object::NewObject;
using object::Objset;
using object::Tx;

class ObjsetSyncTest : public ObjsetTest {};

TEST_F(ObjsetSyncTest, ANewObjectSetIsWrittenByItsFirstSyncEvenIfEmpty) {
  auto objset = create();
  EXPECT_TRUE(objset->dirty(4));
  const Walked walked = sync(*objset, 4);
  EXPECT_FALSE(objset->dirty(4));
  EXPECT_EQ(walked.objset.type, format::ObjsetType::zfs);
  EXPECT_EQ(walked.objset.meta_dnode.levels, 6);
  EXPECT_EQ(objset->root().type, ObjectType::objset);
  EXPECT_EQ(objset->root().lsize, format::kObjsetSizeV2);
  EXPECT_EQ(objset->object_count(), 0U);
}

TEST_F(ObjsetSyncTest, AMetaObjectSetStartsWithOneLevelAndGrows) {
  auto objset = create(format::ObjsetType::meta);
  Tx tx = Tx::syncing(4);
  NewObject spec = kFile;
  spec.object = 1;
  ASSERT_OK(objset->allocate(tx, spec));
  EXPECT_EQ(sync(*objset, 4).objset.meta_dnode.levels, 1);
  Tx later = Tx::syncing(5);
  spec.object = 5000;
  ASSERT_OK(objset->allocate(later, spec));
  const Walked walked = sync(*objset, 5);
  EXPECT_EQ(walked.objset.meta_dnode.levels, 2);
  EXPECT_TRUE(walked.dnodes.contains(1));
  EXPECT_TRUE(walked.dnodes.contains(5000));
  EXPECT_EQ(objset->object_count(), 2U);
}

TEST_F(ObjsetSyncTest, WhatIsSyncedIsThereAfterOpening) {
  auto objset = create();
  Tx tx = Tx::syncing(4);
  auto file = objset->allocate(tx, kFile);
  ASSERT_OK(file);
  const auto bytes = pattern(rng_, 1'000'000);
  ASSERT_OK((*file)->write(tx, 12345, bytes));
  const auto bonus = pattern(rng_, 100);
  ASSERT_OK((*file)->set_bonus(tx, bonus));
  const auto spill = pattern(rng_, 1024);
  ASSERT_OK((*file)->set_spill(tx, spill));
  const Walked walked = sync(*objset, 4);
  const auto on_disk = phys_of(walked, (*file)->object());
  EXPECT_EQ(on_disk.used_bytes(), (*file)->used_bytes());
  EXPECT_GT(on_disk.used_bytes(), 1'000'000U);
  EXPECT_FALSE((*file)->dirty());

  auto again = Objset::open(context(true), objset->root());
  ASSERT_OK(again);
  auto held = (*again)->hold((*file)->object());
  ASSERT_OK(held);
  std::vector<std::byte> read(bytes.size() + 20000);
  ASSERT_OK((*held)->read(0, read));
  EXPECT_TRUE(std::all_of(read.begin(), read.begin() + 12345,
                          [](std::byte b) { return b == std::byte{0}; }));
  EXPECT_EQ(std::memcmp(read.data() + 12345, bytes.data(), bytes.size()), 0);
  EXPECT_EQ((*held)->bonus(), bonus);
  auto attributes = (*held)->spill();
  ASSERT_OK(attributes);
  ASSERT_NE(*attributes, nullptr);
  EXPECT_EQ(std::memcmp((*attributes)->data(), spill.data(), spill.size()), 0);
}

TEST_F(ObjsetSyncTest, WritingWholeBlocksAndAppendingReadsNoData) {
  auto objset = create();
  Tx tx = Tx::syncing(4);
  auto file = objset->allocate(tx, kFile);
  ASSERT_OK(file);
  ASSERT_OK((*file)->write(tx, 0, pattern(rng_, 64 * 4096)));
  sync(*objset, 4);
  store_.drop_cache();
  const auto before = store_.data_reads();
  Tx later = Tx::syncing(5);
  ASSERT_OK((*file)->write(later, 4096, pattern(rng_, 16 * 4096)));
  ASSERT_OK((*file)->write(later, 64 * 4096, pattern(rng_, 100)));
  ASSERT_OK((*file)->write(later, 64 * 4096 + 100, pattern(rng_, 100)));
  EXPECT_EQ(store_.data_reads(), before);
  ASSERT_OK((*file)->write(later, 1, pattern(rng_, 100)));
  EXPECT_EQ(store_.data_reads(), before + 1);
  store_.set_read_hook(nullptr);
  sync(*objset, 5);
}

TEST_F(ObjsetSyncTest, AGroupSeesNothingOfALaterOne) {
  auto objset = create();
  Tx four = Tx::syncing(4);
  auto file = objset->allocate(four, kFile);
  ASSERT_OK(file);
  const auto old = pattern(rng_, 4096 * 3);
  ASSERT_OK((*file)->write(four, 0, old));
  Tx five = Tx::syncing(5);
  const auto changed = pattern(rng_, 10);
  ASSERT_OK((*file)->write(five, 4090, changed));
  ASSERT_OK((*file)->free_range(five, 8192, object::kToEnd));
  ASSERT_OK((*file)->set_bonus(five, changed));
  ASSERT_OK(objset->sync(4, 1));
  {
    auto snapshot = Objset::open(context(true), objset->root());
    ASSERT_OK(snapshot);
    auto held = (*snapshot)->hold((*file)->object());
    ASSERT_OK(held);
    std::vector<std::byte> read(old.size());
    ASSERT_OK((*held)->read(0, read));
    EXPECT_EQ(read, old);
    EXPECT_TRUE((*held)->bonus().empty());
    EXPECT_EQ((*held)->max_block(), 2U);
  }
  std::vector<std::byte> expected = old;
  std::memcpy(expected.data() + 4090, changed.data(), changed.size());
  std::fill(expected.begin() + 8192, expected.end(), std::byte{0});
  std::vector<std::byte> read(old.size());
  ASSERT_OK((*file)->read(0, read));
  EXPECT_EQ(read, expected);
  const Walked walked = sync(*objset, 5);
  ASSERT_OK((*file)->read(0, read));
  EXPECT_EQ(read, expected);
  EXPECT_EQ(phys_of(walked, (*file)->object()).max_block, 1U);
}

TEST_F(ObjsetSyncTest, AChangeThatComesLateTakesTheNewerOnesAlong) {
  auto objset = create();
  Tx four = Tx::syncing(4);
  auto file = objset->allocate(four, kFile);
  ASSERT_OK(file);
  auto expected = pattern(rng_, 4096 * 8);
  ASSERT_OK((*file)->write(four, 0, expected));
  sync(*objset, 4);
  Tx five = Tx::syncing(5);
  Tx six = Tx::syncing(6);
  const auto write = [&](Tx& tx, std::uint64_t offset) {
    const auto bytes = pattern(rng_, 100);
    std::memcpy(expected.data() + offset, bytes.data(), bytes.size());
    ASSERT_OK((*file)->write(tx, offset, bytes));
  };
  write(five, 0);
  write(six, 50);
  ASSERT_OK((*file)->free_range(six, 4096, 4096));
  std::fill(expected.begin() + 4096, expected.begin() + 8192, std::byte{0});
  write(six, 9000);
  write(five, 75);     // late: block 0
  write(five, 20000);  // and block 4
  write(six, 80);
  std::vector<std::byte> read(expected.size());
  ASSERT_OK((*file)->read(0, read));
  EXPECT_EQ(read, expected);
  sync(*objset, 5);
  ASSERT_OK((*file)->read(0, read));
  EXPECT_EQ(read, expected);
  sync(*objset, 6);
  auto again = Objset::open(context(true), objset->root());
  ASSERT_OK(again);
  auto held = (*again)->hold((*file)->object());
  ASSERT_OK(held);
  ASSERT_OK((*held)->read(0, read));
  EXPECT_EQ(read, expected);
}

TEST_F(ObjsetSyncTest, ScatteredWritesAreSyncedInWaves) {
  auto objset = create();
  Tx tx = Tx::syncing(4);
  NewObject spec = kFile;
  spec.block_size = 512;
  spec.indirect_shift = 17;
  auto file = objset->allocate(tx, spec);
  ASSERT_OK(file);
  ASSERT_OK((*file)->set_spill(tx, pattern(rng_, 512)));
  std::map<std::uint64_t, std::vector<std::byte>> expected;
  for (std::uint64_t i = 0; i < 300; ++i) {  // more level-1 blocks than one wave takes
    const std::uint64_t offset = (i * 1024 + rng_() % 1024) * 512;
    expected[offset] = pattern(rng_, 700);
    ASSERT_OK((*file)->write(tx, offset, expected[offset]));
  }
  sync(*objset, 4);
  Tx later = Tx::syncing(5);
  ASSERT_OK((*file)->free_range(later, 100 * 1024 * 512, 50 * 1024 * 512));
  ASSERT_OK((*file)->write(later, 120 * 1024 * 512, pattern(rng_, 512)));
  for (auto& [offset, bytes] : expected) {
    if (offset >= 100 * 1024 * 512 && offset < 151 * 1024 * 512) {
      continue;
    }
    bytes = pattern(rng_, 700);
    ASSERT_OK((*file)->write(later, offset, bytes));
  }
  sync(*objset, 5);
  store_.drop_cache();
  for (const auto& [offset, bytes] : expected) {
    if (offset >= 99 * 1024 * 512 && offset < 151 * 1024 * 512) {
      continue;
    }
    std::vector<std::byte> read(bytes.size());
    ASSERT_OK((*file)->read(offset, read));
    EXPECT_EQ(read, bytes) << offset;
  }
}

TEST_F(ObjsetSyncTest, AnObjectThatIsFreedIsGoneAndItsHoldersHearOfIt) {
  auto objset = create();
  Tx tx = Tx::syncing(4);
  auto file = objset->allocate(tx, kFile);
  ASSERT_OK(file);
  const std::uint64_t number = (*file)->object();
  ASSERT_OK((*file)->write(tx, 0, pattern(rng_, 500'000)));
  ASSERT_OK((*file)->set_spill(tx, pattern(rng_, 512)));
  sync(*objset, 4);
  Tx later = Tx::syncing(5);
  ASSERT_OK(objset->free_object(later, number));
  EXPECT_FALSE((*file)->allocated());
  std::vector<std::byte> read(10);
  EXPECT_EQ((*file)->read(0, read).error().code(), Errc::stale);
  EXPECT_EQ(objset->hold(number).error().code(), Errc::not_found);
  EXPECT_EQ(objset->next_object(0).error().code(), Errc::not_found);
  NewObject same = kFile;
  same.object = number;
  EXPECT_EQ(objset->allocate(later, same).error().code(), Errc::busy);
  const Walked walked = sync(*objset, 5);
  EXPECT_TRUE(walked.dnodes.empty());
  EXPECT_EQ(objset->object_count(), 0U);
  EXPECT_EQ(objset->hold(number).error().code(), Errc::not_found);
  Tx last = Tx::syncing(6);
  auto reborn = objset->allocate(last, same);
  ASSERT_OK(reborn);
  EXPECT_EQ((*file)->read(0, read).error().code(), Errc::stale);
  ASSERT_OK((*reborn)->read(0, read));
}

TEST_F(ObjsetSyncTest, AnObjectMadeAndFreedInOneGroupLeavesNothing) {
  auto objset = create();
  Tx tx = Tx::syncing(4);
  auto file = objset->allocate(tx, kFile);
  ASSERT_OK(file);
  ASSERT_OK((*file)->write(tx, 0, pattern(rng_, 50'000)));
  ASSERT_OK(objset->free_object(tx, (*file)->object()));
  const Walked walked = sync(*objset, 4);
  EXPECT_TRUE(walked.dnodes.empty());
  EXPECT_EQ(walked.addresses.size(), 2U);  // the two copies of the objset block
}

TEST_F(ObjsetSyncTest, NumbersAreUniqueAndFoundInOrder) {
  auto objset = create();
  std::set<std::uint64_t> numbers;
  for (std::uint64_t txg = 4; txg < 8; ++txg) {
    Tx tx = Tx::syncing(txg);
    for (int i = 0; i < 100; ++i) {
      auto file = objset->allocate(tx, kFile);
      ASSERT_OK(file);
      EXPECT_TRUE(numbers.insert((*file)->object()).second);
      EXPECT_NE((*file)->object(), 0U);
    }
    for (int i = 0; i < 30; ++i) {
      auto it = numbers.begin();
      std::advance(it, static_cast<std::ptrdiff_t>(rng_() % numbers.size()));
      ASSERT_OK(objset->free_object(tx, *it));
      numbers.erase(it);
    }
    std::set<std::uint64_t> found;
    for (auto next = objset->next_object(0); next; next = objset->next_object(*next)) {
      EXPECT_TRUE(found.insert(*next).second);
    }
    EXPECT_EQ(found, numbers);
    const Walked walked = sync(*objset, txg);
    EXPECT_EQ(walked.dnodes.size(), numbers.size());
    EXPECT_EQ(objset->object_count(), numbers.size());
    found.clear();
    for (auto next = objset->next_object(0); next; next = objset->next_object(*next)) {
      found.insert(*next);
    }
    EXPECT_EQ(found, numbers);
  }
}

TEST_F(ObjsetSyncTest, LargeDnodesKeepTheirSlotsToThemselves) {
  auto objset = create();
  Tx tx = Tx::syncing(4);
  NewObject large = kFile;
  large.slots = 3;
  large.bonus_type = ObjectType::none;
  std::vector<DnodeRef> made;
  for (int i = 0; i < 30; ++i) {
    auto dnode = objset->allocate(tx, i % 2 == 0 ? large : kFile);
    ASSERT_OK(dnode);
    made.push_back(*dnode);
    if (i % 2 == 0) {
      EXPECT_LE((*dnode)->object() % 32 + 3, 32U);
      EXPECT_EQ(objset->hold((*dnode)->object() + 1).error().code(), Errc::exists);
    }
  }
  const std::uint64_t first = made[0]->object();
  made.clear();
  EXPECT_EQ(sync(*objset, 4).dnodes.size(), 30U);
  EXPECT_EQ(objset->object_count(), 30U);
  auto held = objset->hold(first);
  ASSERT_OK(held);
  EXPECT_EQ((*held)->slots(), 3U);
  EXPECT_EQ(objset->hold(first + 2).error().code(), Errc::exists);
  NewObject inside = kFile;
  inside.object = first + 1;
  Tx later = Tx::syncing(5);
  EXPECT_EQ(objset->allocate(later, inside).error().code(), Errc::exists);
  ASSERT_OK(objset->free_object(later, first));
  sync(*objset, 5);
  EXPECT_EQ(objset->hold(first + 2).error().code(), Errc::not_found);
}

TEST_F(ObjsetSyncTest, TheFirstBlockGrowsWithItsContents) {
  auto objset = create();
  Tx tx = Tx::syncing(4);
  NewObject spec = kFile;
  spec.block_size = 0;
  auto file = objset->allocate(tx, spec);
  ASSERT_OK(file);
  std::vector<std::byte> expected;
  std::uint64_t txg = 4;
  for (std::uint32_t size = 512; size <= 8192; size += 512, ++txg) {
    Tx now = Tx::syncing(txg);
    ASSERT_OK((*file)->set_block_size(now, size));
    const auto more = pattern(rng_, 512);
    ASSERT_OK((*file)->write(now, size - 512, more));
    expected.insert(expected.end(), more.begin(), more.end());
    std::vector<std::byte> read(expected.size());
    ASSERT_OK((*file)->read(0, read));
    EXPECT_EQ(read, expected);
    EXPECT_EQ(phys_of(sync(*objset, txg), (*file)->object()).block_size, size);
    ASSERT_OK((*file)->read(0, read));
    EXPECT_EQ(read, expected);
  }
  Tx now = Tx::syncing(txg);
  ASSERT_OK((*file)->write(now, 8192, expected));
  EXPECT_EQ((*file)->set_block_size(now, 16384).error().code(), Errc::invalid);
  EXPECT_EQ((*file)->set_block_size(now, 1000).error().code(), Errc::invalid);
}

TEST_F(ObjsetSyncTest, ASecondBlockNeedsAPowerOfTwo) {
  auto objset = create();
  Tx tx = Tx::syncing(4);
  NewObject spec = kFile;
  spec.block_size = 1536;
  auto file = objset->allocate(tx, spec);
  ASSERT_OK(file);
  ASSERT_OK((*file)->write(tx, 0, pattern(rng_, 1536)));
  EXPECT_EQ((*file)->write(tx, 1536, pattern(rng_, 1)).error().code(), Errc::invalid);
  EXPECT_EQ((*file)->edit_block(tx, 1).error().code(), Errc::invalid);
  EXPECT_EQ((*file)->write(tx, ~std::uint64_t{0} - 5, pattern(rng_, 1)).error().code(),
            Errc::too_large);
}

TEST_F(ObjsetSyncTest, PunchedBlocksBecomeHolesThatKeepTheirBirth) {
  auto objset = create();
  Tx tx = Tx::syncing(4);
  auto file = objset->allocate(tx, kFile);
  ASSERT_OK(file);
  ASSERT_OK((*file)->write(tx, 0, pattern(rng_, 200 * 4096)));
  sync(*objset, 4);
  Tx later = Tx::syncing(5);
  ASSERT_OK((*file)->free_range(later, 0, 32 * 4096));  // all of the first indirect block
  Walked walked = sync(*objset, 5);
  const auto phys = phys_of(walked, (*file)->object());
  ASSERT_EQ(phys.levels, 3);
  auto top = store_.read(phys.blkptr[0], {});
  ASSERT_OK(top);
  format::BlkptrPhys slot;
  std::memcpy(&slot, (*top)->data(), sizeof slot);
  const auto hole = format::decode(slot, kHostOrder);
  EXPECT_TRUE(hole.is_hole());
  EXPECT_EQ(hole.logical_birth, 5U);
  EXPECT_EQ(hole.level, 1);
  EXPECT_EQ(hole.lsize, 4096U);
  // A block that is written into the hole brings the others back as holes of that birth.
  Tx last = Tx::syncing(6);
  ASSERT_OK((*file)->write(last, 4096, pattern(rng_, 4096)));
  walked = sync(*objset, 6);
  top = store_.read(phys_of(walked, (*file)->object()).blkptr[0], {});
  ASSERT_OK(top);
  std::memcpy(&slot, (*top)->data(), sizeof slot);
  auto first = store_.read(format::decode(slot, kHostOrder), {});
  ASSERT_OK(first);
  std::memcpy(&slot, (*first)->data(), sizeof slot);
  const auto child = format::decode(slot, kHostOrder);
  EXPECT_TRUE(child.is_hole());
  EXPECT_EQ(child.logical_birth, 5U);
  EXPECT_EQ(child.level, 0);
  EXPECT_EQ(child.lsize, 4096U);
}

TEST_F(ObjsetSyncTest, LatePassesOfOneGroupRewriteInPlace) {
  policy_.metadata_copies = 3;
  policy_.data_copies = 3;
  id_ = 0;
  auto objset = create(format::ObjsetType::meta);
  Tx tx = Tx::syncing(4);
  NewObject spec{.type = ObjectType::object_array, .block_size = 4096};
  auto array = objset->allocate(tx, spec);
  ASSERT_OK(array);
  std::size_t blocks = 0;
  for (unsigned pass = 1; pass < 10; ++pass) {
    ASSERT_OK((*array)->write(tx, 8 * pass, pattern(rng_, 8)));
    EXPECT_TRUE(objset->dirty(4));
    sync(*objset, 4, pass);
    EXPECT_FALSE(objset->dirty(4));
    if (pass > object::kNoCompressPass) {
      EXPECT_EQ(store_.live().size(), blocks);
    }
    blocks = store_.live().size();
    std::vector<std::byte> read(8 * pass + 8);
    ASSERT_OK((*array)->read(0, read));
    EXPECT_NE(read.back(), std::byte{0});
  }
}

TEST_F(ObjsetSyncTest, AFreedDnodeBlockIsAHoleInAnyPass) {
  auto objset = create(format::ObjsetType::meta);
  Tx tx = Tx::syncing(4);
  NewObject spec = kFile;
  spec.object = 100;
  ASSERT_OK(objset->allocate(tx, spec));
  spec.object = 5;
  ASSERT_OK(objset->allocate(tx, spec));
  sync(*objset, 4, 1);
  Tx later = Tx::syncing(5);
  ASSERT_OK(objset->free_object(later, 100));
  sync(*objset, 5, 7);
}

TEST_F(ObjsetSyncTest, BonusAndSpillShareTheirRoom) {
  auto objset = create();
  Tx tx = Tx::syncing(4);
  auto file = objset->allocate(tx, kFile);
  ASSERT_OK(file);
  EXPECT_EQ((*file)->bonus_capacity(), 320U);
  ASSERT_OK((*file)->set_bonus(tx, pattern(rng_, 320)));
  EXPECT_EQ((*file)->set_bonus(tx, pattern(rng_, 321)).error().code(), Errc::invalid);
  EXPECT_EQ((*file)->set_spill(tx, pattern(rng_, 512)).error().code(), Errc::invalid);
  ASSERT_OK((*file)->set_bonus(tx, pattern(rng_, 192)));
  ASSERT_OK((*file)->set_spill(tx, pattern(rng_, 512)));
  EXPECT_EQ((*file)->set_bonus(tx, pattern(rng_, 193)).error().code(), Errc::invalid);
  EXPECT_EQ((*file)->set_spill(tx, pattern(rng_, 500)).error().code(), Errc::invalid);
  EXPECT_NE(phys_of(sync(*objset, 4), (*file)->object()).flags & format::kDnodeSpill, 0);
  Tx later = Tx::syncing(5);
  ASSERT_OK((*file)->remove_spill(later));
  auto none = (*file)->spill();
  ASSERT_OK(none);
  EXPECT_EQ(*none, nullptr);
  ASSERT_OK((*file)->set_bonus(later, pattern(rng_, 320)));
  const Walked walked = sync(*objset, 5);
  EXPECT_EQ(phys_of(walked, (*file)->object()).flags & format::kDnodeSpill, 0);
  EXPECT_EQ((*file)->used_bytes(), 0U);
}

TEST_F(ObjsetSyncTest, FlagsAndTheLogHeaderGoToDisk) {
  auto objset = create();
  Tx tx = Tx::syncing(4);
  objset->set_flags(tx, 3);
  format::ZilHeader header;
  header.claim_txg = 17;
  objset->set_zil_header(tx, header);
  sync(*objset, 4);
  auto again = Objset::open(context(), objset->root());
  ASSERT_OK(again);
  EXPECT_EQ((*again)->flags(), 3U);
  EXPECT_EQ((*again)->zil_header().claim_txg, 17U);
}

TEST_F(ObjsetSyncTest, AReaderOfAReplacedTreeTriesTheNewOne) {
  auto objset = create();
  Tx tx = Tx::syncing(4);
  auto file = objset->allocate(tx, kFile);
  ASSERT_OK(file);
  const auto old = pattern(rng_, 40 * 4096);
  ASSERT_OK((*file)->write(tx, 0, old));
  sync(*objset, 4);
  Tx later = Tx::syncing(5);
  const auto bytes = pattern(rng_, 40 * 4096);
  ASSERT_OK((*file)->write(later, 0, bytes));
  store_.drop_cache();
  // As if, between choosing the tree and reading its blocks, the group went to disk and the space
  // of the old blocks was reused: the first read of data fails, and the second must not be of the
  // old tree.
  bool first = true;
  ASSERT_OK(objset->sync(5, 1));
  store_.release(5);
  store_.drop_cache();
  store_.set_read_hook([&](const pool::Bookmark&) -> Result<void> {
    if (std::exchange(first, false)) {
      return fail(Errc::checksum, "reused");
    }
    return {};
  });
  std::vector<std::byte> read(bytes.size());
  // Nothing has changed since this read began: its error stands.
  EXPECT_EQ((*file)->read(0, read).error().code(), Errc::checksum);
  store_.set_read_hook(nullptr);
  ASSERT_OK((*file)->read(0, read));
  EXPECT_EQ(read, bytes);
}

TEST_F(ObjsetSyncTest, AWriterHearsOfAnIndirectBlockThatCannotBeRead) {
  auto objset = create();
  Tx tx = Tx::syncing(4);
  auto file = objset->allocate(tx, kFile);
  ASSERT_OK(file);
  ASSERT_OK((*file)->write(tx, 0, pattern(rng_, 200 * 4096)));
  sync(*objset, 4);
  store_.drop_cache();
  store_.set_read_hook([](const pool::Bookmark& at) -> Result<void> {
    if (at.level == 1 && at.block == 2) {
      return fail(Errc::checksum, "rotten");
    }
    return {};
  });
  Tx later = Tx::syncing(5);
  EXPECT_EQ((*file)->write(later, 70 * 4096, pattern(rng_, 4096)).error().code(), Errc::checksum);
  ASSERT_OK((*file)->write(later, 10 * 4096, pattern(rng_, 4096)));
  ASSERT_OK(objset->sync(5, 1));
  // Freeing what cannot be walked loses its space, not the group.
  Tx last = Tx::syncing(6);
  ASSERT_OK(objset->free_object(last, (*file)->object()));
  ASSERT_OK(objset->sync(6, 1));
  EXPECT_EQ(objset->object_count(), 0U);
}

TEST_F(ObjsetSyncTest, AFailedWriteFailsTheGroup) {
  auto objset = create();
  Tx tx = Tx::syncing(4);
  auto file = objset->allocate(tx, kFile);
  ASSERT_OK(file);
  ASSERT_OK((*file)->write(tx, 0, pattern(rng_, 4096)));
  store_.set_write_hook(
      [](const pool::Bookmark&) -> Result<void> { return fail(Errc::no_space, "full"); });
  EXPECT_EQ(objset->sync(4, 1).error().code(), Errc::no_space);
}

TEST_F(ObjsetSyncTest, SequentialReadersArePrefetched) {
  auto objset = create();
  Tx tx = Tx::syncing(4);
  NewObject spec = kFile;
  spec.block_size = 131072;
  auto file = objset->allocate(tx, spec);
  ASSERT_OK(file);
  const auto bytes = pattern(rng_, 64 * 131072);
  ASSERT_OK((*file)->write(tx, 0, bytes));
  sync(*objset, 4);
  store_.drop_cache();
  std::vector<std::byte> read(131072);
  for (std::size_t at = 0; at < bytes.size(); at += read.size()) {
    ASSERT_OK((*file)->read(at, read));
    ASSERT_EQ(std::memcmp(read.data(), bytes.data() + at, read.size()), 0);
    if (at == 131072) {
      // The second read has set it off; wait for it rather than race it.
      while (store_.prefetches() == 0) {
        std::this_thread::yield();
      }
    }
  }
  EXPECT_GT(store_.prefetches(), 0U);
}

TEST_F(ObjsetSyncTest, HostileRootsAreRefused) {
  auto objset = create();
  sync(*objset, 4);
  format::Blkptr wrong = objset->root();
  wrong.type = ObjectType::plain_file;
  EXPECT_EQ(Objset::open(context(true), wrong).error().code(), Errc::corrupt);
  wrong = objset->root();
  wrong.checksum[0] ^= 1;
  EXPECT_EQ(Objset::open(context(true), wrong).error().code(), Errc::checksum);
  auto empty = Objset::open(context(true), format::Blkptr{});
  ASSERT_OK(empty);
  EXPECT_EQ((*empty)->next_object(0).error().code(), Errc::not_found);
}

TEST_F(ObjsetSyncTest, ShapesThatNoDnodeCanHaveAreRefused) {
  auto objset = create();
  Tx tx = Tx::syncing(4);
  const auto refused = [&](auto change) {
    NewObject spec = kFile;
    change(spec);
    const auto made = objset->allocate(tx, spec);
    return !made && made.error().code() == Errc::invalid;
  };
  EXPECT_TRUE(refused([](NewObject& s) { s.type = ObjectType::none; }));
  EXPECT_TRUE(refused([](NewObject& s) { s.slots = 0; }));
  EXPECT_TRUE(refused([](NewObject& s) { s.slots = 33; }));
  EXPECT_TRUE(refused([](NewObject& s) { s.bonus_size = 321; }));
  EXPECT_TRUE(refused([](NewObject& s) { s.block_size = (16U << 20U) + 512; }));
  EXPECT_TRUE(refused([](NewObject& s) { s.object = std::uint64_t{1} << 48U; }));
}

TEST_F(ObjsetSyncTest, AccountingFollowsEveryObject) {
  policy_.user_accounting = true;
  policy_.user_object_accounting = true;
  policy_.project_accounting = true;
  owner_of_ = [](ObjectType type,
                 std::span<const std::byte> bonus) -> std::optional<object::ObjectOwner> {
    if (type != ObjectType::sa || bonus.size() < 3) {
      return std::nullopt;
    }
    return object::ObjectOwner{.user = static_cast<std::uint64_t>(bonus[0]),
                               .group = static_cast<std::uint64_t>(bonus[1]),
                               .project = static_cast<std::uint64_t>(bonus[2])};
  };
  auto objset = create();
  EXPECT_EQ(objset->special(-1), nullptr);
  std::map<std::uint64_t, std::array<std::uint64_t, 3>> owners;  // object -> ids
  for (std::uint64_t txg = 4; txg < 20; ++txg) {
    Tx tx = Tx::syncing(txg);
    for (int i = 0; i < 10; ++i) {
      std::uint64_t number = 0;
      if (owners.empty() || rng_() % 3 == 0) {
        auto file = objset->allocate(tx, kFile);
        ASSERT_OK(file);
        number = (*file)->object();
      } else {
        auto it = owners.begin();
        std::advance(it, static_cast<std::ptrdiff_t>(rng_() % owners.size()));
        number = it->first;
      }
      if (rng_() % 5 == 0) {
        ASSERT_OK(objset->free_object(tx, number));
        owners.erase(number);
        continue;
      }
      const std::array<std::uint64_t, 3> ids{rng_() % 20, rng_() % 20, rng_() % 5};
      auto file = objset->hold(number);
      ASSERT_OK(file);
      std::vector<std::byte> bonus;
      for (const std::uint64_t id : ids) {
        bonus.push_back(static_cast<std::byte>(id));
      }
      ASSERT_OK((*file)->set_bonus(tx, bonus));
      ASSERT_OK((*file)->write(tx, rng_() % 100'000, pattern(rng_, rng_() % 30'000)));
      owners[number] = ids;
    }
    const Walked walked = sync(*objset, txg);
    std::array<std::map<std::string, std::uint64_t>, 3> expected;
    for (const auto& [number, ids] : owners) {
      const auto phys = phys_of(walked, number);
      EXPECT_EQ(phys.flags & 10, 10);
      for (std::size_t kind = 0; kind < 3; ++kind) {
        const std::string key = object::Zap::hex_key(ids[kind]);
        expected[kind][key] += phys.used_bytes() + 512;
        expected[kind]["obj-" + key] += 1;
      }
    }
    for (std::size_t kind = 0; kind < 3; ++kind) {
      const DnodeRef dnode = objset->special(-1 - static_cast<std::int64_t>(kind));
      if (!dnode) {
        EXPECT_TRUE(expected[kind].empty());
        continue;
      }
      std::map<std::string, std::uint64_t> found;
      ASSERT_OK(object::Zap(dnode).for_each([&](const object::ZapEntry& entry) -> Result<void> {
        found[entry.name] = entry.value.integers.at(0);
        return {};
      }));
      EXPECT_EQ(found, expected[kind]);
    }
  }
  EXPECT_EQ(objset->root().lsize, format::kObjsetSizeV3);
}

}  // namespace
}  // namespace zuse::test
