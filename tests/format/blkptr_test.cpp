// Block pointers: the root pointer of a real pool, round trips in both byte orders, and the checks
// on pointers that may not be followed.
#include "fs/format/blkptr.h"

#include <gtest/gtest.h>

#include <functional>

#include "tests/support/seed.h"

namespace zuse::format {
namespace {

BlkptrPhys from_words(const std::array<std::uint64_t, 16>& words, ByteOrder order) {
  BlkptrPhys phys;
  for (std::size_t i = 0; i < words.size(); ++i) {
    phys.word[i].store(words[i], order);
  }
  return phys;
}

bool same_bytes(const BlkptrPhys& a, const BlkptrPhys& b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

// source: format page 02 section 1.8, read from a pool that OpenZFS wrote.
constexpr std::array<std::uint64_t, 16> kRealRoot = {1,
                                                     0x58,
                                                     1,
                                                     0x5c58,
                                                     1,
                                                     0xb838,
                                                     0x800b070300000003,
                                                     0,
                                                     0,
                                                     0,
                                                     5,
                                                     0x24,
                                                     0x10bb5d8f68,
                                                     0x61c8d2332e1,
                                                     0x1269c2e812459,
                                                     0x261f96ba5b8884};

TEST(Blkptr, ARealRootPointerSaysWhatItsPoolSays) {
  for (const ByteOrder order : {ByteOrder::little, ByteOrder::big}) {
    const BlkptrPhys phys = from_words(kRealRoot, order);
    const Blkptr root = decode(phys, order);
    EXPECT_EQ(root.dva[0], (Dva{.vdev = 0, .asize = 0x200, .offset = 0xb000, .gang = false}));
    EXPECT_EQ(root.dva[1], (Dva{.vdev = 0, .asize = 0x200, .offset = 0xb8b000, .gang = false}));
    EXPECT_EQ(root.dva[2], (Dva{.vdev = 0, .asize = 0x200, .offset = 0x1707000, .gang = false}));
    EXPECT_EQ(root.copies(), 3U);
    EXPECT_EQ(root.order, ByteOrder::little);
    EXPECT_EQ(root.level, 0U);
    EXPECT_EQ(root.type, ObjectType::objset);
    EXPECT_EQ(root.checksum_type, Checksum::fletcher4);
    EXPECT_EQ(root.compression, Compression::lzjb);
    EXPECT_EQ(root.lsize, 0x800U);
    EXPECT_EQ(root.psize, 0x200U);
    EXPECT_EQ(root.birth(), 5U);
    EXPECT_EQ(root.fill_count(), 36U);
    EXPECT_EQ(root.checksum[3], 0x261f96ba5b8884U);
    EXPECT_TRUE(same_bytes(encode(root, order), phys));
    const std::array<std::uint64_t, 1> sizes = {std::uint64_t{64} << 20};
    EXPECT_TRUE(check(root, {sizes}).has_value());
  }
}

TEST(Blkptr, AnAllZeroPointerIsAHoleAndEncodesToZerosAgain) {
  const Blkptr hole = decode(BlkptrPhys{}, ByteOrder::little);
  EXPECT_TRUE(hole.is_hole());
  EXPECT_EQ(hole, Blkptr{});
  EXPECT_EQ(hole.fill_count(), 0U);
  EXPECT_TRUE(same_bytes(encode(Blkptr{}, ByteOrder::little), BlkptrPhys{}));
}

TEST(Blkptr, AHoleWithBirthKeepsSizeTypeLevelAndBirthAndNothingElse) {
  const Blkptr hole = make_hole(131072, ObjectType::plain_file, 1, 77, true);
  const BlkptrPhys phys = encode(hole, ByteOrder::little);
  EXPECT_TRUE(decode(phys, ByteOrder::little).is_hole());
  EXPECT_EQ(decode(phys, ByteOrder::little), hole);
  // The properties hold the size in sectors less one, the type and the level; no byte order.
  EXPECT_EQ(phys.word[6].load(ByteOrder::little),
            std::uint64_t{255} | std::uint64_t{19} << 48U | std::uint64_t{1} << 56U);
  EXPECT_EQ(phys.word[10].load(ByteOrder::little), 77U);
  EXPECT_EQ(make_hole(131072, ObjectType::plain_file, 1, 77, false), Blkptr{});
  EXPECT_EQ(make_hole(131072, ObjectType::plain_file, 1, 0, true), Blkptr{});
}

TEST(Blkptr, EmbeddedPayloadIsTheStoredWordsInOrderWithoutPropertiesAndBirth) {
  Blkptr blkptr;
  blkptr.embedded = true;
  blkptr.lsize = 4097;  // any size to the byte
  blkptr.psize = 112;
  blkptr.compression = Compression::lz4;
  blkptr.type = ObjectType::plain_file;
  blkptr.logical_birth = 9;
  blkptr.order = ByteOrder::little;
  for (std::size_t i = 0; i < blkptr.payload.size(); ++i) {
    blkptr.payload[i] = static_cast<std::byte>(i + 1);
  }
  const BlkptrPhys phys = encode(blkptr, ByteOrder::little);
  const auto* const raw = reinterpret_cast<const std::byte*>(&phys);
  std::vector<std::byte> words;
  for (std::size_t word = 0; word < 16; ++word) {
    if (word != 6 && word != 10) {
      words.insert(words.end(), raw + word * 8, raw + word * 8 + 8);
    }
  }
  EXPECT_TRUE(std::equal(words.begin(), words.end(), blkptr.payload.begin()));
  EXPECT_EQ(decode(phys, ByteOrder::little), blkptr);
  EXPECT_EQ(decode(encode(blkptr, ByteOrder::big), ByteOrder::big), blkptr);
  EXPECT_EQ(blkptr.copies(), 0U);
  EXPECT_EQ(blkptr.fill_count(), 1U);
  EXPECT_TRUE(check(blkptr, {}).has_value());
}

TEST(Blkptr, EveryPointerSurvivesARoundTripInEitherOrder) {
  SCOPED_TRACE(test::rerun());
  std::mt19937_64 random(test::seed());
  for (int round = 0; round < 2000; ++round) {
    Blkptr blkptr;
    const unsigned copies = 1 + static_cast<unsigned>(random() % 3);
    for (unsigned i = 0; i < copies; ++i) {
      blkptr.dva[i] = {.vdev = static_cast<std::uint32_t>(random() % (1U << 24U)),
                       .asize = (1 + random() % 0xfffffe) << 9U,
                       .offset = (random() >> 11U) << 9U,
                       .gang = random() % 2 == 0};
    }
    blkptr.lsize = static_cast<std::uint32_t>(1 + random() % 65536) << 9U;
    blkptr.psize = static_cast<std::uint32_t>(1 + random() % 65536) << 9U;
    blkptr.compression = static_cast<Compression>(random() % 128);
    blkptr.checksum_type = static_cast<Checksum>(random() % 256);
    blkptr.type = static_cast<ObjectType>(random() % 256);
    blkptr.level = static_cast<std::uint8_t>(random() % 32);
    blkptr.dedup = random() % 2 == 0;
    blkptr.rewritten = random() % 2 == 0;
    blkptr.order = random() % 2 == 0 ? ByteOrder::little : ByteOrder::big;
    blkptr.physical_birth = random();
    blkptr.logical_birth = random();
    blkptr.fill = random();
    for (auto& word : blkptr.checksum) {
      word = random();
    }
    for (const ByteOrder order : {ByteOrder::little, ByteOrder::big}) {
      ASSERT_EQ(decode(encode(blkptr, order), order), blkptr);
    }
  }
}

TEST(Blkptr, AnyBytesDecodeAndAreJudgedWithoutHarm) {
  SCOPED_TRACE(test::rerun());
  std::mt19937_64 random(test::seed());
  const std::array<std::uint64_t, 3> sizes = {std::uint64_t{1} << 40, 0, std::uint64_t{1} << 30};
  for (int round = 0; round < 20000; ++round) {
    std::array<std::uint64_t, 16> words{};
    for (auto& word : words) {
      word = random() % 3 == 0 ? 0 : random();
    }
    const Blkptr blkptr = decode(from_words(words, ByteOrder::little), ByteOrder::little);
    if (check(blkptr, {sizes}) && !blkptr.is_hole() && !blkptr.embedded) {
      for (unsigned i = 0; i < blkptr.copies(); ++i) {
        ASSERT_LT(blkptr.dva[i].vdev, sizes.size());
        ASSERT_LE(blkptr.dva[i].offset, sizes[blkptr.dva[i].vdev]);
      }
    }
  }
}

struct Flaw {
  const char* name;
  std::function<void(Blkptr&)> make;
};
class BlkptrFlaw : public testing::TestWithParam<Flaw> {};

TEST_P(BlkptrFlaw, MayNotBeFollowed) {
  Blkptr blkptr = decode(from_words(kRealRoot, ByteOrder::little), ByteOrder::little);
  GetParam().make(blkptr);
  const std::array<std::uint64_t, 2> sizes = {std::uint64_t{64} << 20, 0};
  const auto verdict = check(blkptr, {sizes});
  ASSERT_FALSE(verdict.has_value());
  EXPECT_EQ(verdict.error().code(), Errc::corrupt);
}

INSTANTIATE_TEST_SUITE_P(
    Each, BlkptrFlaw,
    testing::Values(
        Flaw{"type", [](Blkptr& b) { b.type = static_cast<ObjectType>(54); }},
        Flaw{"newStyleType", [](Blkptr& b) { b.type = static_cast<ObjectType>(0x8a); }},
        Flaw{"compression", [](Blkptr& b) { b.compression = static_cast<Compression>(17); }},
        Flaw{"checksum", [](Blkptr& b) { b.checksum_type = static_cast<Checksum>(15); }},
        Flaw{"lsize", [](Blkptr& b) { b.lsize = (16U << 20U) + 512; }},
        Flaw{"psize", [](Blkptr& b) { b.psize = (16U << 20U) + 512; }},
        Flaw{"noFirstCopy", [](Blkptr& b) { b.dva[0].asize = 0; }},
        Flaw{"noSuchVdev", [](Blkptr& b) { b.dva[1].vdev = 2; }},
        Flaw{"holeVdev", [](Blkptr& b) { b.dva[2].vdev = 1; }},
        Flaw{"pastTheEnd", [](Blkptr& b) { b.dva[1].offset = (std::uint64_t{64} << 20) - 0x100; }},
        Flaw{"wrapping", [](Blkptr& b) { b.dva[1].offset = ~std::uint64_t{0} << 9U; }},
        Flaw{"mixedGang", [](Blkptr& b) { b.dva[1].gang = true; }}),
    [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace zuse::format
