// How names hash, compare and order.
#include "fs/object/zap_key.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "fs/object/zap.h"
#include "tests/support/seed.h"

namespace zuse::object::zap {
namespace {

std::string big_endian(std::initializer_list<std::uint64_t> words) {
  std::string bytes;
  for (const std::uint64_t word : words) {
    for (unsigned shift = 64; shift != 0; shift -= 8) {
      bytes.push_back(static_cast<char>(word >> (shift - 8)));
    }
  }
  return bytes;
}

// The vectors of format page 06 section 5.1.
TEST(ZapKeyTest, HashesAreTheKnownOnes) {
  struct Vector {
    std::uint64_t salt;
    const char* name;
    std::uint64_t raw, short_hash, long_hash;
  };
  const Vector vectors[] = {
      {1, "", 0x0000000000000001, 0x0000000000000000, 0x0000000000000000},
      {1, "a", 0x9f8169ba49a54b33, 0x9f8169b000000000, 0x9f8169ba49a50000},
      {1, "ROOT", 0xa1ab3e3e0a69ba5c, 0xa1ab3e3000000000, 0xa1ab3e3e0a690000},
      {1, "VERSION", 0x4139f0acaf56a2d1, 0x4139f0a000000000, 0x4139f0acaf560000},
      {1, "config", 0x52338d710adc3cbf, 0x52338d7000000000, 0x52338d710adc0000},
      {1, "root_dataset", 0x39df210c83c648b6, 0x39df210000000000, 0x39df210c83c60000},
      {1, "hello.txt", 0x8a3f767f36c3fcf8, 0x8a3f767000000000, 0x8a3f767f36c30000},
      {0x0123456789abcdef, "a", 0xb198060a18dfe681, 0xb198060000000000, 0xb198060a18df0000},
      {0x0123456789abcdef, "ROOT", 0x65979540ee3e2461, 0x6597954000000000, 0x65979540ee3e0000},
      {0x0123456789abcdef, "hello.txt", 0x2e22eabc92cdc97f, 0x2e22eab000000000, 0x2e22eabc92cd0000},
      {0x0123456789abcdef, "abcdefghijklmnopqrstuvwxyz0123456789", 0xbca9f1ae4f3fd88a,
       0xbca9f1a000000000, 0xbca9f1ae4f3f0000},
      {0x1bf5f6a1c, "config", 0xa36fb5bb3426bd69, 0xa36fb5b000000000, 0xa36fb5bb34260000},
  };
  for (const Vector& vector : vectors) {
    EXPECT_EQ(crc64(vector.salt, vector.name), vector.raw) << vector.name;
    EXPECT_EQ(make_key(vector.name, {vector.salt, 0, 0})->hash, vector.short_hash) << vector.name;
    EXPECT_EQ(make_key(vector.name, {vector.salt, 0, kHash64})->hash, vector.long_hash)
        << vector.name;
  }
  const std::uint64_t salt = 0x0123456789abcdef;
  const std::string two = big_endian({0x1122334455667788, 2});
  EXPECT_EQ(make_key(two, {salt, 0, kUint64Key})->hash, 0x50761f0000000000U);
  EXPECT_EQ(make_key(two, {salt, 0, kUint64Key | kHash64})->hash, 0x50761f09317a0000U);
  EXPECT_EQ(make_key(big_endian({0}), {1, 0, kUint64Key | kHash64})->hash, 0xdabe95afc7870000U);
}

TEST(ZapKeyTest, PreHashedKeysAreTheirFirstWord) {
  const KeyRule rule{77, 0, kUint64Key | kPreHashed | kHash64};
  EXPECT_EQ(make_key(big_endian({0xfedcba9876543210, 5}), rule)->hash, 0xfedcba9876540000U);
}

TEST(ZapKeyTest, CaseFoldsOnlyWhereTheTableSaysSo) {
  const KeyRule folding{9, kFoldCase, 0};
  const KeyRule plain{9, 0, 0};
  EXPECT_EQ(make_key("Makefile", folding)->hash, make_key("mAKEFILE", folding)->hash);
  EXPECT_EQ(make_key("Makefile", folding)->hash, make_key("MAKEFILE", plain)->hash);
  EXPECT_NE(make_key("Makefile", plain)->hash, make_key("MAKEFILE", plain)->hash);
}

TEST(ZapKeyTest, NamesThatNeedUnicodeTablesAreRefused) {
  const auto key = make_key("caf\xc3\xa9", {9, 0x50, 0});
  ASSERT_FALSE(key);
  EXPECT_EQ(key.error().code(), Errc::unsupported);
  EXPECT_TRUE(make_key("caf\xc3\xa9", {9, 0, 0}));
  EXPECT_TRUE(make_key("cafe", {9, 0x50, 0}));
}

TEST(ZapKeyTest, ImpossibleKeysAreRefused) {
  EXPECT_EQ(make_key(std::string_view("a\0b", 3), {1, 0, 0}).error().code(), Errc::invalid);
  EXPECT_EQ(make_key("abc", {1, 0, kUint64Key}).error().code(), Errc::invalid);
  EXPECT_EQ(make_key("", {1, 0, kUint64Key}).error().code(), Errc::invalid);
}

TEST(ZapKeyTest, CursorsRoundTripAndAscend) {
  SCOPED_TRACE(test::rerun());
  std::mt19937_64 rng(test::seed());
  for (const std::uint64_t flags : {std::uint64_t{0}, kHash64}) {
    const KeyRule rule{1, 0, flags};
    for (int i = 0; i < 1000; ++i) {
      const Position entry{masked(rng(), rule.hash_bits()), rng() % 1000};
      const Position after = position_of(cursor_after(entry, rule), rule);
      EXPECT_EQ(after.hash, entry.hash);
      EXPECT_EQ(after.cd, entry.cd + 1);
    }
    // The last cd of a hash: the next place is another hash, and after the last of all none is.
    const Position last{masked(~std::uint64_t{0}, rule.hash_bits()), rule.cd_limit() - 1};
    EXPECT_EQ(cursor_after(last, rule), kZapCursorEnd);
    const Position first{0, rule.cd_limit() - 1};
    EXPECT_GT(position_of(cursor_after(first, rule), rule), first);
  }
  EXPECT_EQ(position_of(0, {}), Position{});
}

TEST(ZapKeyTest, SmallDifferentiatorsKeepCursorsShort) {
  const KeyRule rule{1, 0, 0};
  EXPECT_LT(cursor_after({masked(~std::uint64_t{0}, 28), 14}, rule), std::uint64_t{1} << 32U);
}

}  // namespace
}  // namespace zuse::object::zap
