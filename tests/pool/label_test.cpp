// Labels: where they lie, what survives in them, what is noticed; and those of pools that OpenZFS
// wrote.
#include "fs/pool/label.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "fs/codec/checksum.h"
#include "fs/pool/config.h"
#include "tests/support/fixtures.h"
#include "tests/support/seed.h"
#include "vdev/file_device.h"
#include "vdev/memory_device.h"

namespace zuse::pool {
namespace {

codec::NvList config_of(std::uint64_t txg) {
  codec::NvList list;
  list.set_string("name", "tank");
  list.set_u64("txg", txg);
  return list;
}

format::Uberblock uberblock_of(std::uint64_t txg) {
  format::Uberblock uberblock;
  uberblock.version = 5000;
  uberblock.txg = txg;
  uberblock.timestamp = 1000 + txg;
  return uberblock;
}

void flip(vdev::MemoryDevice& device, std::uint64_t offset) {
  std::array<std::byte, 1> byte{};
  ASSERT_TRUE(device.read(offset, byte).has_value());
  byte[0] ^= std::byte{0x10};
  ASSERT_TRUE(device.write(offset, byte).has_value());
}

constexpr std::uint64_t kSize = 64 * kMiB + 12345;

TEST(Label, AreasLieWhereTheFormatPutsThem) {
  EXPECT_EQ(label_offset(0, kSize), 0U);
  EXPECT_EQ(label_offset(1, kSize), 0x40000U);
  EXPECT_EQ(label_offset(2, kSize), 64 * kMiB - 0x80000);
  EXPECT_EQ(label_offset(3, kSize), 64 * kMiB - 0x40000);
  EXPECT_EQ(leaf_asize(64 * kMiB), 62390272U);
  EXPECT_EQ(leaf_asize(100 * kMiB), 100139008U);
  EXPECT_EQ(leaf_asize(kGiB), 1069023232U);
  EXPECT_EQ(uberblock_slots(9), 128U);
  EXPECT_EQ(uberblock_slots(12), 32U);
  EXPECT_EQ(uberblock_slots(16), 16U);
  EXPECT_EQ(uberblock_slot(130, 9, false), 2U);
  EXPECT_EQ(uberblock_slot(130, 9, true), 3U);
}

TEST(Label, MetaslabSizesFollowTheTable) {
  // source: format page 01 section 6.
  EXPECT_EQ(choose_metaslab_shift(62390272), 24U);
  EXPECT_EQ(choose_metaslab_shift(263716864), 24U);
  EXPECT_EQ(choose_metaslab_shift(1069023232), 26U);
  EXPECT_EQ(choose_metaslab_shift(8585216000), 29U);
  EXPECT_EQ(choose_metaslab_shift(107369463808), 29U);
  EXPECT_LE(choose_metaslab_shift(std::uint64_t{1} << 60), 60U);
  for (unsigned shift = 26; shift < 63; ++shift) {
    EXPECT_GE((std::uint64_t{1} << shift) >> choose_metaslab_shift(std::uint64_t{1} << shift), 1U);
  }
}

TEST(Label, TheNewestCopyIsTakenAndBadOnesAreNamed) {
  vdev::MemoryDevice device(kSize, "d0");
  EXPECT_EQ(read_labels(device).error().code(), Errc::corrupt);
  ASSERT_TRUE(write_label(device, 0, config_of(10)).has_value());
  ASSERT_TRUE(write_label(device, 1, config_of(9)).has_value());
  ASSERT_TRUE(write_label(device, 2, config_of(11)).has_value());
  auto set = read_labels(device);
  ASSERT_TRUE(set.has_value());
  EXPECT_EQ(set->newest, 2U);
  EXPECT_EQ(*set->config().u64("txg"), 11U);
  EXPECT_TRUE(set->bad[3].has_value());
  EXPECT_FALSE(set->bad[0].has_value());
  EXPECT_EQ(*set->config_at(10)->u64("txg"), 10U);
  EXPECT_EQ(*set->config_at(9)->u64("txg"), 9U);
  EXPECT_EQ(set->config_at(8), nullptr);
  flip(device, label_offset(2, kSize) + kLabelConfigOffset + 100);
  set = read_labels(device);
  ASSERT_TRUE(set.has_value());
  EXPECT_EQ(*set->config().u64("txg"), 10U);
  EXPECT_EQ(set->bad[2]->code(), Errc::checksum);
}

TEST(Label, ACopyInTheWrongPlaceDoesNotVerify) {
  vdev::MemoryDevice device(kSize, "d0");
  ASSERT_TRUE(write_label(device, 0, config_of(10)).has_value());
  std::vector<std::byte> label(kLabelSize);
  ASSERT_TRUE(device.read(0, label).has_value());
  ASSERT_TRUE(device.write(label_offset(1, kSize), label).has_value());
  const auto set = read_labels(device);
  ASSERT_TRUE(set.has_value());
  EXPECT_TRUE(set->bad[1].has_value());
}

TEST(Label, AConfigurationThatDoesNotFitIsRefused) {
  vdev::MemoryDevice device(kSize, "d0");
  codec::NvList list = config_of(1);
  list.set_bytes("much", std::vector<std::byte>(kLabelConfigSize));
  EXPECT_EQ(write_label(device, 0, list).error().code(), Errc::too_large);
}

TEST(Label, ADeviceBelow64MiBIsNone) {
  vdev::MemoryDevice device(64 * kMiB - 1, "small");
  EXPECT_EQ(read_labels(device).error().code(), Errc::invalid);
  EXPECT_EQ(write_label(device, 0, config_of(1)).error().code(), Errc::invalid);
  EXPECT_EQ(wipe_labels(device).error().code(), Errc::invalid);
  EXPECT_EQ(read_uberblocks(device, 9).error().code(), Errc::invalid);
}

class UberblockRing : public testing::TestWithParam<unsigned> {};

TEST_P(UberblockRing, KeepsTheLastOnesAndTheNewestWins) {
  vdev::MemoryDevice device(kSize, "d0");
  const unsigned ashift = GetParam();
  const unsigned slots = uberblock_slots(ashift);
  for (std::uint64_t txg = 4; txg < 4 + 2 * slots; ++txg) {
    ASSERT_TRUE(write_uberblock(device, uberblock_of(txg), ashift).has_value());
  }
  const auto found = read_uberblocks(device, ashift);
  ASSERT_TRUE(found.has_value());
  ASSERT_EQ(found->size(), slots);
  for (unsigned i = 0; i < slots; ++i) {
    EXPECT_EQ((*found)[i], uberblock_of(3 + 2 * slots - i));
  }
  const std::array<RingSource, 1> rings = {RingSource{&device, ashift}};
  EXPECT_EQ(best_uberblock(rings)->txg, 3U + 2 * slots);
  EXPECT_EQ(best_uberblock(rings, slots + 10)->txg, slots + 10);
  EXPECT_EQ(best_uberblock(rings, 3).error().code(), Errc::not_found);
  // One good copy of four is enough, and none gives the one before.
  const std::uint64_t last = 3 + 2 * slots;
  const std::uint64_t within =
      kUberblockRingOffset +
      (std::uint64_t{uberblock_slot(last, ashift, false)} << uberblock_shift(ashift)) + 20;
  for (unsigned i = 0; i < 3; ++i) {
    flip(device, label_offset(i, kSize) + within);
  }
  EXPECT_EQ(best_uberblock(rings)->txg, last);
  flip(device, label_offset(3, kSize) + within);
  EXPECT_EQ(best_uberblock(rings)->txg, last - 1);
}

INSTANTIATE_TEST_SUITE_P(EachAshift, UberblockRing, testing::Values(9U, 10U, 12U, 13U, 16U));

TEST(Label, WipingLeavesNothingOfAFormerPoolAndTouchesNothingElse) {
  vdev::MemoryDevice device(kSize, "d0");
  std::vector<std::byte> old(kSize, std::byte{0x5a});
  ASSERT_TRUE(device.write(0, old).has_value());
  for (unsigned i = 0; i < kLabels; ++i) {
    ASSERT_TRUE(write_label(device, i, config_of(5)).has_value());
  }
  ASSERT_TRUE(write_uberblock(device, uberblock_of(5), 9).has_value());
  ASSERT_TRUE(wipe_labels(device).has_value());
  EXPECT_FALSE(read_labels(device).has_value());
  EXPECT_EQ(read_uberblocks(device, 9).error().code(), Errc::corrupt);
  for (unsigned i = 0; i < kLabels; ++i) {
    std::vector<std::byte> boot(kBootEnvSize);
    const std::uint64_t at = label_offset(i, kSize) + kBootEnvOffset;
    ASSERT_TRUE(device.read(at, boot).has_value());
    EXPECT_TRUE(codec::verify_sealed(format::Checksum::label, boot, {at, 0, 0, 0}).has_value());
  }
  std::vector<std::byte> now(kSize);
  ASSERT_TRUE(device.read(0, now).has_value());
  const auto untouched = [&](std::uint64_t from, std::uint64_t to) {
    return std::all_of(now.begin() + static_cast<std::ptrdiff_t>(from),
                       now.begin() + static_cast<std::ptrdiff_t>(to),
                       [](std::byte byte) { return byte == std::byte{0x5a}; });
  };
  EXPECT_TRUE(untouched(0, kBootEnvOffset)) << "the blank space of label 0";
  EXPECT_TRUE(untouched(2 * kLabelSize, label_offset(2, kSize))) << "boot area and data";
  EXPECT_TRUE(untouched(64 * kMiB, kSize)) << "the tail";
}

// Bytes that carry a right checksum and make no sense.
TEST(Label, HostileConfigurationsEndInAnErrorOrAListButNeverInHarm) {
  SCOPED_TRACE(test::rerun());
  std::mt19937_64 random(test::seed());
  const test::Fixture fixture("v28-raidz2");
  ASSERT_FALSE(fixture.images().empty());
  auto file = vdev::FileDevice::open(fixture.images()[0].string(), {.read_only = true});
  ASSERT_TRUE(file.has_value());
  const auto original = read_labels(**file)->config().encode_xdr();
  vdev::MemoryDevice device(kSize, "d0");
  int lists = 0;
  for (int round = 0; round < 1500; ++round) {
    auto packed = original;
    for (auto flips = 1 + random() % 5; flips > 0; --flips) {
      packed[random() % packed.size()] = static_cast<std::byte>(random());
    }
    std::vector<std::byte> block(kLabelConfigSize);
    std::ranges::copy(packed, block.begin());
    const std::uint64_t at = label_offset(0, kSize) + kLabelConfigOffset;
    codec::seal(format::Checksum::label, block, {at, 0, 0, 0}, kHostOrder);
    ASSERT_TRUE(device.write(at, block).has_value());
    if (const auto set = read_labels(device)) {
      ++lists;
      if (const auto config = decode_label_config(set->config())) {
        (void)encode_label_config(config->pool, 0, config->guid).encode_xdr();
      }
    }
  }
  EXPECT_GT(lists, 0);
}

// ---- Pools that OpenZFS wrote
// ---------------------------------------------------------------------

class OpenZfsLabels : public testing::TestWithParam<std::string> {};

TEST_P(OpenZfsLabels, AllFourVerifyAndReencodeToTheSameBytes) {
  const test::Fixture fixture(GetParam());
  ASSERT_FALSE(fixture.images().empty());
  for (const auto& path : fixture.images()) {
    SCOPED_TRACE(path.filename().string());
    auto device = vdev::FileDevice::open(path.string(), {.read_only = true});
    ASSERT_TRUE(device.has_value());
    const auto set = read_labels(**device);
    ASSERT_TRUE(set.has_value()) << set.error().what();
    for (unsigned i = 0; i < kLabels; ++i) {
      ASSERT_FALSE(set->bad[i].has_value()) << set->bad[i]->what();
      EXPECT_EQ(*set->copy[i]->string("name"), GetParam());
      const auto packed = set->copy[i]->encode_xdr();
      std::vector<std::byte> stored(packed.size());
      ASSERT_TRUE((*device)
                      ->read(label_offset(i, (*device)->size()) + kLabelConfigOffset, stored)
                      .has_value());
      EXPECT_EQ(packed, stored);
    }
  }
}

TEST_P(OpenZfsLabels, TheNewestUberblockFitsTheLabelsAndTheirGuids) {
  const test::Fixture fixture(GetParam());
  std::vector<std::unique_ptr<vdev::BlockDevice>> devices;
  std::vector<RingSource> rings;
  std::optional<LabelConfig> label;
  for (const auto& path : fixture.images()) {
    auto device = vdev::FileDevice::open(path.string(), {.read_only = true});
    ASSERT_TRUE(device.has_value());
    devices.push_back(*std::move(device));
    auto config = decode_label_config(read_labels(*devices.back())->config());
    ASSERT_TRUE(config.has_value()) << config.error().what();
    label = *std::move(config);
    rings.push_back({devices.back().get(), label->pool.root.children[0].ashift});
  }
  ASSERT_TRUE(label.has_value());
  const auto best = best_uberblock(rings);
  ASSERT_TRUE(best.has_value()) << best.error().what();
  EXPECT_EQ(best->version, label->pool.version);
  EXPECT_GE(best->txg, label->pool.txg);
  EXPECT_EQ(best->guid_sum, guid_sum(label->pool.root));
  EXPECT_EQ(best->order, ByteOrder::little);
  EXPECT_EQ(best->root.type, format::ObjectType::objset);
  EXPECT_LE(best->root.birth(), best->txg);
  EXPECT_EQ(best->root.copies(), 3U);
  const std::array<std::uint64_t, 1> sizes = {label->pool.root.children[0].asize};
  EXPECT_TRUE(format::check(best->root, {sizes}).has_value());
  // What we would write is what is there.
  const std::uint64_t size = devices[0]->size();
  const unsigned ashift = rings[0].ashift;
  for (const LabelWrite& write : uberblock_writes(size, *best, ashift)) {
    std::vector<std::byte> stored(write.bytes.size());
    ASSERT_TRUE(devices[0]->read(write.offset, stored).has_value());
    EXPECT_TRUE(std::ranges::equal(stored, write.bytes.span()));
  }
}

INSTANTIATE_TEST_SUITE_P(Each, OpenZfsLabels, testing::ValuesIn(test::fixture_names()),
                         [](const auto& each) {
                           std::string name = each.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace zuse::pool
