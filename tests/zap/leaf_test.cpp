// A fat ZAP's leaf, as bytes.
#include "fs/object/zap_leaf.h"

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

const KeyRule kRule{0x1234567, 0, 0};

Block empty_leaf(unsigned shift, std::uint64_t prefix = 0, unsigned length = 0) {
  Block block(std::size_t{1} << shift);
  leaf_initialise(block, prefix, length, false);
  return block;
}

bool insert(std::span<std::byte> block, const std::string& name, const std::string& value,
            std::uint32_t cd = 0, std::uint8_t integer_size = 1) {
  std::string stored = name;
  stored.push_back('\0');
  const auto result = leaf_insert(
      block, {make_key(name, kRule)->hash, cd, stored, static_cast<std::uint16_t>(stored.size()),
              value, integer_size, static_cast<std::uint16_t>(value.size() / integer_size)});
  EXPECT_TRUE(result) << result.error().what();
  return result && *result;
}

std::map<std::string, std::string> content(std::span<const std::byte> block) {
  std::map<std::string, std::string> map;
  const auto leaf = Leaf::open(block);
  EXPECT_TRUE(leaf);
  const auto entries = leaf->entries();
  EXPECT_TRUE(entries);
  for (const LeafEntry& entry : *entries) {
    map[*leaf->name(entry, false)] = *leaf->value(entry);
  }
  return map;
}

TEST(LeafTest, AnEmptyLeafIsLaidOutAsTheFormatSays) {
  const Block block = empty_leaf(14, 5, 3);
  EXPECT_EQ(load_at<std::uint64_t>(block, 0, kHostOrder), 0x8000000000000000U);
  EXPECT_EQ(load_at<std::uint64_t>(block, 16, kHostOrder), 5U);
  EXPECT_EQ(load_at<std::uint32_t>(block, 24, kHostOrder), 0x2ab1eafU);
  EXPECT_EQ(load_at<std::uint16_t>(block, 28, kHostOrder), 638U);
  EXPECT_EQ(load_at<std::uint16_t>(block, 30, kHostOrder), 0U);
  EXPECT_EQ(load_at<std::uint16_t>(block, 32, kHostOrder), 3U);
  EXPECT_EQ(load_at<std::uint16_t>(block, 34, kHostOrder), 0U);
  EXPECT_EQ(load_at<std::uint16_t>(block, 48, kHostOrder), 0xffffU);
  EXPECT_EQ(load_at<std::uint16_t>(block, 48 + 1022, kHostOrder), 0xffffU);
  EXPECT_EQ(block[1072], std::byte{253});
  EXPECT_EQ(load_at<std::uint16_t>(block, 1072 + 22, kHostOrder), 1U);
  EXPECT_EQ(block[16384 - 24], std::byte{253});
  EXPECT_EQ(load_at<std::uint16_t>(block, 16382, kHostOrder), 0xffffU);
}

TEST(LeafTest, AnEntryIsLaidOutAsTheFormatSays) {
  Block block = empty_leaf(14);
  ASSERT_TRUE(insert(block, "config", std::string("\x01\x02\x03\x04\x05\x06\x07\x08", 8), 0, 8));
  const std::uint64_t hash = make_key("config", kRule)->hash;
  // Bucket: the top 9 bits. Chunks are taken in order: entry, name, value.
  EXPECT_EQ(load_at<std::uint16_t>(block, 48 + 2 * (hash >> 55U), kHostOrder), 0U);
  EXPECT_EQ(block[1072], std::byte{252});
  EXPECT_EQ(block[1073], std::byte{8});
  EXPECT_EQ(load_at<std::uint16_t>(block, 1074, kHostOrder), 0xffffU);
  EXPECT_EQ(load_at<std::uint16_t>(block, 1076, kHostOrder), 1U);
  EXPECT_EQ(load_at<std::uint16_t>(block, 1078, kHostOrder), 7U);
  EXPECT_EQ(load_at<std::uint16_t>(block, 1080, kHostOrder), 2U);
  EXPECT_EQ(load_at<std::uint16_t>(block, 1082, kHostOrder), 1U);
  EXPECT_EQ(load_at<std::uint32_t>(block, 1084, kHostOrder), 0U);
  EXPECT_EQ(load_at<std::uint64_t>(block, 1088, kHostOrder), hash);
  EXPECT_EQ(block[1096], std::byte{251});
  EXPECT_EQ(block[1097], std::byte{'c'});
  EXPECT_EQ(block[1120], std::byte{251});
  EXPECT_EQ(block[1121], std::byte{1});
  EXPECT_EQ(block[1128], std::byte{8});
  EXPECT_EQ(load_at<std::uint16_t>(block, 28, kHostOrder), 635U);
  EXPECT_EQ(load_at<std::uint16_t>(block, 34, kHostOrder), 3U);
  const Leaf leaf = *Leaf::open(block);
  const auto entry = *leaf.find(*make_key("config", kRule));
  ASSERT_TRUE(entry);
  EXPECT_EQ(*leaf.first_integer(*entry), 0x0102030405060708U);
}

