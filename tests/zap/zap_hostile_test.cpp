// ZAPs as others left them: in the other byte order, in the middle of growing, or damaged.
#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "fs/object/zap_fat.h"
#include "fs/object/zap_micro.h"
#include "tests/support/seed.h"
#include "tests/zap/world.h"
#include "vdev/base/on_disk.h"
#include "vdev/base/units.h"

namespace zuse::object {
namespace {

using test::World;

// Reverses integers in place, wherever the formats (page 06 section 9) have one.
void swap_at(std::span<std::byte> block, std::size_t at, std::size_t size) {
  std::ranges::reverse(block.subspan(at, size));
}

void make_foreign(std::span<std::byte> block, bool table_or_header) {
  if (table_or_header) {
    for (std::size_t at = 0; at < block.size(); at += 8) {
      swap_at(block, at, 8);
    }
    return;
  }
  for (const std::size_t at : {0, 8, 16}) {
    swap_at(block, at, 8);
  }
  swap_at(block, 24, 4);
  const std::size_t chunks = 48 + block.size() / 16;
  for (std::size_t at = 28; at < 36; at += 2) {
    swap_at(block, at, 2);
  }
  for (std::size_t at = 48; at < chunks; at += 2) {
    swap_at(block, at, 2);
  }
  for (std::size_t at = chunks; at < block.size(); at += 24) {
    if (block[at] == std::byte{252}) {
      for (std::size_t field = 2; field < 12; field += 2) {
        swap_at(block, at + field, 2);
      }
      swap_at(block, at + 12, 4);
      swap_at(block, at + 16, 8);
    } else {
      swap_at(block, at + 22, 2);
    }
  }
}

// A fat ZAP of `count` entries with values of `bytes` bytes.
Zap fat_zap(World& world, int count, std::size_t bytes) {
  Zap zap = world.make();
  Tx tx = world.tx();
  for (int i = 0; i < count; ++i) {
    const ZapValue value{1, std::vector<std::uint64_t>(bytes, static_cast<unsigned>(i) & 0xffU)};
    EXPECT_TRUE(zap.add_value(tx, "name" + std::to_string(i), value));
  }
  return zap;
}

void expect_entries(const Zap& zap, int count, std::size_t bytes) {
  for (int i = 0; i < count; ++i) {
    const auto value = zap.lookup_value("name" + std::to_string(i));
    ASSERT_TRUE(value) << i << ": " << value.error().what();
    ASSERT_EQ(value->integers, std::vector<std::uint64_t>(bytes, static_cast<unsigned>(i) & 0xffU));
  }
}

TEST(ForeignZapTest, AFatZapOfTheOtherByteOrderIsReadAndChanged) {
  for (const int count : {50, 300}) {  // table inside the header, table of its own
    World world;
    const std::size_t bytes = count == 50 ? 100 : 8000;
    Zap zap = fat_zap(world, count, bytes);
    Tx tx = world.tx();
    const auto first = zap.dnode()->read_block(0);
    const auto header = *zap::decode_fat_header((*first)->span());
    ASSERT_EQ(header.table_block != 0, count == 300);
    for (std::uint64_t block = 0; block <= zap.dnode()->max_block(); ++block) {
      const auto bytes_of = zap.dnode()->edit_block(tx, block);
      ASSERT_TRUE(bytes_of);
      // A block that is neither leaf nor header is the table's; freed ones are zeros.
      const bool leaf = load_at<std::uint64_t>(*bytes_of, 0, kHostOrder) == zap::kBlockLeaf;
      make_foreign(*bytes_of, !leaf);
    }
    Zap::forget(*zap.dnode());
    expect_entries(zap, count, bytes);
    for (int i = 0; i < 400; ++i) {
      ASSERT_TRUE(zap.add(tx, "new" + std::to_string(i), 1));
    }
    const ZapValue large{1, std::vector<std::uint64_t>(8000, 9)};
    for (int i = 0; i < 30; ++i) {
      ASSERT_TRUE(zap.add_value(tx, "large" + std::to_string(i), large));
    }
    ASSERT_TRUE(zap.remove(tx, "new7"));
    expect_entries(zap, count, bytes);
    EXPECT_EQ(*zap.count(), static_cast<std::uint64_t>(count) + 429);
    world.reopen();
    expect_entries(world.open(zap.object()), count, bytes);
  }
}

TEST(ForeignZapTest, AMicroZapOfTheOtherByteOrderIsReadAndChanged) {
  World world;
  Zap zap = world.make();
  Tx tx = world.tx();
  for (std::uint64_t i = 0; i < 20; ++i) {
    ASSERT_TRUE(zap.add(tx, "name" + std::to_string(i), i));
  }
  const auto block = *zap.dnode()->edit_block(tx, 0);
  for (const std::size_t at : {0, 8, 16}) {
    swap_at(block, at, 8);
  }
  for (std::size_t at = 64; at < block.size(); at += 64) {
    swap_at(block, at, 8);
    swap_at(block, at + 8, 4);
  }
  Zap::forget(*zap.dnode());
  for (std::uint64_t i = 0; i < 20; ++i) {
    ASSERT_EQ(*zap.lookup("name" + std::to_string(i)), i);
  }
  ASSERT_TRUE(zap.add(tx, "new", 77));
  ASSERT_TRUE(zap.remove(tx, "name3"));
  EXPECT_EQ(load_at<std::uint64_t>(block, 0, kHostOrder), zap::kBlockMicro);
  EXPECT_EQ(*zap.lookup("new"), 77U);
  EXPECT_EQ(*zap.lookup("name4"), 4U);
  EXPECT_EQ(*zap.count(), 20U);
}

TEST(ForeignZapTest, ADoublingThatAnotherWriterBeganIsFinished) {
  // The salt is drawn anew for each table, and decides how deep it grows: one of more than a block
  // is wanted.
  std::unique_ptr<World> made;
  std::optional<Zap> deep;
  for (int attempt = 0; attempt < 64 && !deep; ++attempt) {
    made = std::make_unique<World>();
    Zap candidate = fat_zap(*made, 300, 8000);
    if (zap::decode_fat_header((*candidate.dnode()->read_block(0))->span())->table_blocks > 1) {
      deep = candidate;
    }
  }
  ASSERT_TRUE(deep);
  World& world = *made;
  Zap zap = *deep;
  Tx tx = world.tx();
  const auto block = *zap.dnode()->edit_block(tx, 0);
  auto header = *zap::decode_fat_header(block);
  ASSERT_GT(header.table_blocks, 1U);
  // The state after one block has been copied.
  header.next_block = header.free_block;
  header.free_block += 2 * header.table_blocks;
  header.blocks_copied = 1;
  zap::encode_fat_header(header, block);
  const Buffer source = Buffer::copy_of((*zap.dnode()->read_block(header.table_block))->span());
  const std::size_t words = source.size() / 8;
  for (std::size_t half = 0; half < 2; ++half) {
    const auto target = *zap.dnode()->edit_block(tx, header.next_block + half);
    for (std::size_t i = 0; i < words; ++i) {
      store_at<std::uint64_t>(
          target, 8 * i,
          load_at<std::uint64_t>(source.span(), 8 * (half * words / 2 + i / 2), kHostOrder),
          kHostOrder);
    }
  }
  expect_entries(zap, 300, 8000);
  const ZapValue large{1, std::vector<std::uint64_t>(8000, 9)};
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(zap.add_value(tx, "large" + std::to_string(i), large));
  }
  const auto after = *zap::decode_fat_header((*zap.dnode()->read_block(0))->span());
  EXPECT_EQ(after.next_block, 0U);
  EXPECT_GE(after.table_shift, header.table_shift + 1);
  expect_entries(zap, 300, 8000);
}

TEST(HostileZapTest, ImpossibleHeadersAreRefused) {
  World world;
  Zap zap = fat_zap(world, 20, 10);
  Tx tx = world.tx();
  const auto block = *zap.dnode()->edit_block(tx, 0);
  const Buffer good = Buffer::copy_of(block);
  struct Damage {
    std::size_t word;
    std::uint64_t value;
    Errc expected;
  };
  const Damage damages[] = {
      {0, 5, Errc::corrupt},      {1, 1, Errc::corrupt},  {2, 1, Errc::corrupt},
      {3, 1, Errc::corrupt},      {4, 64, Errc::corrupt}, {4, 9, Errc::corrupt},
      {5, 3, Errc::corrupt},      {7, 1, Errc::corrupt},  {7, ~std::uint64_t{0}, Errc::corrupt},
      {12, 8, Errc::unsupported},
  };
  for (const Damage& damage : damages) {
    std::ranges::copy(good.span(), block.begin());
    store_at<std::uint64_t>(block, damage.word * 8, damage.value, kHostOrder);
    const auto found = zap.lookup_value("name1");
    ASSERT_FALSE(found) << damage.word;
    EXPECT_EQ(found.error().code(), damage.expected) << damage.word;
    EXPECT_FALSE(zap.add(tx, "new", 1));
  }
  // Pointers to nothing, to the header, to beyond the end.
  for (const std::uint64_t pointer : {std::uint64_t{0}, std::uint64_t{100}, ~std::uint64_t{0}}) {
    std::ranges::copy(good.span(), block.begin());
    for (std::size_t at = block.size() / 2; at < block.size(); at += 8) {
      store_at<std::uint64_t>(block, at, pointer, kHostOrder);
    }
    EXPECT_EQ(zap.lookup_value("name1").error().code(), Errc::corrupt);
    EXPECT_EQ(zap.page(0, 5).error().code(), Errc::corrupt);
  }
}

TEST(HostileZapTest, DamageIsAnErrorNeverACrash) {
  SCOPED_TRACE(test::rerun());
  std::mt19937_64 rng(test::seed());
  int refused = 0;
  for (int round = 0; round < 60; ++round) {
    World world;
    Zap zap = round % 3 == 0 ? world.make() : fat_zap(world, 60, round % 3 == 1 ? 50 : 2000);
    Tx tx = world.tx();
    if (round % 3 == 0) {
      for (std::uint64_t i = 0; i < 40; ++i) {
        ASSERT_TRUE(zap.add(tx, "name" + std::to_string(i), i));
      }
    }
    for (int hits = 0; hits < 1 + static_cast<int>(rng() % 30); ++hits) {
      const std::uint64_t id = rng() % (zap.dnode()->max_block() + 1);
      const auto block = *zap.dnode()->edit_block(tx, id);
      block[rng() % block.size()] = static_cast<std::byte>(rng() % 3 == 0 ? 0xff : rng());
    }
    Zap::forget(*zap.dnode());
    for (int i = 0; i < 200; ++i) {
      const std::string name = "name" + std::to_string(rng() % 80);
      bool good = true;
      switch (rng() % 6) {
        case 0: good = zap.lookup_value(name).has_value(); break;
        case 1: good = zap.add(tx, name, 1).has_value(); break;
        case 2: {
          const ZapValue value{1, std::vector<std::uint64_t>(rng() % 500, 1)};
          good = zap.update_value(tx, name, value).has_value();
          break;
        }
        case 3: good = zap.remove(tx, name).has_value(); break;
        case 4: good = zap.page(rng() << (rng() % 40), 10).has_value(); break;
        default: good = zap.for_each([](const ZapEntry&) { return Result<void>{}; }).has_value();
      }
      refused += good ? 0 : 1;
    }
  }
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace zuse::object
