// Compression: each algorithm's own example, round trips of every kind of data, outputs that do not
// fit, and streams that were tampered with.
#include "fs/codec/compress.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "tests/support/seed.h"
#include "vdev/base/on_disk.h"

namespace zuse::codec {
namespace {

using format::Compression;
using format::CompressionChoice;

using Bytes = std::vector<std::byte>;

Bytes bytes_of(std::initializer_list<int> values) {
  Bytes out;
  for (const int value : values) {
    out.push_back(static_cast<std::byte>(value));
  }
  return out;
}

std::vector<CompressionChoice> choices() {
  std::vector<CompressionChoice> out = {
      {Compression::lzjb, 0}, {Compression::zle, 0}, {Compression::lz4, 0}};
  for (int level = 1; level <= 9; ++level) {
    out.push_back({static_cast<Compression>(static_cast<int>(Compression::gzip1) + level - 1), 0});
  }
  for (const int level : {0, 1, 3, 9, 19, 103, 112, 113, 120, 121, 122, 123}) {
    out.push_back({Compression::zstd, static_cast<std::uint8_t>(level)});
  }
  return out;
}

class CompressTest : public testing::TestWithParam<CompressionChoice> {
 protected:
  // Runs, copies of earlier bytes and noise, mixed.
  Bytes some_data(std::size_t size) {
    Bytes out;
    out.reserve(size);
    while (out.size() < size) {
      const std::size_t run = std::min<std::size_t>(1 + random_() % 300, size - out.size());
      const auto kind = random_() % 4;
      const std::byte fill = kind == 0 ? std::byte{0} : static_cast<std::byte>(random_());
      const std::size_t back =
          out.empty() ? 0 : 1 + random_() % std::min<std::size_t>(out.size(), 2000);
      for (std::size_t i = 0; i < run; ++i) {
        out.push_back(kind <= 1                ? fill
                      : kind == 2 && back != 0 ? out[out.size() - back]
                                               : static_cast<std::byte>(random_()));
      }
    }
    return out;
  }

  std::mt19937_64 random_{test::seed()};
  const testing::ScopedTrace trace_{__FILE__, __LINE__, test::rerun()};
};

TEST_P(CompressTest, WhatWasCompressedComesBackWithAndWithoutPadding) {
  for (const std::size_t size : {512UL, 513UL, 4096UL, 16384UL, 131072UL, 1UL << 20U}) {
    for (int kind = 0; kind < 4; ++kind) {
      Bytes data = some_data(size);
      if (kind == 0) {
        std::ranges::fill(data, std::byte{'A'});
      } else if (kind == 1) {
        std::ranges::fill(std::span(data).subspan(size / 3), std::byte{0});
      }
      Bytes packed(2 * size + 1024);
      const auto length = compress(GetParam(), data, packed);
      ASSERT_TRUE(length.has_value());
      ASSERT_GT(*length, 0U) << size;
      Bytes back(size, std::byte{0xee});
      ASSERT_TRUE(
          decompress(GetParam().algorithm, std::span(packed).first(*length), back).has_value());
      ASSERT_EQ(back, data);
      std::ranges::fill(std::span(packed).subspan(*length), std::byte{0});
      std::ranges::fill(back, std::byte{0xee});
      const auto padded = decompress(GetParam().algorithm, packed, back);
      ASSERT_TRUE(padded.has_value()) << padded.error().what();
      ASSERT_EQ(back, data);
    }
  }
}

TEST_P(CompressTest, NothingIsWrittenPastTheRoomGivenAndTooLittleRoomGivesZero) {
  const Bytes data = some_data(16384);
  Bytes packed(40000);
  const std::size_t needed = *compress(GetParam(), data, packed);
  for (const std::size_t room : {0UL, 1UL, 5UL, 9UL, needed / 2, needed - 1}) {
    Bytes out(needed + 64, std::byte{0xcd});
    const auto length = compress(GetParam(), data, std::span(out).first(room));
    ASSERT_TRUE(length.has_value());
    EXPECT_LE(*length, room);
    EXPECT_TRUE(std::all_of(out.begin() + static_cast<std::ptrdiff_t>(room), out.end(),
                            [](std::byte byte) { return byte == std::byte{0xcd}; }));
    if (*length != 0) {  // some encoders find a shorter form when room is short
      Bytes back(data.size());
      ASSERT_TRUE(
          decompress(GetParam().algorithm, std::span(out).first(*length), back).has_value());
      EXPECT_EQ(back, data);
    }
  }
}

TEST_P(CompressTest, TamperedStreamsEndInAnErrorOrInBytesButNeverInHarm) {
  const Bytes data = some_data(8192);
  Bytes packed(20000);
  const std::size_t length = *compress(GetParam(), data, packed);
  packed.resize(length);
  for (int round = 0; round < 300; ++round) {
    Bytes broken = packed;
    for (auto flips = 1 + random_() % 4; flips > 0; --flips) {
      broken[random_() % (round % 2 == 0 ? broken.size() : std::min<std::size_t>(16, length))] =
          static_cast<std::byte>(random_());
    }
    broken.resize(random_() % 3 == 0 ? random_() % (length + 1) : length);
    Bytes back(round % 5 == 0 ? 4096 : 8192);
    (void)decompress(GetParam().algorithm, broken, back).has_value();
  }
  Bytes longer(data.size() + 512);
  EXPECT_EQ(decompress(GetParam().algorithm, packed, longer).error().code(), Errc::corrupt)
      << "the stream says fewer bytes than asked for";
  EXPECT_FALSE(decompress(GetParam().algorithm, {}, longer).has_value());
}

INSTANTIATE_TEST_SUITE_P(Each, CompressTest, testing::ValuesIn(choices()), [](const auto& each) {
  std::string name = to_string(each.param.algorithm);
  std::erase(name, '-');
  return name + (each.param.algorithm == Compression::zstd
                     ? "_level" + std::to_string(each.param.level)
                     : "");
});

TEST(Lzjb, TheStreamsOfTheFormatPageDecode) {
  // 128 letters A, as the reference encoder packs them. source: format page 02 section 4.1.
  Bytes stream = bytes_of({0x02, 0x41, 0xfc, 0x01, 0x41, 0x41, 0x41, 0x41, 0x41, 0x41});
  for (int group = 0; group < 7; ++group) {
    stream.push_back(std::byte{0});
    stream.insert(stream.end(), 8, std::byte{0x41});
  }
  Bytes out(128);
  ASSERT_TRUE(decompress(Compression::lzjb, std::span(stream).first(72), out).has_value());
  EXPECT_TRUE(std::ranges::all_of(out, [](std::byte byte) { return byte == std::byte{0x41}; }));
  // A match that overlaps itself, and is cut off at the end of the block.
  out.resize(11);
  const Bytes overlap = bytes_of({0x08, 0x61, 0x62, 0x63, 0xfc, 0x03});
  ASSERT_TRUE(decompress(Compression::lzjb, overlap, out).has_value());
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(out.data()), out.size()), "abcabcabcab");
}