TEST(LeafTest, NamesAroundAChunksSizeAreFoundAndToldApart) {
  Block block = empty_leaf(14);
  for (std::size_t length = 1; length <= 70; ++length) {
    ASSERT_TRUE(insert(block, std::string(length, 'x'), std::string(length % 5, 'v')));
  }
  const Leaf leaf = *Leaf::open(block);
  for (std::size_t length = 1; length <= 70; ++length) {
    const std::string name(length, 'x');
    const auto entry = *leaf.find(*make_key(name, kRule));
    ASSERT_TRUE(entry) << length;
    EXPECT_EQ(*leaf.name(*entry, false), name);
    EXPECT_EQ(*leaf.value(*entry), std::string(length % 5, 'v'));
    std::string other = name;
    other.back() = 'y';
    EXPECT_FALSE(*leaf.find({other, entry->hash, false, false}));
  }
}

TEST(LeafTest, ChainsAreOrderedByDifferentiator) {
  Block block = empty_leaf(12);
  const std::uint64_t hash = 0x12345670ULL << 32U;
  for (const std::uint32_t cd : {3U, 0U, 2U, 1U}) {
    const std::string name = "n" + std::to_string(cd) + std::string(1, '\0');
    ASSERT_TRUE(*leaf_insert(block, {hash, cd, name, 3, "", 1, 0}));
  }
  const Leaf leaf = *Leaf::open(block);
  std::uint16_t at = load_at<std::uint16_t>(block, 48 + 2 * (hash >> (64 - 7)), kHostOrder);
  for (std::uint32_t cd = 0; cd < 4; ++cd) {
    const std::size_t chunk = 48 + 256 + std::size_t{at} * 24;
    EXPECT_EQ(load_at<std::uint32_t>(block, chunk + 12, kHostOrder), cd);
    at = load_at<std::uint16_t>(block, chunk + 2, kHostOrder);
  }
  EXPECT_EQ(at, kChainEnd);
  EXPECT_EQ(*leaf.free_cd(hash), 4U);
  ASSERT_TRUE(leaf_remove(block, (*leaf.entries())[2]));
  EXPECT_EQ(*Leaf::open(block)->free_cd(hash), 2U);
}

TEST(LeafTest, ContentFollowsAModelThroughManyChanges) {
  SCOPED_TRACE(test::rerun());
  std::mt19937_64 rng(test::seed());
  for (const unsigned shift : {9U, 12U, 14U, 15U}) {
    Block block = empty_leaf(shift);
    std::map<std::string, std::string> model;
    for (int step = 0; step < 3000; ++step) {
      const std::string name(1 + rng() % 60, static_cast<char>('a' + rng() % 26));
      const std::string value(rng() % 90, static_cast<char>('A' + rng() % 26));
      const Leaf leaf = *Leaf::open(block);
      const auto entry = *leaf.find(*make_key(name, kRule));
      ASSERT_EQ(entry.has_value(), model.contains(name));
      const unsigned free = leaf.free_chunks();
      if (!entry) {
        const std::size_t needed = chunks_needed(name.size() + 1, value.size());
        const bool fits = insert(block, name, value);
        ASSERT_EQ(fits, needed <= free);
        if (fits) {
          model[name] = value;
        }
      } else if (rng() % 2 == 0) {
        ASSERT_TRUE(leaf_remove(block, *entry));
        model.erase(name);
      } else {
        const auto set =
            leaf_set_value(block, *entry, value, 1, static_cast<std::uint16_t>(value.size()));
        ASSERT_TRUE(set);
        if (*set) {
          model[name] = value;
        }
      }
      if (step % 100 == 0) {
        ASSERT_EQ(content(block), model);
      }
    }
    // All chunks come back.
    const auto left = *Leaf::open(block)->entries();
    for (const LeafEntry& entry : left) {
      ASSERT_TRUE(leaf_remove(block, entry));
    }
    EXPECT_EQ(Leaf::open(block)->free_chunks(), leaf_chunks(shift));
    EXPECT_EQ(Leaf::open(block)->entry_count(), 0U);
  }
}

