// Space map words: those of a real pool, round trips, splits, and padding of two-word entries.
#include "fs/format/space_map.h"

#include <gtest/gtest.h>

#include "tests/support/seed.h"

namespace zuse::format {
namespace {

std::vector<std::byte> bytes_of(const std::vector<std::uint64_t>& words, ByteOrder order) {
  std::vector<std::byte> out(words.size() * 8);
  for (std::size_t i = 0; i < words.size(); ++i) {
    store_at<std::uint64_t>(out, i * 8, words[i], order);
  }
  return out;
}

std::vector<SpaceMapEntry> decode_all(std::span<const std::byte> bytes, ByteOrder order,
                                      std::size_t block_size = 0) {
  SpaceMapDecoder decoder;
  std::vector<SpaceMapEntry> out;
  const std::size_t step = block_size == 0 ? std::max<std::size_t>(bytes.size(), 8) : block_size;
  for (std::size_t at = 0; at < bytes.size(); at += step) {
    const auto part = bytes.subspan(at, std::min(step, bytes.size() - at));
    EXPECT_TRUE(decoder
                    .feed(part, order,
                          [&](const SpaceMapEntry& entry) {
                            out.push_back(entry);
                            return Result<void>{};
                          })
                    .has_value());
  }
  EXPECT_TRUE(decoder.finish().has_value());
  return out;
}

TEST(SpaceMap, WordsOfARealPoolSayWhatItAllocated) {
  // source: format page 04 section 3.2.
  const std::vector<std::uint64_t> words = {0x8004000000000005, 0x0000000000000016,
                                            0x0000000000240014, 0x9008000000000005,
                                            0x0000000000258002};
  for (const ByteOrder order : {ByteOrder::little, ByteOrder::big}) {
    const auto entries = decode_all(bytes_of(words, order), order);
    ASSERT_EQ(entries.size(), 3U);
    EXPECT_EQ(entries[0], (SpaceMapEntry{SpaceMapOp::alloc, 0, 0x17, std::nullopt}));
    EXPECT_EQ(entries[1], (SpaceMapEntry{SpaceMapOp::alloc, 0x24, 0x15, std::nullopt}));
    EXPECT_EQ(entries[2], (SpaceMapEntry{SpaceMapOp::free, 0x25, 3, std::nullopt}));
  }
  SpaceMapEncoder encoder(0, 4096, false);
  encoder.add_debug(SpaceMapOp::alloc, 5, 1);
  ASSERT_TRUE(encoder.add({SpaceMapOp::alloc, 0, 0x17, std::nullopt}).has_value());
  ASSERT_TRUE(encoder.add({SpaceMapOp::alloc, 0x24, 0x15, std::nullopt}).has_value());
  encoder.add_debug(SpaceMapOp::free, 5, 2);
  ASSERT_TRUE(encoder.add({SpaceMapOp::free, 0x25, 3, std::nullopt}).has_value());
  EXPECT_EQ(encoder.words(), words);
}

TEST(SpaceMap, ALongRangeIsSplitIntoOneWordEntriesThatCoverIt) {
  SpaceMapEncoder encoder(0, 4096, false);
  ASSERT_TRUE(encoder.add({SpaceMapOp::free, 10, 100000, std::nullopt}).has_value());
  std::vector<std::byte> bytes;
  encoder.append_to(bytes, ByteOrder::little);
  std::uint64_t next = 10;
  for (const SpaceMapEntry& entry : decode_all(bytes, ByteOrder::little)) {
    EXPECT_EQ(entry.offset, next);
    EXPECT_EQ(entry.op, SpaceMapOp::free);
    EXPECT_LE(entry.run, 32768U);
    next += entry.run;
  }
  EXPECT_EQ(next, 100010U);
}

TEST(SpaceMap, ATwoWordEntryNeverStraddlesABlock) {
  constexpr std::size_t kBlock = 512;
  SpaceMapEncoder encoder(kBlock * 3, kBlock, true);
  std::vector<SpaceMapEntry> wanted;
  for (std::uint64_t i = 0; i < 300; ++i) {
    SpaceMapEntry entry{i % 2 == 0 ? SpaceMapOp::alloc : SpaceMapOp::free, i * 1000, 7, 3};
    if (i % 3 == 0) {
      entry.vdev.reset();  // one word: shifts what follows to odd places
    }
    ASSERT_TRUE(encoder.add(entry).has_value());
    wanted.push_back(entry);
  }
  std::vector<std::byte> bytes;
  encoder.append_to(bytes, ByteOrder::little);
  for (std::size_t block = 0; block < bytes.size(); block += kBlock) {
    // Decoding each block by itself works only if no entry straddles two.
    const auto part = std::span(bytes).subspan(block, std::min(kBlock, bytes.size() - block));
    SpaceMapDecoder alone;
    ASSERT_TRUE(
        alone.feed(part, ByteOrder::little, [](const SpaceMapEntry&) { return Result<void>{}; })
            .has_value());
    EXPECT_TRUE(alone.finish().has_value()) << "block at " << block;
  }
  EXPECT_EQ(decode_all(bytes, ByteOrder::little, kBlock), wanted);
}

TEST(SpaceMap, EntriesOfAnySizeSurviveARoundTrip) {
  SCOPED_TRACE(test::rerun());
  std::mt19937_64 random(test::seed());
  for (int round = 0; round < 300; ++round) {
    SpaceMapEncoder encoder(0, 4096, true);
    std::uint64_t total = 0;
    std::uint64_t first = 0;
    const SpaceMapEntry entry{
        random() % 2 == 0 ? SpaceMapOp::alloc : SpaceMapOp::free, random() >> (1 + random() % 60),
        1 + (random() >> (24 + random() % 39)),
        random() % 2 == 0 ? std::nullopt
                          : std::optional(static_cast<std::uint32_t>(random() % (1U << 24U)))};
    if (!encoder.add(entry)) {
      EXPECT_GT(entry.run, (std::uint64_t{1} << 63) - entry.offset);
      continue;
    }
    std::vector<std::byte> bytes;
    encoder.append_to(bytes, ByteOrder::big);
    const auto back = decode_all(bytes, ByteOrder::big);
    ASSERT_FALSE(back.empty());
    first = back.front().offset;
    for (const SpaceMapEntry& part : back) {
      ASSERT_EQ(part.offset, first + total);
      ASSERT_EQ(part.op, entry.op);
      if (entry.vdev) {
        ASSERT_EQ(part.vdev, entry.vdev);
      }
      total += part.run;
    }
    EXPECT_EQ(first, entry.offset);
    EXPECT_EQ(total, entry.run);
  }
}

TEST(SpaceMap, WhatOneWordCannotSayIsRefusedWithoutTheFeature) {
  SpaceMapEncoder encoder(0, 4096, false);
  EXPECT_EQ(encoder.add({SpaceMapOp::alloc, 1, 1, 2}).error().code(), Errc::invalid);
  EXPECT_EQ(
      encoder.add({SpaceMapOp::alloc, std::uint64_t{1} << 47, 1, std::nullopt}).error().code(),
      Errc::invalid);
  EXPECT_EQ(encoder.add({SpaceMapOp::alloc, 1, 0, std::nullopt}).error().code(), Errc::invalid);
  EXPECT_TRUE(encoder.words().empty());
}

TEST(SpaceMap, AMapThatEndsWithinAnEntryIsCorrupt) {
  SpaceMapDecoder decoder;
  const auto bytes = bytes_of({std::uint64_t{3} << 62U}, ByteOrder::little);
  ASSERT_TRUE(
      decoder.feed(bytes, ByteOrder::little, [](const SpaceMapEntry&) { return Result<void>{}; })
          .has_value());
  EXPECT_EQ(decoder.finish().error().code(), Errc::corrupt);
}

TEST(SpaceMap, HeadersComeWithAndWithoutHistogram) {
  SpaceMapHeader header{.object = 34, .length = 40, .allocated = -512, .histogram = {}};
  std::vector<std::byte> bonus(24);
  encode_space_map_header(header, bonus, ByteOrder::little);
  EXPECT_EQ(*decode_space_map_header(bonus, ByteOrder::little), header);
  header.histogram[31] = 5;
  bonus.assign(320, std::byte{0xee});
  encode_space_map_header(header, bonus, ByteOrder::big);
  EXPECT_EQ(*decode_space_map_header(bonus, ByteOrder::big), header);
  EXPECT_EQ(load_at<std::uint64_t>(bonus, 312, ByteOrder::big), 5U);
  store_at<std::uint64_t>(bonus, 8, 41, ByteOrder::big);
  EXPECT_FALSE(decode_space_map_header(bonus, ByteOrder::big).has_value());
  EXPECT_FALSE(decode_space_map_header(std::vector<std::byte>(23), ByteOrder::big).has_value());
}

}  // namespace
}  // namespace zuse::format
