#include "fs/pool/io_pipeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "fs/codec/checksum.h"
#include "fs/format/gang.h"
#include "fs/pool/label.h"
#include "tests/pool/io/rig.h"
#include "tests/support/seed.h"

namespace zuse::pool {
namespace {

using format::Checksum;
using format::Compression;
using vdev::VdevType;

constexpr Bookmark kAt{21, 8, 0, 3};

WriteProperties plain_data(Compression compression = Compression::off, unsigned copies = 1) {
  WriteProperties properties;
  properties.type = format::ObjectType::plain_file;
  properties.compression = {compression, 0};
  properties.copies = copies;
  properties.data = true;
  return properties;
}

void expect_reads(Rig& rig, const format::Blkptr& blkptr, std::span<const std::byte> data) {
  rig.storage().cache().drop();
  const auto read = rig.pipeline().read(blkptr, kAt);
  ASSERT_TRUE(read) << read.error().what();
  ASSERT_TRUE(std::ranges::equal((*read)->span(), data));
}

struct Shape {
  const char* name;
  std::vector<TopSpec> tops;
};

class PipelineTest : public testing::TestWithParam<Shape> {
 protected:
  std::mt19937_64 rng_{test::seed()};
  const testing::ScopedTrace trace_{__FILE__, __LINE__, test::rerun()};
};

TEST_P(PipelineTest, GivesBackWhatItWasGivenWithEveryChecksumAndCompression) {
  Rig rig(GetParam().tops);
  const unsigned ashift = GetParam().tops[0].ashift;
  for (unsigned compression = 2; compression <= 16; ++compression) {
    for (const Checksum checksum :
         {Checksum::on, Checksum::off, Checksum::fletcher2, Checksum::fletcher4, Checksum::sha256,
          Checksum::sha512, Checksum::noparity}) {
      const std::size_t size = (rng_() % 256 + 1) * 512;
      const std::vector<std::byte> data = some_data(rng_, size);
      WriteProperties properties = plain_data(static_cast<Compression>(compression));
      properties.checksum = checksum;
      properties.copies = static_cast<unsigned>(rng_() % 3 + 1);
      const format::Blkptr blkptr = rig.write(data, properties);
      ASSERT_EQ(blkptr.lsize, size);
      ASSERT_EQ(blkptr.copies(), properties.copies);
      ASSERT_TRUE(rig.pipeline().check_pointer(blkptr));
      if (blkptr.compression != Compression::off) {
        ASSERT_LE(blkptr.psize, size - size / 8);
        ASSERT_EQ(blkptr.psize % (1U << ashift), 0U);
      } else {
        ASSERT_EQ(blkptr.psize, size);
      }
      ASSERT_NO_FATAL_FAILURE(expect_reads(rig, blkptr, data))
          << "compression " << compression << " checksum " << static_cast<int>(checksum);
    }
  }
}

TEST_P(PipelineTest, GivesBackManyBlocksAtOnce) {
  Rig rig(GetParam().tops);
  std::vector<std::vector<std::byte>> data;
  std::vector<BlockWriteJob> jobs(100);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    data.push_back(some_data(rng_, (rng_() % 256 + 1) * 512));
    jobs[i].data = data[i];
    jobs[i].properties = plain_data(i % 2 == 0 ? Compression::lz4 : Compression::off);
    jobs[i].bookmark = {1, 2, 0, i};
  }
  rig.pipeline().write(4, jobs);
  std::vector<format::Blkptr> blkptrs;
  std::vector<Bookmark> bookmarks;
  for (const BlockWriteJob& job : jobs) {
    ASSERT_TRUE(job.result) << job.result.error().what();
    blkptrs.push_back(job.blkptr);
    bookmarks.push_back(job.bookmark);
  }
  std::vector<Result<SharedBuffer>> results(jobs.size());
  for (const bool warm : {false, true}) {
    const std::uint64_t before = rig.stats().reads;
    rig.pipeline().read_many(blkptrs, bookmarks, results);
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      ASSERT_TRUE(results[i]) << results[i].error().what();
      ASSERT_TRUE(std::ranges::equal((*results[i])->span(), data[i]));
    }
    ASSERT_EQ(rig.stats().reads == before, warm);
  }
}

