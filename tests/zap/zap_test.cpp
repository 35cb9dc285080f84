// ZAPs as their users see them, over a real object set.
#include "fs/object/zap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "fs/object/zap_fat.h"
#include "fs/object/zap_micro.h"
#include "tests/support/seed.h"
#include "tests/zap/world.h"

namespace zuse::object {
namespace {

using test::World;
using Model = std::map<std::string, ZapValue>;

bool is_micro(const Zap& zap) {
  const auto block = zap.dnode()->read_block(0);
  EXPECT_TRUE(block);
  return zap::is_micro((*block)->span());
}

zap::FatHeader header_of(const Zap& zap) {
  const auto block = zap.dnode()->read_block(0);
  EXPECT_TRUE(block);
  const auto header = zap::decode_fat_header((*block)->span());
  EXPECT_TRUE(header) << header.error().what();
  return *header;
}

Errc code(const auto& result) {
  EXPECT_FALSE(result);
  return result.error().code();
}

// Everything in it, by pages of `limit`.
Model content(const Zap& zap, std::size_t limit = 37) {
  Model model;
  std::set<std::uint64_t> cursors;
  for (std::uint64_t cursor = 0;;) {
    const auto page = zap.page(cursor, limit);
    EXPECT_TRUE(page) << page.error().what();
    if (!page || page->empty()) {
      break;
    }
    for (const ZapEntry& entry : *page) {
      EXPECT_TRUE(model.emplace(entry.name, entry.value).second) << entry.name << " comes twice";
      EXPECT_TRUE(cursors.insert(entry.cursor).second);
    }
    cursor = page->back().cursor;
  }
  return model;
}

ZapValue value_of_bytes(std::size_t count, std::uint64_t fill) {
  return {1, std::vector<std::uint64_t>(count, fill & 0xffU)};
}

TEST(ZapTest, ANewZapIsAnEmptyMicroZapOf512Bytes) {
  World world;
  const Zap zap = world.make();
  EXPECT_TRUE(is_micro(zap));
  EXPECT_EQ(zap.dnode()->block_size(), 512U);
  EXPECT_EQ(*zap.count(), 0U);
  EXPECT_EQ(code(zap.lookup("a")), Errc::not_found);
  EXPECT_EQ(code(zap.at(0)), Errc::not_found);
  EXPECT_FALSE(*zap.contains("a"));
}

TEST(ZapTest, AddUpdateAndRemoveDoWhatTheySay) {
  for (const bool fat : {false, true}) {
    World world;
    Zap zap = world.make();
    Tx tx = world.tx();
    if (fat) {
      ASSERT_TRUE(zap.add_value(tx, "text", ZapValue::string("makes it fat")));
      ASSERT_TRUE(zap.remove(tx, "text"));
    }
    ASSERT_EQ(is_micro(zap), !fat);
    EXPECT_TRUE(zap.add(tx, "a", 1));
    EXPECT_EQ(code(zap.add(tx, "a", 2)), Errc::exists);
    EXPECT_EQ(*zap.lookup("a"), 1U);
    EXPECT_TRUE(zap.update(tx, "a", 3));
    EXPECT_TRUE(zap.update(tx, "b", 4));
    EXPECT_EQ(*zap.lookup("a"), 3U);
    EXPECT_EQ(*zap.lookup("b"), 4U);
    EXPECT_EQ(zap.lookup_value("b")->integers, (std::vector<std::uint64_t>{4}));
    EXPECT_EQ(*zap.count(), 2U);
    EXPECT_TRUE(zap.remove(tx, "a"));
    EXPECT_EQ(code(zap.remove(tx, "a")), Errc::not_found);
    EXPECT_EQ(*zap.count(), 1U);
    EXPECT_EQ(code(zap.add(tx, "", 1)), Errc::invalid);
    EXPECT_EQ(code(zap.add(tx, std::string(1024, 'x'), 1)), Errc::name_too_long);
    EXPECT_EQ(code(zap.add_value(tx, "v", {3, {1}})), Errc::invalid);
    EXPECT_EQ(code(zap.add_value(tx, "v", {1, {256}})), Errc::invalid);
    EXPECT_EQ(code(zap.add_value(tx, "v", value_of_bytes(8193, 0))), Errc::too_large);
  }
}

TEST(ZapTest, ItStaysMicroUpTo2047Entries) {
  World world;
  Zap zap = world.make();
  Tx tx = world.tx();
  for (std::uint64_t i = 0; i < 2047; ++i) {
    ASSERT_TRUE(zap.add(tx, "file" + std::to_string(i), i));
    ASSERT_EQ(zap.dnode()->block_size() % 512, 0U);
  }
  EXPECT_TRUE(is_micro(zap));
  EXPECT_EQ(zap.dnode()->block_size(), 131072U);
  ASSERT_TRUE(zap.add(tx, "one more", 5));
  EXPECT_FALSE(is_micro(zap));
  EXPECT_EQ(zap.dnode()->block_size(), 16384U);
  world.reopen();
  const Zap again = world.open(zap.object());
  for (std::uint64_t i = 0; i < 2047; ++i) {
    ASSERT_EQ(*again.lookup("file" + std::to_string(i)), i);
  }
  EXPECT_EQ(*again.count(), 2048U);
  EXPECT_EQ(header_of(again).free_block, header_of(again).leaf_count + 1);
}

TEST(ZapTest, WhatAMicroZapCannotHoldMakesItFat) {
  World world;
  const std::string longest(49, 'n');
  for (int reason = 0; reason < 4; ++reason) {
    Zap zap = world.make();
    Tx tx = world.tx();
    ASSERT_TRUE(zap.add(tx, longest, 7));
    ASSERT_TRUE(is_micro(zap));
    switch (reason) {
      case 0: ASSERT_TRUE(zap.add(tx, longest + "n", 8)); break;
      case 1: ASSERT_TRUE(zap.add_value(tx, "two", {8, {1, 2}})); break;
      case 2: ASSERT_TRUE(zap.add_value(tx, "small", {4, {1}})); break;
      default: ASSERT_TRUE(zap.update_value(tx, longest, {2, {1, 2, 3}})); break;
    }
    EXPECT_FALSE(is_micro(zap)) << reason;
    EXPECT_EQ(code(zap.lookup(reason == 3 ? longest : "other")),
              reason == 3 ? Errc::invalid : Errc::not_found);
    if (reason != 3) {
      EXPECT_EQ(*zap.lookup(longest), 7U);
    }
  }
}

TEST(ZapTest, ValuesOfEveryWidthComeBack) {
  World world;
  Zap zap = world.make();
  Tx tx = world.tx();
  Model model;
  for (const unsigned size : {1U, 2U, 4U, 8U}) {
    for (const std::size_t count : {0U, 1U, 2U, 3U, 20U, 21U, 22U, 100U, 1024U}) {
      ZapValue value{size, {}};
      for (std::size_t i = 0; i < count; ++i) {
        const std::uint64_t mask = size == 8 ? ~0ULL : (1ULL << (8 * size)) - 1;
        value.integers.push_back((0x0123456789abcdefU * (i + 1)) & mask);
      }
      const std::string name = std::to_string(size) + "x" + std::to_string(count);
      ASSERT_TRUE(zap.add_value(tx, name, value));
      model[name] = value;
    }
  }
  world.reopen();
  EXPECT_EQ(content(world.open(zap.object())), model);
}

TEST(ZapTest, LargeValuesMakeTheTableLeaveItsHeaderAndDouble) {
  SCOPED_TRACE(test::rerun());
  std::mt19937_64 rng(test::seed());
  World world;
  Zap zap = world.make();
  Model model;
  for (int i = 0; i < 400; ++i) {  // one a leaf: prefixes get long
    Tx tx = world.tx();
    const std::string name = "big" + std::to_string(i);
    model[name] = value_of_bytes(8000 + rng() % 100, rng());
    ASSERT_TRUE(zap.add_value(tx, name, model[name]));
    if (i % 100 == 99) {
      world.sync();
    }
  }
  const auto header = header_of(zap);
  EXPECT_GT(header.table_blocks, 1U);
  EXPECT_EQ(header.leaf_count, header.entry_count + header.leaf_count - 400);
  world.reopen();
  Zap again = world.open(zap.object());
  EXPECT_EQ(content(again), model);
  for (const auto& [name, value] : model) {
    ASSERT_EQ(*again.lookup_value(name), value);
  }
  for (const auto& [name, value] : model) {
    Tx tx = world.tx();
    ASSERT_TRUE(again.remove(tx, name));
  }
  EXPECT_EQ(*again.count(), 0U);
  EXPECT_TRUE(content(again).empty());
}

TEST(ZapTest, ContentFollowsAModelThroughSyncsAndRestarts) {
  SCOPED_TRACE(test::rerun());
  std::mt19937_64 rng(test::seed());
  World world;
  // One stays micro for long, one is fat from early on, one folds case.
  struct Subject {
    std::uint64_t object;
    Model model;
    bool wide;
  };
  std::vector<Subject> subjects;
  for (int i = 0; i < 3; ++i) {
    subjects.push_back({world.make(i == 2 ? zap::kFoldCase : 0).object(), {}, i == 1});
  }
  for (int step = 0; step < 12000; ++step) {
    Subject& subject = subjects[rng() % subjects.size()];
    Zap zap = world.open(subject.object);
    Tx tx = world.tx();
    std::string name = "entry-" + std::to_string(rng() % 1200);
    if (subject.wide && rng() % 4 == 0) {
      name += std::string(rng() % 200, 'w');
    }
    const ZapValue value =
        !subject.wide || rng() % 2 == 0 ? ZapValue::of(rng()) : value_of_bytes(rng() % 300, rng());
    const bool there = subject.model.contains(name);
    switch (rng() % 8) {
      case 0:
      case 1:
      case 2: {
        const auto result = zap.add_value(tx, name, value);
        ASSERT_EQ(result.has_value(), !there) << name;
        if (result) {
          subject.model[name] = value;
        }
        break;
      }
      case 3:
      case 4: {
        ASSERT_TRUE(zap.update_value(tx, name, value));
        subject.model[name] = value;
        break;
      }
      case 5:
      case 6: {
        ASSERT_EQ(zap.remove(tx, name).has_value(), there);
        subject.model.erase(name);
        break;
      }
      default: {
        const auto found = zap.lookup_value(name);
        ASSERT_EQ(found.has_value(), there);
        if (found) {
          ASSERT_EQ(*found, subject.model[name]);
        }
      }
    }
    ASSERT_EQ(*zap.count(), subject.model.size());
    if (rng() % 300 == 0) {
      world.sync();
    }
    if (rng() % 1500 == 0) {
      world.reopen();
    }
  }
  world.reopen();
  for (const Subject& subject : subjects) {
    EXPECT_EQ(content(world.open(subject.object), 1 + rng() % 200), subject.model);
  }
  EXPECT_TRUE(world.store().problems().empty()) << world.store().problems().front();
}

TEST(ZapTest, EntriesThatStayAreListedOnceWhileOthersComeAndGo) {
  SCOPED_TRACE(test::rerun());
  std::mt19937_64 rng(test::seed());
  for (const int count : {500, 3000}) {
    World world;
    Zap zap = world.make();
    Tx tx = world.tx();
    for (int i = 0; i < count; ++i) {
      ASSERT_TRUE(zap.add(tx, (i % 2 == 0 ? "stays" : "goes") + std::to_string(i), 1));
    }
    std::map<std::string, int> seen;
    for (std::uint64_t cursor = 0;;) {
      const auto page = zap.page(cursor, 10);
      ASSERT_TRUE(page);
      if (page->empty()) {
        break;
      }
      for (const ZapEntry& entry : *page) {
        ++seen[entry.name];
        if (entry.name.starts_with("goes")) {
          ASSERT_TRUE(zap.remove(tx, entry.name));
        }
      }
      cursor = page->back().cursor;
      ASSERT_TRUE(zap.add(tx, "new" + std::to_string(rng()), 1));
    }
    for (int i = 0; i < count; i += 2) {
      ASSERT_EQ(seen["stays" + std::to_string(i)], 1);
    }
    EXPECT_TRUE(std::ranges::all_of(seen, [](const auto& one) { return one.second == 1; }));
  }
}

TEST(ZapTest, ForEachStopsAtTheFirstError) {
  World world;
  Zap zap = world.make();
  Tx tx = world.tx();
  for (int i = 0; i < 300; ++i) {
    ASSERT_TRUE(zap.add(tx, std::to_string(i), 1));
  }
  int visited = 0;
  const auto result = zap.for_each([&](const ZapEntry&) -> Result<void> {
    return ++visited == 200 ? fail(Errc::busy) : Result<void>{};
  });
  EXPECT_EQ(code(result), Errc::busy);
  EXPECT_EQ(visited, 200);
  visited = 0;
  // Removing what is visited is allowed.
  EXPECT_TRUE(zap.for_each([&](const ZapEntry& entry) {
    ++visited;
    return zap.remove(tx, entry.name);
  }));
  EXPECT_EQ(visited, 300);
  EXPECT_EQ(*zap.count(), 0U);
}

TEST(ZapTest, CountersVanishAtZero) {
  World world;
  Zap zap = world.make();
  Tx tx = world.tx();
  const std::string key = Zap::hex_key(0xdeadbeef);
  EXPECT_EQ(key, "deadbeef");
  EXPECT_EQ(Zap::hex_key(0), "0");
  ASSERT_TRUE(zap.increment(tx, key, 0));
  EXPECT_EQ(*zap.count(), 0U);
  ASSERT_TRUE(zap.increment(tx, key, 512));
  ASSERT_TRUE(zap.increment(tx, key, 1024));
  EXPECT_EQ(*zap.lookup(key), 1536U);
  ASSERT_TRUE(zap.increment(tx, key, -1536));
  EXPECT_EQ(code(zap.lookup(key)), Errc::not_found);
}

TEST(ZapTest, CaseDoesNotMatterWhereTheZapFoldsIt) {
  for (const bool fat : {false, true}) {
    World world;
    Zap zap = world.make(zap::kFoldCase);
    Tx tx = world.tx();
    if (fat) {
      ASSERT_TRUE(zap.add_value(tx, "text", ZapValue::string("makes it fat")));
    }
    ASSERT_TRUE(zap.add(tx, "Makefile", 1));
    EXPECT_EQ(*zap.lookup("MAKEFILE"), 1U);
    EXPECT_EQ(code(zap.add(tx, "makefile", 2)), Errc::exists);
    EXPECT_EQ(code(zap.add(tx, "caf\xc3\xa9", 2)), Errc::unsupported);
    EXPECT_EQ(content(zap).count("Makefile"), 1U);
    ASSERT_TRUE(zap.remove(tx, "mAkEfIlE"));
  }
}

TEST(ZapTest, StringsAreBytesWithANul) {
  const ZapValue value = ZapValue::string("tank");
  EXPECT_EQ(value.integer_size, 1U);
  EXPECT_EQ(value.integers.size(), 5U);
  EXPECT_EQ(value.as_string(), "tank");
}

TEST(ZapTest, ObjectsOfOtherTypesAreRefused) {
  World world;
  Tx tx = world.tx();
  NewObject spec;
  spec.type = format::ObjectType::plain_file;
  const auto dnode = world.objset().allocate(tx, spec);
  ASSERT_TRUE(dnode);
  EXPECT_EQ(code(Zap::open(world.objset(), (*dnode)->object())), Errc::corrupt);
  EXPECT_EQ(code(Zap::create(world.objset(), tx, spec)), Errc::invalid);
  // A ZAP by type, but nothing in it.
  spec.type = format::ObjectType::directory;
  const auto empty = world.objset().allocate(tx, spec);
  ASSERT_TRUE(empty);
  EXPECT_EQ(code(Zap::open(world.objset(), (*empty)->object())->lookup("a")), Errc::corrupt);
}

TEST(ZapTest, WordKeysAndLongHashesWork) {
  SCOPED_TRACE(test::rerun());
  std::mt19937_64 rng(test::seed());
  for (const std::uint64_t flags :
       {zap::kUint64Key | zap::kHash64, zap::kUint64Key | zap::kHash64 | zap::kPreHashed}) {
    World world;
    Tx tx = world.tx();
    NewObject spec;
    spec.type = format::ObjectType::ddt_zap;
    spec.block_size = 4096;
    const auto dnode = world.objset().allocate(tx, spec);
    ASSERT_TRUE(dnode);
    const auto header = (*dnode)->edit_block(tx, 0);
    ASSERT_TRUE(header);
    zap::fat_initialise(*header, {rng() | 1U, 0, flags});
    const auto leaf = (*dnode)->edit_block(tx, 1);
    ASSERT_TRUE(leaf);
    zap::leaf_initialise(*leaf, 0, 0, false);
    Zap zap(*dnode);
    Model model;
    for (int i = 0; i < 2000; ++i) {
      std::string key(16, '\0');
      std::ranges::generate(key, [&] { return static_cast<char>(rng()); });
      model[key] = {8, {rng(), rng()}};
      ASSERT_TRUE(zap.add_value(tx, key, model[key]));
    }
    EXPECT_EQ(code(zap.lookup_value("short")), Errc::invalid);
    world.reopen();
    const Zap again = world.open(zap.object());
    EXPECT_EQ(content(again), model);
    EXPECT_EQ(*again.lookup_value(model.begin()->first), model.begin()->second);
    EXPECT_GT(header_of(again).leaf_count, 20U);
  }
}

TEST(ZapTest, ReadersAndAWriterDoNotDisturbEachOther) {
  World world;
  Zap zap = world.make();
  {
    Tx tx = world.tx();
    for (std::uint64_t i = 0; i < 1000; ++i) {
      ASSERT_TRUE(zap.add(tx, "old" + std::to_string(i), i));
    }
  }
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> readers;
  for (int thread = 0; thread < 2; ++thread) {
    readers.emplace_back([&] {
      for (std::uint64_t i = 0; !stop; ++i) {
        const auto found = zap.lookup("old" + std::to_string(i % 1000));
        wrong += found && *found == i % 1000 ? 0 : 1;
        if (i % 100 == 0) {
          const auto page = zap.page(0, 50);
          wrong += page && page->size() == 50 ? 0 : 1;
        }
      }
    });
  }
  Tx tx = world.tx();
  for (std::uint64_t i = 0; i < 3000; ++i) {  // becomes fat on the way
    ASSERT_TRUE(zap.add(tx, "new" + std::to_string(i), i));
  }
  stop = true;
  for (auto& reader : readers) {
    reader.join();
  }
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace zuse::object
