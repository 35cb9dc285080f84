// The micro ZAP's block and its index.
#include "fs/object/zap_micro.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/support/seed.h"
#include "vdev/base/on_disk.h"

namespace zuse::object::zap {
namespace {

using Block = std::vector<std::byte>;

TEST(MicroTest, LayoutIsThatOfTheFormat) {
  Block block(1024);
  micro_initialise(block, 0x1bf5f6a1d, 0);
  micro_set(block, 2, {0x1122334455667788, 3, "config"});
  EXPECT_EQ(load_at<std::uint64_t>(block, 0, kHostOrder), 0x8000000000000003U);
  EXPECT_EQ(load_at<std::uint64_t>(block, 8, kHostOrder), 0x1bf5f6a1dU);
  EXPECT_EQ(load_at<std::uint64_t>(block, 192, kHostOrder), 0x1122334455667788U);
  EXPECT_EQ(load_at<std::uint32_t>(block, 200, kHostOrder), 3U);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(block.data()) + 206), "config");
  micro_clear(block, 2);
  EXPECT_TRUE(std::all_of(block.begin() + 24, block.end(),
                          [](std::byte byte) { return byte == std::byte{0}; }));
}

TEST(MicroTest, EitherByteOrderReadsTheSame) {
  Block block(512);
  micro_initialise(block, 77, kFoldCase);
  micro_set(block, 1, {42, 1, "answer"});
  Block foreign = block;
  for (const std::size_t at : {0, 8, 16, 128}) {
    std::reverse(foreign.begin() + static_cast<std::ptrdiff_t>(at),
                 foreign.begin() + static_cast<std::ptrdiff_t>(at) + 8);
  }
  std::reverse(foreign.begin() + 136, foreign.begin() + 140);
  const auto micro = Micro::open(foreign);
  ASSERT_TRUE(micro);
  EXPECT_EQ(micro->rule().salt, 77U);
  EXPECT_EQ(micro->rule().normalization, kFoldCase);
  const auto slot = micro->slot(1);
  ASSERT_TRUE(slot && *slot);
  EXPECT_EQ((*slot)->value, 42U);
  EXPECT_EQ((*slot)->cd, 1U);
  micro_to_host(foreign);
  EXPECT_EQ(foreign, block);
}

TEST(MicroTest, OtherBlocksAreRefused) {
  Block block(512);
  EXPECT_FALSE(Micro::open(block));
  micro_initialise(block, 1, 0);
  EXPECT_TRUE(Micro::open(block));
  EXPECT_FALSE(Micro::open(std::span(block).first(511)));
  EXPECT_FALSE(Micro::open(std::span(block).first(64)));
  EXPECT_FALSE(Micro::open({}));
}

TEST(MicroTest, ANameWithoutAnEndIsCorrupt) {
  Block block(512);
  micro_initialise(block, 1, 0);
  std::fill(block.begin() + 64 + 14, block.begin() + 128, std::byte{'x'});
  const auto index = MicroIndex::build(*Micro::open(block));
  ASSERT_FALSE(index);
  EXPECT_EQ(index.error().code(), Errc::corrupt);
}

TEST(MicroIndexTest, FindsEveryNameAfterManyChanges) {
  SCOPED_TRACE(test::rerun());
  std::mt19937_64 rng(test::seed());
  Block block(65536);
  micro_initialise(block, rng() | 1U, 0);
  const Micro micro = *Micro::open(block);
  MicroIndex index = *MicroIndex::build(micro);
  std::map<std::string, std::uint64_t> model;
  for (int step = 0; step < 5000; ++step) {
    const std::string name = "n" + std::to_string(rng() % 1500);
    const Key key = *make_key(name, micro.rule());
    const auto found = *index.find(micro, key);
    ASSERT_EQ(found.has_value(), model.contains(name)) << name;
    if (found) {
      micro_clear(block, found->slot);
      index.erase(*found);
      model.erase(name);
    } else if (const auto slot = index.free_slot()) {
      const std::uint32_t cd = index.free_cd(key.hash);
      micro_set(block, *slot, {rng(), cd, name});
      index.insert({key.hash, cd, *slot});
      model[name] = *slot;
    }
    ASSERT_EQ(index.size(), model.size());
  }
  const MicroIndex again = *MicroIndex::build(micro);
  ASSERT_EQ(again.size(), index.size());
  for (std::size_t i = 0; i < again.size(); ++i) {
    EXPECT_EQ(again.entries()[i].slot, index.entries()[i].slot);
    EXPECT_EQ(again.entries()[i].hash, index.entries()[i].hash);
  }
}

TEST(MicroIndexTest, EqualHashesGetTheLowestFreeDifferentiator) {
  MicroIndex index = [] {
    Block block(1024);
    micro_initialise(block, 1, 0);
    return *MicroIndex::build(*Micro::open(block));
  }();
  for (std::uint32_t cd = 0; cd < 4; ++cd) {
    EXPECT_EQ(index.free_cd(0x10), cd);
    index.insert({0x10, cd, *index.free_slot()});
  }
  EXPECT_EQ(index.same_hash(0x10), 4U);
  index.erase({0x10, 1, 1});
  EXPECT_EQ(index.free_cd(0x10), 1U);
  EXPECT_EQ(index.free_cd(0x20), 0U);
}

TEST(MicroIndexTest, GrowingGivesMoreSlotsAndKeepsTheOld) {
  Block block(512);
  micro_initialise(block, 5, 0);
  MicroIndex index = *MicroIndex::build(*Micro::open(block));
  for (std::uint32_t i = 0; i < 7; ++i) {
    index.insert({i, 0, *index.free_slot()});
  }
  EXPECT_FALSE(index.free_slot());
  index.grow(15);
  EXPECT_EQ(index.free_slot(), 7U);
  block.resize(1024);
  EXPECT_TRUE(index.matches(*Micro::open(block)));
}

}  // namespace
}  // namespace zuse::object::zap