TEST_P(PipelineTest, HealsWhatRedundancyAllows) {
  Rig rig(GetParam().tops);
  const TopSpec& top = GetParam().tops[0];
  const unsigned tolerated = top.type == VdevType::raidz    ? top.parity
                             : top.type == VdevType::mirror ? top.leaves - 1
                                                            : 0;
  std::vector<std::pair<format::Blkptr, std::vector<std::byte>>> blocks;
  for (int i = 0; i < 40; ++i) {
    std::vector<std::byte> data = some_data(rng_, (rng_() % 64 + 1) * 512);
    blocks.emplace_back(rig.write(data, plain_data(Compression::lz4)), std::move(data));
  }
  for (unsigned t = 0; t < GetParam().tops.size(); ++t) {
    for (unsigned l = 0; l < tolerated; ++l) {
      rig.scribble(t, l, rng_());
    }
  }
  for (const auto& [blkptr, data] : blocks) {
    ASSERT_NO_FATAL_FAILURE(expect_reads(rig, blkptr, data));
  }
  if (tolerated == 0) {
    return;
  }
  EXPECT_GT(rig.stats().bytes_repaired, 0U);
  EXPECT_GT(rig.stats().checksum_errors, 0U);
  EXPECT_TRUE(rig.pipeline().error_log().list().empty());
  // A scrub sets right what the reads did not need; then everything is as if nothing had been.
  std::vector<format::Blkptr> blkptrs;
  std::vector<Bookmark> bookmarks;
  for (const auto& [blkptr, data] : blocks) {
    blkptrs.push_back(blkptr);
    bookmarks.push_back(kAt);
  }
  std::vector<ScrubResult> results(blkptrs.size());
  rig.pipeline().scrub(blkptrs, bookmarks, results);
  rig.pipeline().scrub(blkptrs, bookmarks, results);
  for (const ScrubResult& result : results) {
    ASSERT_TRUE(result.result);
    ASSERT_EQ(result.errors, 0U);
    ASSERT_EQ(result.repaired, 0U);
    ASSERT_GT(result.examined, 0U);
  }
}

TEST_P(PipelineTest, NamesTheBlockThatIsLost) {
  Rig rig(GetParam().tops);
  const std::vector<std::byte> data = some_data(rng_, 8192);
  const format::Blkptr blkptr = rig.write(data, plain_data(Compression::off), 4, kAt);
  rig.storage().cache().drop();
  for (unsigned t = 0; t < GetParam().tops.size(); ++t) {
    for (unsigned l = 0; l < GetParam().tops[t].leaves; ++l) {
      rig.scribble(t, l, rng_());
    }
  }
  const auto read = rig.pipeline().read(blkptr, kAt);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code(), Errc::checksum);
  EXPECT_EQ(rig.pipeline().error_log().list(), (std::vector<BlockError>{{kAt, 4}}));
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, PipelineTest,
    testing::Values(Shape{"stripe", {{}, {}}}, Shape{"leaf4k", {{VdevType::file, 1, 0, 12}}},
                    Shape{"mirror", {{VdevType::mirror, 3, 0, 9}}},
                    Shape{"raidz1", {{VdevType::raidz, 3, 1, 9}}},
                    Shape{"raidz2", {{VdevType::raidz, 5, 2, 12}}},
                    Shape{"raidz3", {{VdevType::raidz, 7, 3, 9}, {VdevType::raidz, 7, 3, 9}}}),
    [](const auto& param_info) { return std::string(param_info.param.name); });

TEST(Pipeline, MakesHolesOfZerosUnlessCompressionIsOff) {
  Rig rig(kPlain);
  const std::vector<std::byte> zeros(4096);
  EXPECT_EQ(rig.write(zeros, plain_data(Compression::lz4)), format::Blkptr{});
  EXPECT_FALSE(rig.write(zeros, plain_data(Compression::off)).is_hole());

  rig.pipeline().set_features({.hole_birth = true});
  EXPECT_EQ(rig.write(zeros, plain_data(Compression::lz4)), format::Blkptr{}) << "it never was";
  format::Blkptr before;
  before.logical_birth = 3;
  const format::Blkptr hole = rig.write(zeros, plain_data(Compression::lz4), 9, {}, before);
  EXPECT_TRUE(hole.is_hole());
  EXPECT_EQ(hole.logical_birth, 9U);
  EXPECT_EQ(hole.lsize, 4096U);
  EXPECT_EQ(hole.type, format::ObjectType::plain_file);
  const auto read = rig.pipeline().read(hole, kAt, {.hole_size = 1024});
  ASSERT_TRUE(read);
  EXPECT_EQ((*read)->size(), 1024U);
}

