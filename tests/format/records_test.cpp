// Dnodes, object sets, uberblocks, the dataset layer's records: round trips in both orders, offsets
// as the format pages state them, and refusal of what is cut short or makes no sense.
#include <gtest/gtest.h>

#include <algorithm>

#include "fs/format/bpobj_phys.h"
#include "fs/format/dsl_phys.h"
#include "fs/format/feature.h"
#include "fs/format/gang.h"
#include "fs/format/objset_phys.h"
#include "fs/format/scan_phys.h"
#include "fs/format/uberblock.h"
#include "tests/support/seed.h"

namespace zuse::format {
namespace {

constexpr ByteOrder kOrders[] = {ByteOrder::little, ByteOrder::big};

class Records : public testing::Test {
 protected:
  Blkptr some_blkptr() {
    Blkptr out;
    out.dva[0] = {.vdev = 1, .asize = 4096, .offset = (random_() % 1000) << 12U, .gang = false};
    out.lsize = out.psize = 4096;
    out.compression = Compression::off;
    out.checksum_type = Checksum::fletcher4;
    out.type = ObjectType::plain_file;
    out.logical_birth = random_();
    out.fill = random_();
    out.checksum = {random_(), random_(), random_(), random_()};
    return out;
  }
  DnodePhys some_dnode() {
    DnodePhys out;
    out.type = ObjectType::plain_file;
    out.bonus_type = ObjectType::sa;
    out.levels = 2;
    out.indirect_shift = 14;
    out.flags = kDnodeUsedBytes;
    out.block_size = 131072;
    out.max_block = random_();
    out.used = random_();
    out.extra_slots = static_cast<std::uint8_t>(random_() % 4);
    const std::size_t blkptrs = 1 + random_() % 3;
    for (std::size_t i = 0; i < blkptrs; ++i) {
      out.blkptr.push_back(random_() % 4 == 0 ? Blkptr{} : some_blkptr());
    }
    std::size_t room = out.slots() * kDnodeSlotSize - kDnodeCoreSize - blkptrs * kBlkptrSize;
    if (random_() % 2 == 0 && room >= kBlkptrSize) {
      out.flags |= kDnodeSpill;
      out.spill = some_blkptr();
      room -= kBlkptrSize;
    }
    out.bonus.resize(random_() % (room + 1));
    for (auto& byte : out.bonus) {
      byte = static_cast<std::byte>(random_());
    }
    return out;
  }

