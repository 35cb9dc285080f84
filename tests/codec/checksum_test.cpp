// Checksums against the vectors of the format pages, each implementation against the definition,
// and seals: what a verifier protects, in both byte orders.
#include "fs/codec/checksum.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/seed.h"
#include "vdev/base/on_disk.h"

namespace zuse::codec {
namespace {

using format::Checksum;

std::vector<std::byte> ramp(std::size_t size) {
  std::vector<std::byte> out(size);
  for (std::size_t i = 0; i < size; ++i) {
    out[i] = static_cast<std::byte>(i);
  }
  return out;
}

std::vector<std::byte> random_bytes(std::mt19937_64& random, std::size_t size) {
  std::vector<std::byte> out(size);
  std::ranges::generate(out, [&] { return static_cast<std::byte>(random()); });
  return out;
}

struct Vector {
  const char* name;
  std::vector<std::byte> input;
  ChecksumWords fletcher2, fletcher4;
};
// source: format page 02 section 3.2.
const Vector kVectors[] = {
    {"ramp256",
     ramp(256),
     {0xf7e7d7c7b7a79780, 0x7868584838281800, 0x65dd54cc43bb3280, 0xaa21991087ff76c0},
     {0x00000020601fdf80, 0x000002c59d754a80, 0x00002e430f9bfd40, 0x000272f2245444c0}},
    {"ramp512",
     ramp(512),
     {0xefcfaf8f6f4f2f00, 0xf0d0b09070503000, 0x4a38261401efdd00, 0xdac8b6a492806d80},
     {0x00000040c03fbf00, 0x00000da342e27500, 0x000214fa7f828a80, 0x003d9765c9f3c980}},
    {"ramp4096",
     ramp(4096),
     {0x7e7d7c7b7a797800, 0x8685848382818000, 0xa8a7a6a5a4a36800, 0xb0afaeadacab6c00},
     {0x0000020601fdf800, 0x0003f79d9385a800, 0x053e7f19ab335400, 0x3422b083068a4c00}},
    {"ones",
     std::vector<std::byte>(512, std::byte{0xff}),
     {0xffffffffffffffe0, 0xffffffffffffffe0, 0xfffffffffffffdf0, 0xfffffffffffffdf0},
     {0x0000007fffffff80, 0x0000203fffffdfc0, 0x0005757ffffa8a80, 0x00b2c81fff4d37e0}},
    {"zeros", std::vector<std::byte>(512), {0, 0, 0, 0}, {0, 0, 0, 0}},
};

TEST(Checksum, FletcherSumsEqualTheVectors) {
  for (const Vector& vector : kVectors) {
    EXPECT_EQ(compute(Checksum::fletcher2, vector.input, ByteOrder::little), vector.fletcher2)
        << vector.name;
    EXPECT_EQ(compute(Checksum::fletcher4, vector.input, ByteOrder::little), vector.fletcher4)
        << vector.name;
  }
  std::vector<std::byte> one(512);
  one[0] = std::byte{1};
  EXPECT_EQ(compute(Checksum::fletcher2, one, ByteOrder::little), (ChecksumWords{1, 0, 0x20, 0}));
  EXPECT_EQ(compute(Checksum::fletcher4, one, ByteOrder::little),
            (ChecksumWords{1, 0x80, 0x2040, 0x57580}));
  EXPECT_EQ(compute(Checksum::fletcher4, ramp(256), ByteOrder::big),
            (ChecksumWords{0x0000001f9fe02040, 0x000002ad355d82e0, 0x00002c2a1d90d580,
                           0x00024fd04e196af0}));
}

TEST(Checksum, HashesEqualTheVectorsWhateverTheOrderOfTheBlock) {
  for (const ByteOrder order : {ByteOrder::little, ByteOrder::big}) {
    EXPECT_EQ(compute(Checksum::sha256, ramp(256), order),
              (ChecksumWords{0x40aff2e9d2d8922e, 0x47afd4648e696749, 0x7158785fbd1da870,
                             0xe7110266bf944880}));
    EXPECT_EQ(compute(Checksum::sha256, ramp(512), order),
              (ChecksumWords{0x110009dcee21620b, 0x166f3abfecb5eff7, 0xa873be729d1c2d53,
                             0x822e7acc5f34eb9b}));
    EXPECT_EQ(compute(Checksum::sha256, std::vector<std::byte>(512), order),
              (ChecksumWords{0x076a27c79e5ace2a, 0x3d47f9dd2e83e4ff, 0x6ea8872b3c2218f6,
                             0x6c92b89b55f36560}));
  }
  const ChecksumWords little = compute(Checksum::sha512, ramp(512), ByteOrder::little);
  EXPECT_EQ(little, (ChecksumWords{0x6cf5b1411d91141d, 0x0ea8ddb86fa627f0, 0x991896779c0da9d7,
                                   0x3bdc08f7e9f3faed}));
  const ChecksumWords big = compute(Checksum::sha512, ramp(512), ByteOrder::big);
  for (std::size_t i = 0; i < big.size(); ++i) {
    EXPECT_EQ(big[i], byteswap(little[i]));  // the same digest bytes, read the other way
  }
}

class Fletcher4Test : public testing::TestWithParam<const Fletcher4*> {
 protected:
  std::mt19937_64 random_{test::seed()};
  const testing::ScopedTrace trace_{__FILE__, __LINE__, test::rerun()};
};

// The sum by weights instead of running additions: unit i of n counts 1, r, r(r+1)/2 and
// r(r+1)(r+2)/6 times with r = n - i. Shares no step with the implementations.
ChecksumWords by_weights(std::span<const std::byte> data, ByteOrder order) {
  __extension__ using Wide = unsigned __int128;
  ChecksumWords out{};
  const std::size_t units = data.size() / 4;
  for (std::size_t i = 0; i < units; ++i) {
    const std::uint64_t x = load_at<std::uint32_t>(data, i * 4, order);
    const Wide r = units - i;
    out[0] += x;
    out[1] += x * static_cast<std::uint64_t>(r);
    out[2] += x * static_cast<std::uint64_t>(r * (r + 1) / 2);
    out[3] += x * static_cast<std::uint64_t>(r * (r + 1) * (r + 2) / 6);
  }
  return out;
}

TEST_P(Fletcher4Test, EqualsTheSumByWeightsAtEverySize) {
  for (std::size_t size = 0; size <= 600; size += 4) {
    const auto data = random_bytes(random_, size);
    for (const ByteOrder order : {ByteOrder::little, ByteOrder::big}) {
      ChecksumWords out{};
      GetParam()->sum(data.data(), data.size(), order != kHostOrder, out.data());
      ASSERT_EQ(out, by_weights(data, order)) << size;
    }
  }
  for (const std::size_t size :
       {std::size_t{131072}, std::size_t{1} << 20U, std::size_t{16} << 20}) {
    auto data = random_bytes(random_, 4096);
    data.resize(size, std::byte{0xff});
    std::ranges::reverse(data);  // carries where the sums are largest
    ChecksumWords out{};
    GetParam()->sum(data.data(), data.size(), false, out.data());
    ASSERT_EQ(out, by_weights(data, kHostOrder)) << size;
  }
}

INSTANTIATE_TEST_SUITE_P(Each, Fletcher4Test,
                         testing::ValuesIn(fletcher4_implementations().begin(),
                                           fletcher4_implementations().end()),
                         [](const auto& each) { return each.param->name; });

TEST(Checksum, VerifyTellsRightFromWrong) {
  auto data = ramp(4096);
  for (const Checksum algorithm :
       {Checksum::fletcher2, Checksum::fletcher4, Checksum::sha256, Checksum::sha512}) {
    const auto words = compute(algorithm, data, ByteOrder::little);
    EXPECT_TRUE(verify(algorithm, data, ByteOrder::little, words).has_value());
    data[77] ^= std::byte{4};
    EXPECT_EQ(verify(algorithm, data, ByteOrder::little, words).error().code(), Errc::checksum);
    data[77] ^= std::byte{4};
  }
  EXPECT_TRUE(verify(Checksum::off, data, ByteOrder::little, {1, 2, 3, 4}).has_value());
}

TEST(Checksum, WhatWeLackIsRefusedByName) {
  for (const Checksum algorithm : {Checksum::skein, Checksum::edonr, Checksum::blake3}) {
    const auto verdict = verify(algorithm, ramp(512), ByteOrder::little, {});
    ASSERT_FALSE(verdict.has_value());
    EXPECT_EQ(verdict.error().code(), Errc::unsupported);
    EXPECT_NE(verdict.error().what().find(to_string(algorithm)), std::string::npos);
  }
  EXPECT_EQ(check_supported(static_cast<Checksum>(200)).error().code(), Errc::unsupported);
}

TEST(Checksum, AnEncryptedBlocksSumIsFoldedOrCut) {
  const auto data = ramp(4096);
  format::Blkptr blkptr;
  blkptr.encrypted = true;
  blkptr.type = format::ObjectType::plain_file;
  blkptr.checksum_type = Checksum::fletcher4;
  blkptr.order = ByteOrder::little;
  const auto sum = compute(Checksum::fletcher4, data, ByteOrder::little);
  blkptr.checksum = {sum[0] ^ sum[2], sum[1] ^ sum[3], 111, 222};
  EXPECT_TRUE(verify_block(blkptr, data).has_value());
  blkptr.checksum[1] ^= 1;
  EXPECT_EQ(verify_block(blkptr, data).error().code(), Errc::checksum);
  blkptr.checksum_type = Checksum::sha256;
  const auto hash = compute(Checksum::sha256, data, ByteOrder::little);
  blkptr.checksum = {hash[0], hash[1], 111, 222};
  EXPECT_TRUE(verify_block(blkptr, data).has_value());
}

struct SealVector {
  std::size_t size;
  std::uint64_t offset;
  ChecksumWords words;
};
// Seals of an otherwise empty label area. source: format page 02 section 3.2.
const SealVector kSeals[] = {
    {1024,
     0x20000,
     {0x983be871da3047a9, 0x048a3e6f63c266c3, 0xa8a57aff47276e01, 0xd99a1a18cafdede2}},
    {1024,
     0x20400,
     {0xdc7d4f71ac120651, 0xcc20aebc7c223b51, 0x15e6ae91f852283c, 0x23ce5070b05d5286}},
    {114688,
     0x4000,
     {0x5a058067f7f08a9c, 0x4e1c1430a100ae08, 0x5a417d2b732e12ae, 0xec9067a10083250a}},
};

TEST(Seal, LabelSealsEqualTheVectors) {
  for (const SealVector& vector : kSeals) {
    std::vector<std::byte> block(vector.size);
    seal(Checksum::label, block, {vector.offset, 0, 0, 0}, ByteOrder::little);
    EXPECT_EQ(load_at<std::uint64_t>(block, vector.size - 40, ByteOrder::little), kSealMagic);
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(load_at<std::uint64_t>(block, vector.size - 32 + 8 * i, ByteOrder::little),
                vector.words[i]);
    }
  }
}

TEST(Seal, TellsTheWritersOrderAndNoticesDamageAndOtherPlaces) {
  SCOPED_TRACE(test::rerun());
  std::mt19937_64 random(test::seed());
  for (const Checksum kind :
       {Checksum::label, Checksum::gang_header, Checksum::zilog, Checksum::zilog2}) {
    for (const ByteOrder order : {ByteOrder::little, ByteOrder::big}) {
      auto block = random_bytes(random, 12288);
      const std::size_t used = 5000;
      if (kind == Checksum::zilog2) {
        store_at<std::uint64_t>(block, kZilog2UsedOffset, used, order);
      }
      const ChecksumWords verifier = {random(), random(), random(), random()};
      seal(kind, block, verifier, order);
      const auto verdict = verify_sealed(kind, block, verifier);
      ASSERT_TRUE(verdict.has_value()) << to_string(kind);
      EXPECT_EQ(*verdict, order);
      ChecksumWords elsewhere = verifier;
      elsewhere[0] ^= 1;
      EXPECT_FALSE(verify_sealed(kind, block, elsewhere).has_value()) << to_string(kind);
      auto damaged = block;
      damaged[200] ^= std::byte{1};
      EXPECT_FALSE(verify_sealed(kind, damaged, verifier).has_value()) << to_string(kind);
      if (kind == Checksum::zilog2) {
        damaged = block;
        damaged[8192] ^= std::byte{1};  // past what the bytes in use are rounded up to
        EXPECT_TRUE(verify_sealed(kind, damaged, verifier).has_value());
      }
    }
  }
}

TEST(Seal, BlocksThatCannotHoldOneAreJustNotSealed) {
  for (const Checksum kind : {Checksum::label, Checksum::zilog, Checksum::zilog2}) {
    for (std::size_t size = 0; size < 200; ++size) {
      EXPECT_FALSE(verify_sealed(kind, std::vector<std::byte>(size), {}).has_value());
    }
  }
  std::vector<std::byte> block(4096);
  store_at<std::uint64_t>(block, 144, kSealMagic, ByteOrder::little);
  store_at<std::uint64_t>(block, kZilog2UsedOffset, ~std::uint64_t{0}, ByteOrder::little);
  EXPECT_FALSE(verify_sealed(Checksum::zilog2, block, {}).has_value());
}

}  // namespace
}  // namespace zuse::codec