TEST(Pipeline, PutsTinyBlocksIntoTheirPointerOnlyIfAllowed) {
  Rig rig({{VdevType::file, 1, 0, 12}});
  std::vector<std::byte> data(131072);
  data[70000] = std::byte{7};
  EXPECT_FALSE(rig.write(data, plain_data(Compression::gzip9)).embedded);
  rig.pipeline().set_features({.embedded_data = true});
  const std::uint64_t before = rig.storage().allocator().allocated();
  const format::Blkptr blkptr = rig.write(data, plain_data(Compression::gzip9));
  EXPECT_TRUE(blkptr.embedded || blkptr.psize > 112);
  std::vector<std::byte> small(4096);
  small[1] = std::byte{9};
  const format::Blkptr tiny = rig.write(small, plain_data(Compression::lz4));
  ASSERT_TRUE(tiny.embedded);
  EXPECT_EQ(rig.pipeline().dsize(tiny), 0U);
  EXPECT_EQ(tiny.fill_count(), 1U);
  // As it comes back from the disk.
  const format::Blkptr again =
      format::decode(format::encode(tiny, ByteOrder::little), ByteOrder::little);
  expect_reads(rig, again, small);
  WriteProperties dnodes = plain_data(Compression::lz4);
  dnodes.type = format::ObjectType::dnode;
  EXPECT_FALSE(rig.write(small, dnodes).embedded);
  EXPECT_GT(rig.storage().allocator().allocated(), before);
}

TEST(Pipeline, KeepsToTheRuleOfOneEighthSaved) {
  Rig rig({{VdevType::file, 1, 0, 12}});
  std::mt19937_64 rng(1);
  std::vector<std::byte> data(16384);
  for (std::byte& byte : data) {
    byte = static_cast<std::byte>(rng());
  }
  // 1/8 of 16 KiB is 2 KiB, but only a whole sector of 4 KiB saved counts.
  std::fill_n(data.begin(), 3000, std::byte{0});
  EXPECT_EQ(rig.write(data, plain_data(Compression::lz4)).compression, Compression::off);
  std::fill_n(data.begin(), 4500, std::byte{0});
  const format::Blkptr saved = rig.write(data, plain_data(Compression::lz4));
  EXPECT_EQ(saved.compression, Compression::lz4);
  EXPECT_EQ(saved.psize, 12288U);
}

TEST(Pipeline, RewritesInPlaceWhatWasBornInTheSameGroup) {
  Rig rig(kPlain);
  std::mt19937_64 rng(2);
  const std::vector<std::byte> one = some_data(rng, 4096), two = some_data(rng, 4096);
  const format::Blkptr first = rig.write(one, plain_data(), 7);
  const format::Blkptr second = rig.write(two, plain_data(), 7, {}, first);
  EXPECT_EQ(first.dva, second.dva);
  expect_reads(rig, second, two);
  const format::Blkptr third = rig.write(one, plain_data(), 8, {}, second);
  EXPECT_NE(third.dva, second.dva);
  expect_reads(rig, second, two);
  const format::Blkptr longer = rig.write(some_data(rng, 8192), plain_data(), 8, {}, third);
  EXPECT_NE(longer.dva, third.dva);
}