TEST(Lzjb, AMatchBeforeTheStartIsRefused) {
  Bytes out(64);
  EXPECT_FALSE(decompress(Compression::lzjb, bytes_of({0x02, 0x61, 0x00, 0x02, 0, 0}), out));
  EXPECT_FALSE(decompress(Compression::lzjb, bytes_of({0x02, 0x61, 0x00, 0x00, 0, 0}), out));
}

TEST(Zle, TheExampleOfTheFormatPageEncodesAndDecodes) {
  // source: format page 02 section 4.2.
  Bytes data = bytes_of({'a', 'b'});
  data.resize(302);
  for (const int value : {int{'c'}, 0, int{'d'}}) {
    data.push_back(static_cast<std::byte>(value));
  }
  const Bytes stream = bytes_of({0x01, 0x61, 0x62, 0xff, 0xab, 0x02, 0x63, 0x00, 0x64});
  Bytes out(305);
  ASSERT_TRUE(decompress(Compression::zle, stream, out).has_value());
  EXPECT_EQ(out, data);
  Bytes packed(64);
  const std::size_t length = *compress({Compression::zle, 0}, data, packed);
  EXPECT_EQ(Bytes(packed.begin(), packed.begin() + static_cast<std::ptrdiff_t>(length)), stream);
}

TEST(Zstd, TheHeaderCarriesLengthLevelAndVersionAndNoMagic) {
  const Bytes data(4096, std::byte{7});
  Bytes packed(4096);
  const std::size_t length = *compress({Compression::zstd, 0}, data, packed);
  EXPECT_EQ(load_at<std::uint32_t>(packed, 0, ByteOrder::big), length - 8);
  EXPECT_EQ(packed[4], std::byte{3});
  EXPECT_EQ(packed[5], std::byte{0});
  EXPECT_NE(load_at<std::uint32_t>(packed, 8, ByteOrder::little), 0xfd2fb528U);
  // Old big-endian writers: version first, then the level.
  std::rotate(packed.begin() + 4, packed.begin() + 5, packed.begin() + 8);
  Bytes back(4096);
  EXPECT_TRUE(decompress(Compression::zstd, packed, back).has_value());
  EXPECT_EQ(back, data);
  packed[7] = std::byte{50};
  EXPECT_FALSE(decompress(Compression::zstd, packed, back).has_value()) << "no such level";
}

TEST(Zstd, LevelBytesStandForTheLevelsOfTheTable) {
  EXPECT_EQ(*zstd_level(19), 19);
  EXPECT_EQ(*zstd_level(103), -1);
  EXPECT_EQ(*zstd_level(112), -10);
  EXPECT_EQ(*zstd_level(113), -20);
  EXPECT_EQ(*zstd_level(120), -90);
  EXPECT_EQ(*zstd_level(121), -100);
  EXPECT_EQ(*zstd_level(123), -1000);
  for (const int wrong : {0, 20, 102, 124, 255}) {
    EXPECT_FALSE(zstd_level(static_cast<std::uint8_t>(wrong)).has_value()) << wrong;
  }
}

TEST(Compress, UnknownAlgorithmsAreRefusedByName) {
  Bytes out(64);
  EXPECT_EQ(decompress(static_cast<Compression>(17), out, out).error().code(), Errc::unsupported);
  EXPECT_EQ(compress({Compression::off, 0}, out, out).error().code(), Errc::unsupported);
  EXPECT_EQ(check_supported(Compression::empty).error().code(), Errc::unsupported);
}

TEST(Compress, OnlyZerosAreAllZero) {
  Bytes data(4096);
  EXPECT_TRUE(all_zero(data));
  EXPECT_TRUE(all_zero({}));
  for (const std::size_t at :
       {std::size_t{0}, std::size_t{1}, std::size_t{2048}, std::size_t{4095}}) {
    data[at] = std::byte{1};
    EXPECT_FALSE(all_zero(data)) << at;
    data[at] = std::byte{0};
  }
}

}  // namespace
}  // namespace zuse::codec