  std::mt19937_64 random_{test::seed()};
  const testing::ScopedTrace trace_{__FILE__, __LINE__, test::rerun()};
};

void expect_equal(const DnodePhys& a, const DnodePhys& b) {
  EXPECT_EQ(a.type, b.type);
  EXPECT_EQ(a.bonus_type, b.bonus_type);
  EXPECT_EQ(a.levels, b.levels);
  EXPECT_EQ(a.indirect_shift, b.indirect_shift);
  EXPECT_EQ(a.flags, b.flags);
  EXPECT_EQ(a.block_size, b.block_size);
  EXPECT_EQ(a.max_block, b.max_block);
  EXPECT_EQ(a.used, b.used);
  EXPECT_EQ(a.extra_slots, b.extra_slots);
  EXPECT_EQ(a.blkptr, b.blkptr);
  EXPECT_EQ(a.bonus, b.bonus);
  EXPECT_EQ(a.spill, b.spill);
}

TEST_F(Records, DnodesSurviveARoundTripInEitherOrder) {
  for (int round = 0; round < 500; ++round) {
    const DnodePhys dnode = some_dnode();
    for (const ByteOrder order : kOrders) {
      std::vector<std::byte> slot(dnode.slots() * kDnodeSlotSize, std::byte{0xee});
      encode_dnode(dnode, slot, order);
      const auto back = decode_dnode(slot, order);
      ASSERT_TRUE(back.has_value()) << back.error().what();
      expect_equal(*back, dnode);
    }
  }
}

TEST_F(Records, ADnodesFieldsStandWhereTheFormatPutsThem) {
  DnodePhys dnode = some_dnode();
  dnode.extra_slots = 1;
  dnode.bonus.resize(77);
  std::vector<std::byte> slot(1024);
  encode_dnode(dnode, slot, ByteOrder::little);
  EXPECT_EQ(slot[0], std::byte{19});
  EXPECT_EQ(slot[1], std::byte{14});
  EXPECT_EQ(slot[2], std::byte{2});
  EXPECT_EQ(slot[3], static_cast<std::byte>(dnode.blkptr.size()));
  EXPECT_EQ(slot[4], std::byte{44});
  EXPECT_EQ(load_at<std::uint16_t>(slot, 8, ByteOrder::little), 256U);
  EXPECT_EQ(load_at<std::uint16_t>(slot, 10, ByteOrder::little), dnode.bonus.size());
  EXPECT_EQ(slot[12], std::byte{1});
  EXPECT_EQ(load_at<std::uint64_t>(slot, 16, ByteOrder::little), dnode.max_block);
  EXPECT_EQ(load_at<std::uint64_t>(slot, 24, ByteOrder::little), dnode.used);
}

TEST_F(Records, AnyBytesAsADnodeAreDecodedOrRefusedWithoutHarm) {
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::byte> slot(512 * (1 + random_() % 3));
    DnodePhys dnode = some_dnode();
    dnode.extra_slots = 0;
    dnode.blkptr.resize(1);
    dnode.bonus.resize(std::min<std::size_t>(dnode.bonus.size(), 100));
    encode_dnode(dnode, slot, ByteOrder::little);
    for (int flips = static_cast<int>(random_() % 4); flips >= 0; --flips) {
      slot[random_() % 64] = static_cast<std::byte>(random_());
    }
    const auto back = decode_dnode(slot, ByteOrder::little);
    accepted += back.has_value() ? 1 : 0;
    if (back && back->type != ObjectType::none) {
      ASSERT_LE(back->slots() * kDnodeSlotSize, slot.size());
      std::vector<std::byte> again(back->slots() * kDnodeSlotSize);
      encode_dnode(*back, again, ByteOrder::little);  // what was accepted can be written
    }
  }
  EXPECT_GT(accepted, 0);
}

TEST_F(Records, BlocksOfDnodesAreWalkedBySlots) {
  std::vector<std::byte> block(16384);
  DnodePhys dnode = some_dnode();
  dnode.extra_slots = 3;
  encode_dnode(dnode, std::span(block).subspan(512 * 2), ByteOrder::little);
  dnode = some_dnode();
  dnode.extra_slots = 0;
  dnode.blkptr.resize(1);
  dnode.bonus.clear();
  dnode.spill.reset();
  dnode.flags = 0;
  encode_dnode(dnode, std::span(block).subspan(512 * 6), ByteOrder::little);
  encode_dnode(dnode, std::span(block).subspan(512 * 31), ByteOrder::little);
  std::vector<std::size_t> seen;
  ASSERT_TRUE(for_each_dnode(block, [&](std::size_t slot, std::span<const std::byte> bytes) {
                seen.push_back(slot);
                EXPECT_EQ(bytes.size(), slot == 2 ? 2048U : 512U);
                return Result<void>{};
              }).has_value());
  EXPECT_EQ(seen, (std::vector<std::size_t>{2, 6, 31}));
  EXPECT_EQ(*count_dnodes(block), 3U);
  block[512 * 31 + 12] = std::byte{1};  // says that it goes on past the block
  EXPECT_FALSE(count_dnodes(block).has_value());
}

TEST_F(Records, ObjectSetsComeInThreeSizesAndSurviveEach) {
  ObjsetPhys objset;
  objset.type = ObjsetType::zfs;
  objset.flags = kObjsetUserAccounting;
  objset.zil.replay_seq = 42;
  objset.zil.log = some_blkptr();
  const auto small = [&] {
    DnodePhys dnode = some_dnode();
    dnode.extra_slots = 0;
    dnode.flags = 0;
    dnode.spill.reset();
    dnode.blkptr.resize(1);
    dnode.bonus.clear();
    return dnode;
  };
  objset.meta_dnode = small();
  objset.meta_dnode.type = ObjectType::dnode;
  for (const std::size_t size : {kObjsetSizeV1, kObjsetSizeV2, kObjsetSizeV3}) {
    if (size >= kObjsetSizeV2) {
      objset.user_used = small();
      objset.group_used = small();
    }
    if (size >= kObjsetSizeV3) {
      objset.project_used = small();
    }
    for (const ByteOrder order : kOrders) {
      std::vector<std::byte> block(size, std::byte{0xee});
      encode_objset(objset, block, order);
      const auto back = decode_objset(block, order);
      ASSERT_TRUE(back.has_value()) << back.error().what();
      EXPECT_EQ(back->type, objset.type);
      EXPECT_EQ(back->flags, objset.flags);
      EXPECT_EQ(back->zil, objset.zil);
      expect_equal(back->meta_dnode, objset.meta_dnode);
      expect_equal(back->user_used, objset.user_used);
      expect_equal(back->group_used, objset.group_used);
      expect_equal(back->project_used, objset.project_used);
      EXPECT_EQ(load_at<std::uint64_t>(block, 704, order), 2U);
    }
  }
  EXPECT_FALSE(decode_objset(std::vector<std::byte>(1023), ByteOrder::little).has_value());
}

TEST_F(Records, AnUberblockTellsItsByteOrderByItself) {
  for (const ByteOrder order : kOrders) {
    const Uberblock uberblock{.version = 5000,
                              .txg = random_(),
                              .guid_sum = random_(),
                              .timestamp = random_(),
                              .root = some_blkptr(),
                              .software_version = 5000,
                              .mmp_magic = kMmpMagic,
                              .mmp_delay = 7,
                              .mmp_config = std::uint64_t{513} << 32U | 2U,
                              .checkpoint_txg = random_(),
                              .raidz_reflow = random_(),
                              .order = order};
    std::vector<std::byte> slot(1024);
    encode_uberblock(uberblock, slot);
    EXPECT_EQ(load_at<std::uint64_t>(slot, 0, order), 0xbab10cU);
    EXPECT_EQ(load_at<std::uint64_t>(slot, 16, order), uberblock.txg);
    EXPECT_EQ(load_at<std::uint64_t>(slot, 208, order), uberblock.raidz_reflow);
    const auto back = decode_uberblock(slot);
    ASSERT_TRUE(back.has_value());
    EXPECT_EQ(*back, uberblock);
    EXPECT_EQ(back->mmp_sequence(), 513U);
  }
  EXPECT_FALSE(decode_uberblock(std::vector<std::byte>(1024)).has_value());
  EXPECT_FALSE(decode_uberblock(std::vector<std::byte>(215)).has_value());
}

TEST(Uberblock, TheNewerOneHasTheHigherTxgThenTimeThenHeartbeat) {
  Uberblock a, b;
  a.txg = 5;
  b.txg = 4;
  b.timestamp = 9;
  EXPECT_TRUE(is_newer(a, b));
  b.txg = 5;
  EXPECT_TRUE(is_newer(b, a));
  a.timestamp = 9;
  EXPECT_FALSE(is_newer(a, b));
  EXPECT_FALSE(is_newer(b, a));
  a.mmp_magic = kMmpMagic;
  a.mmp_delay = 1;
  a.mmp_config = std::uint64_t{3} << 32U | 2U;
  EXPECT_TRUE(is_newer(a, b));
}

TEST_F(Records, DatasetRecordsSurviveARoundTripAndStandWhereTheyShould) {
  for (const ByteOrder order : kOrders) {
    DslDirPhys dir{.creation_time = 1,
                   .head_dataset = 2,
                   .parent = 3,
                   .origin = 4,
                   .child_zap = 5,
                   .used = 6,
                   .compressed = 7,
                   .uncompressed = 8,
                   .quota = 9,
                   .reserved = 10,
                   .props_zap = 11,
                   .deleg_zap = 12,
                   .flags = 1,
                   .used_breakdown = {13, 14, 15, 16, 17},
                   .clones_zap = 18};
    std::vector<std::byte> bonus(kDslDirSize, std::byte{0xee});
    encode_dsl_dir(dir, bonus, order);
    EXPECT_EQ(*decode_dsl_dir(bonus, order), dir);
    EXPECT_EQ(load_at<std::uint64_t>(bonus, 40, order), 6U);
    EXPECT_EQ(load_at<std::uint64_t>(bonus, 136, order), 17U);
    EXPECT_EQ(load_at<std::uint64_t>(bonus, 144, order), 18U);
    EXPECT_EQ(load_at<std::uint64_t>(bonus, 248, order), 0U);

    DslDatasetPhys dataset;
    dataset.dir = random_();
    dataset.num_children = 1;
    dataset.deadlist = random_();
    dataset.guid = random_();
    dataset.flags = kDatasetUniqueAccurate;
    dataset.bp = some_blkptr();
    dataset.userrefs_zap = random_();
    bonus.assign(kDslDatasetSize, std::byte{0xee});
    encode_dsl_dataset(dataset, bonus, order);
    EXPECT_EQ(*decode_dsl_dataset(bonus, order), dataset);
    EXPECT_EQ(load_at<std::uint64_t>(bonus, 64, order), dataset.deadlist);
    EXPECT_EQ(load_at<std::uint64_t>(bonus, 112, order), dataset.guid);
    EXPECT_EQ(load_at<std::uint64_t>(bonus, 272, order), dataset.userrefs_zap);
    EXPECT_TRUE(dataset.is_snapshot());

    const DeadlistHeader deadlist{.used = 1, .compressed = 2, .uncompressed = 3};
    encode_deadlist_header(deadlist, bonus, order);
    EXPECT_EQ(*decode_deadlist_header(bonus, order), deadlist);
  }
  EXPECT_FALSE(decode_dsl_dir(std::vector<std::byte>(255), ByteOrder::little).has_value());
  EXPECT_FALSE(decode_dsl_dataset(std::vector<std::byte>(319), ByteOrder::little).has_value());
}

TEST_F(Records, ListHeadersOfEveryAgeAreRead) {
  const BpobjHeader full{.block_count = 1,
                         .bytes = 2,
                         .compressed = 3,
                         .uncompressed = 4,
                         .sub_list = 5,
                         .sub_count = 6,
                         .freed_count = 7};
  std::vector<std::byte> bonus(kBpobjHeaderSizeV3);
  encode_bpobj_header(full, bonus, ByteOrder::big);
  EXPECT_EQ(*decode_bpobj_header(bonus, ByteOrder::big), full);
  const auto first = [&](std::size_t size) {
    return *decode_bpobj_header(std::span(bonus).first(size), ByteOrder::big);
  };
  EXPECT_EQ(first(48).sub_count, 6U);
  EXPECT_EQ(first(48).freed_count, 0U);
  EXPECT_EQ(first(32).uncompressed, 4U);
  EXPECT_EQ(first(32).sub_list, 0U);
  EXPECT_EQ(first(16).bytes, 2U);
  EXPECT_EQ(first(16).compressed, 0U);
  EXPECT_FALSE(decode_bpobj_header(std::span(bonus).first(8), ByteOrder::big).has_value());
}

TEST_F(Records, AStoredPointerForgetsChecksumAndFill) {
  Blkptr blkptr = some_blkptr();
  EXPECT_EQ(canonical_entry(blkptr).checksum, (std::array<std::uint64_t, 4>{}));
  EXPECT_EQ(canonical_entry(blkptr).fill, 0U);
  EXPECT_EQ(canonical_entry(blkptr, true).fill, 1U);
  EXPECT_EQ(canonical_entry(blkptr).dva, blkptr.dva);
  blkptr.dedup = true;
  EXPECT_EQ(canonical_entry(blkptr).checksum, blkptr.checksum);
}

TEST_F(Records, GangHeadersSurviveARoundTrip) {
  GangHeader header;
  header.child[0] = some_blkptr();
  header.child[2] = some_blkptr();
  std::vector<std::byte> block(kGangHeaderSize, std::byte{0xee});
  encode_gang_header(header, block, ByteOrder::little);
  EXPECT_EQ(decode_gang_header(block, ByteOrder::little)->child, header.child);
  EXPECT_TRUE(decode_gang_header(block, ByteOrder::little)->child[1].is_hole());
  EXPECT_FALSE(decode_gang_header(std::span(block).first(511), ByteOrder::little).has_value());
}

TEST_F(Records, AScanStateIsItsTwentyFourWords) {
  std::array<std::uint64_t, kScanWords> words{};
  for (std::size_t i = 0; i < words.size(); ++i) {
    words[i] = i < 2 ? i + 1 : random_();
  }
  const auto scan = decode_scan(words);
  ASSERT_TRUE(scan.has_value());
  EXPECT_EQ(scan->function, ScanFunction::scrub);
  EXPECT_EQ(scan->state, ScanState::finished);
  EXPECT_EQ(scan->errors, words[13]);
  EXPECT_EQ(scan->flags, words[23]);
  EXPECT_EQ(encode_scan(*scan), words);
  words[0] = 9;
  EXPECT_EQ(decode_scan(words).error().code(), Errc::unsupported);
  EXPECT_FALSE(decode_scan({}).has_value());
}

TEST(Features, DependenciesComeBeforeWhatNeedsThem) {
  std::vector<std::string_view> seen;
  for (const Feature& feature : all_features()) {
    for (const std::string_view needed : feature.dependencies) {
      EXPECT_TRUE(needed.empty() || std::ranges::find(seen, needed) != seen.end())
          << feature.guid << " needs " << needed;
    }
    EXPECT_EQ(find_feature(feature.guid), &feature);
    EXPECT_EQ(find_feature_by_name(feature.name), &feature) << "two features of one name";
    EXPECT_FALSE(feature.description.empty());
    seen.push_back(feature.guid);
  }
  EXPECT_EQ(find_feature_by_name("lz4_compress")->guid, "org.illumos:lz4_compress");
}

TEST(Features, AnUnknownOneStopsReadingUnlessItIsReadOnlyCompatible) {
  EXPECT_FALSE(pool_may_read("org.example:new", false));
  EXPECT_TRUE(pool_may_read("org.example:new", true));
  EXPECT_FALSE(pool_may_write("org.example:new"));
  EXPECT_FALSE(pool_may_read("org.openzfs:draid", false));
  EXPECT_TRUE(pool_may_read("com.datto:encryption", false));  // stops the dataset, not the pool
  EXPECT_TRUE(pool_may_write("org.illumos:lz4_compress"));
}

TEST(ObjectTypes, AttributesFollowTheTable) {
  EXPECT_TRUE(is_valid(ObjectType::bpobj_subobj));
  EXPECT_FALSE(is_valid(static_cast<ObjectType>(54)));
  EXPECT_TRUE(is_valid(ObjectType::zap_metadata));
  EXPECT_FALSE(is_valid(static_cast<ObjectType>(0x8a)));
  EXPECT_FALSE(is_metadata(ObjectType::plain_file));
  EXPECT_FALSE(is_metadata(ObjectType::zvol));
  EXPECT_TRUE(is_metadata(ObjectType::directory));
  EXPECT_TRUE(is_metadata(ObjectType::zap_metadata));
  EXPECT_FALSE(is_metadata(ObjectType::zap_data));
  EXPECT_TRUE(is_zap(ObjectType::zap_data));
  EXPECT_TRUE(is_zap(ObjectType::directory));
  EXPECT_FALSE(is_zap(ObjectType::dsl_dataset));
}

}  // namespace
}  // namespace zuse::format