TEST(Pipeline, DoesNotAnswerFromTheCacheWithAnOlderVersionOfAPlace) {
  Rig rig(kPlain);
  std::mt19937_64 rng(3);
  const std::vector<std::byte> one = some_data(rng, 4096), two = some_data(rng, 4096);
  const format::Blkptr first = rig.write(one, plain_data(), 7);
  ASSERT_TRUE(rig.pipeline().read(first, kAt));
  ASSERT_NE(rig.pipeline().cached(first), nullptr);
  const format::Blkptr second = rig.write(two, plain_data(), 7, {}, first);
  const auto read = rig.pipeline().read(second, kAt);
  ASSERT_TRUE(read);
  EXPECT_TRUE(std::ranges::equal((*read)->span(), two));
  rig.pipeline().free(7, second);
  EXPECT_EQ(rig.pipeline().cached(second), nullptr);
}

TEST(Pipeline, RefusesWhatItCannotDoAndSaysWhat) {
  Rig rig(kPlain);
  const std::vector<std::byte> data(512, std::byte{1});
  const auto refused = [&](WriteProperties properties, std::span<const std::byte> bytes) {
    BlockWriteJob job;
    job.data = bytes;
    job.properties = properties;
    rig.pipeline().write(4, std::span(&job, 1));
    EXPECT_FALSE(job.result);
    return job.result ? Errc::io : job.result.error().code();
  };
  WriteProperties properties = plain_data();
  for (const Checksum salted : {Checksum::skein, Checksum::edonr, Checksum::blake3}) {
    properties.checksum = salted;
    EXPECT_EQ(refused(properties, data), Errc::unsupported);
  }
  properties.checksum = Checksum::label;
  EXPECT_EQ(refused(properties, data), Errc::invalid);
  EXPECT_EQ(refused(plain_data(), std::span(data).first(100)), Errc::invalid);

  format::Blkptr foreign = rig.write(data, plain_data());
  foreign.order = ByteOrder::big;
  EXPECT_EQ(rig.pipeline().read(foreign, kAt).error().code(), Errc::unsupported);
  format::Blkptr outside = rig.write(data, plain_data());
  outside.dva[0].offset = std::uint64_t{1} << 40;
  EXPECT_EQ(rig.pipeline().read(outside, kAt).error().code(), Errc::corrupt);
  outside.dva[0] = {9, 512, 0, false};
  EXPECT_EQ(rig.pipeline().read(outside, kAt).error().code(), Errc::corrupt);
}

TEST(Pipeline, SaysWhenThePoolIsFull) {
  Rig rig(kPlain);
  std::mt19937_64 rng(4);
  const std::vector<std::byte> data = some_data(rng, 1 << 20);
  Result<void> last;
  std::uint64_t written = 0;
  for (int i = 0; i < 200 && last; ++i) {
    BlockWriteJob job;
    job.data = data;
    job.properties = plain_data();
    rig.pipeline().write(4, std::span(&job, 1));
    last = std::move(job.result);
    written += last ? 1U : 0U;
  }
  ASSERT_FALSE(last);
  EXPECT_EQ(last.error().code(), Errc::no_space);
  EXPECT_GE(written, 80U);
}

TEST(Pipeline, ReadsAnotherCopyAndRepairsTheBadOne) {
  std::mt19937_64 rng(test::seed());
  SCOPED_TRACE(test::rerun());
  Rig rig({{}, {}, {}});
  std::vector<std::pair<format::Blkptr, std::vector<std::byte>>> blocks;
  for (int i = 0; i < 30; ++i) {
    std::vector<std::byte> data = some_data(rng, 4096);
    blocks.emplace_back(rig.write(data, plain_data(Compression::lz4, 2)), std::move(data));
  }
  rig.scribble(1, 0, rng());
  std::vector<format::Blkptr> blkptrs;
  for (const auto& [blkptr, data] : blocks) {
    ASSERT_NE(blkptr.dva[0].vdev, blkptr.dva[1].vdev);
    ASSERT_NO_FATAL_FAILURE(expect_reads(rig, blkptr, data));
    blkptrs.push_back(blkptr);
  }
  const std::vector<Bookmark> bookmarks(blkptrs.size(), kAt);
  std::vector<ScrubResult> results(blkptrs.size());
  rig.pipeline().scrub(blkptrs, bookmarks, results);
  std::uint64_t repaired = 0;
  for (const ScrubResult& result : results) {
    ASSERT_TRUE(result.result);
    repaired += result.repaired;
    EXPECT_EQ(result.copies_lost, 0U);
  }
  EXPECT_GT(repaired, 0U);
  // The repaired copies can now carry the pool alone.
  rig.scribble(0, 0, rng());
  rig.scribble(2, 0, rng());
  for (const auto& [blkptr, data] : blocks) {
    if (blkptr.dva[0].vdev == 1 || blkptr.dva[1].vdev == 1) {
      ASSERT_NO_FATAL_FAILURE(expect_reads(rig, blkptr, data));
    }
  }
}