TEST(LeafTest, ASplitPartsEntriesByTheNextBit) {
  Block low = empty_leaf(14);
  std::size_t count = 0;
  while (insert(low, "name" + std::to_string(count), std::to_string(count))) {
    ++count;
  }
  const auto before = content(low);
  Block high(low.size());
  ASSERT_TRUE(leaf_split(low, high));
  auto after = content(low);
  const auto upper = content(high);
  for (const auto& [name, value] : after) {
    EXPECT_EQ(make_key(name, kRule)->hash >> 63U, 0U);
  }
  for (const auto& [name, value] : upper) {
    EXPECT_EQ(make_key(name, kRule)->hash >> 63U, 1U);
  }
  EXPECT_FALSE(after.empty() || upper.empty());
  after.insert(upper.begin(), upper.end());
  EXPECT_EQ(after, before);
  EXPECT_EQ(Leaf::open(low)->prefix(), 0U);
  EXPECT_EQ(Leaf::open(high)->prefix(), 1U);
  EXPECT_EQ(Leaf::open(high)->prefix_length(), 1U);
}

// The rules of format page 06 section 9, by hand.
Block foreign(const Block& block) {
  Block swapped = block;
  const auto reverse = [&](std::size_t at, std::size_t size) {
    const auto begin = swapped.begin() + static_cast<std::ptrdiff_t>(at);
    std::reverse(begin, begin + static_cast<std::ptrdiff_t>(size));
  };
  reverse(0, 8);
  reverse(8, 8);
  reverse(16, 8);
  reverse(24, 4);
  for (std::size_t at = 28; at < 36; at += 2) {
    reverse(at, 2);
  }
  const std::size_t chunks = 48 + block.size() / 16;
  for (std::size_t at = 48; at < chunks; at += 2) {
    reverse(at, 2);
  }
  for (std::size_t at = chunks; at < block.size(); at += 24) {
    if (block[at] == std::byte{252}) {
      for (std::size_t field = 2; field < 12; field += 2) {
        reverse(at + field, 2);
      }
      reverse(at + 12, 4);
      reverse(at + 16, 8);
    } else {
      reverse(at + 22, 2);
    }
  }
  return swapped;
}

TEST(LeafTest, EitherByteOrderReadsTheSame) {
  Block block = empty_leaf(12, 0, 0);
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(insert(block, "name" + std::to_string(i), std::string(8, char(i)), 0, 8));
  }
  Block swapped = foreign(block);
  EXPECT_EQ(content(swapped), content(block));
  const Leaf leaf = *Leaf::open(swapped);
  EXPECT_NE(leaf.order(), kHostOrder);
  EXPECT_TRUE(*leaf.find(*make_key("name7", kRule)));
  ASSERT_TRUE(leaf_to_host(swapped));
  EXPECT_EQ(swapped, block);
}

TEST(LeafTest, DamagedLeavesAreAnErrorNeverACrash) {
  SCOPED_TRACE(test::rerun());
  std::mt19937_64 rng(test::seed());
  Block good = empty_leaf(12);
  for (int i = 0; i < 30; ++i) {
    ASSERT_TRUE(insert(good, "name" + std::to_string(i), std::string(rng() % 40, 'v')));
  }
  int refused = 0;
  for (int round = 0; round < 4000; ++round) {
    Block block = good;
    for (std::uint64_t hits = 1 + rng() % 8; hits != 0; --hits) {
      block[rng() % block.size()] = static_cast<std::byte>(rng() % 4 == 0 ? 0xff : rng());
    }
    const auto leaf = Leaf::open(block);
    if (!leaf) {
      ++refused;
      continue;
    }
    const std::string sought = "name" + std::to_string(rng() % 30);
    const Key key = *make_key(sought, kRule);
    (void)leaf->find(key);
    (void)leaf->free_cd(key.hash);
    const auto entries = leaf->entries();
    if (!entries) {
      ++refused;
      EXPECT_EQ(entries.error().code(), Errc::corrupt);
    } else {
      for (const LeafEntry& entry : *entries) {
        (void)leaf->name(entry, false);
        (void)leaf->name(entry, true);
        (void)leaf->value(entry);
        if (entry.value_elements != 0) {
          (void)leaf->first_integer(entry);
        }
      }
    }
    if (!leaf_to_host(block)) {
      continue;
    }
    Block other(block.size());
    switch (rng() % 4) {
      case 0: {
        const std::string name("new\0", 4);
        (void)leaf_insert(block, {key.hash, 0, name, 4, "12345678", 8, 1});
        break;
      }
      case 1: (void)leaf_split(block, other); break;
      default:
        if (entries && !entries->empty()) {
          const LeafEntry entry = (*entries)[rng() % entries->size()];
          if (rng() % 2 == 0) {
            (void)leaf_remove(block, entry);
          } else {
            (void)leaf_set_value(block, entry, std::string(rng() % 60, 'z'), 1, 1);
          }
        }
    }
    (void)Leaf::open(block);
  }
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace zuse::object::zap