TEST(Pipeline, OneReadServesAllWhoAskAtOnce) {
  Rig rig({{VdevType::raidz, 5, 2, 12}});
  std::mt19937_64 rng(5);
  const std::vector<std::byte> data = some_data(rng, 131072);
  const format::Blkptr blkptr = rig.write(data, plain_data());
  for (int round = 0; round < 50; ++round) {
    rig.storage().cache().drop();
    const std::uint64_t before = rig.stats().bytes_read;
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        const auto read = rig.pipeline().read(blkptr, kAt);
        ASSERT_TRUE(read);
        ASSERT_TRUE(std::ranges::equal((*read)->span(), data));
      });
    }
    threads.clear();
    // Whoever comes late finds it in the cache: never more than one reading of the data columns.
    ASSERT_LE(rig.stats().bytes_read - before, 2 * data.size());
  }
}

// A gang block by hand: header and children placed through the vdev tree.
class GangTest : public testing::Test {
 protected:
  format::Blkptr place(std::span<const std::byte> bytes) {
    auto dvas = rig_.storage().allocator().allocate({bytes.size(), 1, 4, true});
    EXPECT_TRUE(dvas);
    format::Blkptr blkptr;
    blkptr.dva = *dvas;
    blkptr.lsize = blkptr.psize = static_cast<std::uint32_t>(bytes.size());
    blkptr.compression = Compression::off;
    blkptr.checksum_type = Checksum::fletcher4;
    blkptr.logical_birth = 4;
    blkptr.checksum = codec::compute(Checksum::fletcher4, bytes, kHostOrder);
    put(blkptr, bytes);
    return blkptr;
  }
  format::Blkptr gang(std::span<const std::byte> bytes,
                      const std::vector<format::Blkptr>& children) {
    std::vector<std::byte> header(512);
    format::GangHeader contents;
    std::copy(children.begin(), children.end(), contents.child.begin());
    format::encode_gang_header(contents, header, kHostOrder);
    auto dvas = rig_.storage().allocator().allocate({512, 1, 4, false});
    EXPECT_TRUE(dvas);
    format::Blkptr blkptr;
    blkptr.dva = *dvas;
    blkptr.dva[0].gang = true;
    for (const format::Blkptr& child : children) {
      blkptr.dva[0].asize += child.dva[0].asize;
    }
    blkptr.lsize = blkptr.psize = static_cast<std::uint32_t>(bytes.size());
    blkptr.compression = Compression::off;
    blkptr.checksum_type = Checksum::fletcher4;
    blkptr.logical_birth = 4;
    blkptr.type = format::ObjectType::plain_file;
    codec::seal(Checksum::gang_header, header, format::gang_verifier(blkptr), kHostOrder);
    put(blkptr, header);
    return blkptr;
  }
  void put(const format::Blkptr& blkptr, std::span<const std::byte> bytes) {
    vdev::BlockWrite write;
    write.top = blkptr.dva[0].vdev;
    write.offset = blkptr.dva[0].offset;
    write.data = bytes;
    write.txg = 4;
    rig_.storage().tree().write(std::span(&write, 1));
    ASSERT_TRUE(write.result);
  }

  std::mt19937_64 rng_{test::seed()};
  const testing::ScopedTrace trace_{__FILE__, __LINE__, test::rerun()};
  Rig rig_{{{VdevType::raidz, 4, 1, 12}, {VdevType::raidz, 4, 1, 12}}};
};

TEST_F(GangTest, IsReadScrubbedAndFreedWithAllItsParts) {
  const std::vector<std::byte> data = some_data(rng_, 40960);
  const auto part = [&](std::size_t from, std::size_t size) {
    return std::span<const std::byte>(data).subspan(from, size);
  };
  const std::uint64_t before = rig_.storage().allocator().allocated();
  const format::Blkptr inner =
      gang(part(8192, 16384), {place(part(8192, 4096)), place(part(12288, 12288))});
  const format::Blkptr blkptr =
      gang(data, {place(part(0, 8192)), inner, place(part(24576, 16384))});
  ASSERT_NO_FATAL_FAILURE(expect_reads(rig_, blkptr, data));

  rig_.scribble(0, 2, rng_());
  ScrubResult result;
  rig_.pipeline().scrub(std::span(&blkptr, 1), std::span(&kAt, 1), std::span(&result, 1));
  ASSERT_TRUE(result.result) << result.result.error().what();
  rig_.pipeline().scrub(std::span(&blkptr, 1), std::span(&kAt, 1), std::span(&result, 1));
  EXPECT_EQ(result.errors, 0U);
  EXPECT_GE(result.examined, 40960U + 2 * 8192U);
  ASSERT_NO_FATAL_FAILURE(expect_reads(rig_, blkptr, data));

  std::uint64_t bytes = 0;
  ASSERT_TRUE(rig_.pipeline().for_each_extent(blkptr, kAt,
                                              [&](const format::Dva& dva) { bytes += dva.asize; }));
  EXPECT_EQ(bytes, rig_.storage().allocator().allocated() - before);
  EXPECT_EQ(rig_.pipeline().dsize(blkptr), rig_.storage().allocator().deflate(0, bytes));
  rig_.pipeline().free(4, blkptr);
  EXPECT_EQ(rig_.storage().allocator().allocated(), before);
}

TEST_F(GangTest, ThatLiesAboutItsSizeIsCorrupt) {
  const std::vector<std::byte> data = some_data(rng_, 16384);
  const auto whole = std::span<const std::byte>(data);
  format::Blkptr blkptr = gang(data, {place(whole.first(8192))});
  EXPECT_EQ(rig_.pipeline().read(blkptr, kAt).error().code(), Errc::corrupt);
  blkptr = gang(data, {place(whole), place(whole.first(4096))});
  EXPECT_EQ(rig_.pipeline().read(blkptr, kAt).error().code(), Errc::corrupt);
}

TEST(Storage, CommitsLabelsAndUberblocksThatImportFinds) {
  Rig rig({{VdevType::mirror, 2, 0, 12}, {VdevType::raidz, 3, 1, 9}});
  PoolConfig config;
  config.version = 5000;
  config.name = "tank";
  config.txg = 7;
  config.pool_guid = 1;
  config.vdev_children = 2;
  config.root = rig.config();
  format::Uberblock uberblock;
  uberblock.version = 5000;
  uberblock.txg = 7;
  uberblock.guid_sum = guid_sum(config.root);
  uberblock.timestamp = 1700000000;
  const std::vector<std::byte> data(4096, std::byte{1});
  uberblock.root = rig.write(data, plain_data());
  ASSERT_TRUE(rig.storage().commit(uberblock, config, true));
  for (const auto& [top, leaves] : {std::pair{0U, 2U}, std::pair{1U, 3U}}) {
    for (unsigned l = 0; l < leaves; ++l) {
      const auto labels = read_labels(rig.leaf(top, l));
      ASSERT_TRUE(labels) << labels.error().what();
      for (const auto& copy : labels->copy) {
        EXPECT_TRUE(copy.has_value());
      }
      const auto decoded = decode_label_config(labels->config());
      ASSERT_TRUE(decoded) << decoded.error().what();
      EXPECT_EQ(decoded->pool.name, "tank");
      const RingSource source{&rig.leaf(top, l), top == 0 ? 12U : 9U};
      const auto best = best_uberblock(std::span(&source, 1));
      ASSERT_TRUE(best);
      EXPECT_EQ(*best, uberblock);
    }
  }
  uberblock.txg = 8;
  ASSERT_TRUE(rig.storage().commit(uberblock, config, false));
  const RingSource source{&rig.leaf(1, 1), 9};
  EXPECT_EQ(best_uberblock(std::span(&source, 1))->txg, 8U);
}

}  // namespace
}  // namespace zuse::pool
