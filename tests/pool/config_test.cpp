// Pool configurations: what is read is written back, unknown keys included.
#include "fs/pool/config.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "fs/pool/label.h"
#include "tests/support/fixtures.h"
#include "vdev/file_device.h"

namespace zuse::pool {
namespace {

using codec::NvList;
using vdev::VdevType;

NvList leaf(std::uint64_t id, std::uint64_t guid) {
  NvList list;
  list.set_string("type", "file");
  list.set_u64("id", id);
  list.set_u64("guid", guid);
  list.set_string("path", "/d" + std::to_string(guid));
  list.set_u64("create_txg", 4);
  list.set_u64("com.delphix:vdev_zap_leaf", 100 + guid);
  return list;
}

NvList raidz(std::uint64_t id, std::uint64_t guid) {
  NvList list;
  list.set_string("type", "raidz");
  list.set_u64("id", id);
  list.set_u64("guid", guid);
  list.set_u64("nparity", 2);
  list.set_u64("metaslab_array", 33);
  list.set_u64("metaslab_shift", 24);
  list.set_u64("ashift", 12);
  list.set_u64("asize", 250000000);
  list.set_u64("is_log", 0);
  list.set_u64("create_txg", 4);
  list.set_u64("com.delphix:vdev_zap_top", 100 + guid);
  list.set_lists("children", {leaf(0, 11), leaf(1, 12), leaf(2, 13), leaf(3, 14)});
  return list;
}

NvList pool_facts() {
  NvList list;
  list.set_u64("version", 5000);
  list.set_string("name", "tank");
  list.set_u64("state", 0);
  list.set_u64("txg", 77);
  list.set_u64("pool_guid", 999);
  list.set_u64("errata", 0);
  list.set_u64("hostid", 5);
  list.set_string("hostname", "here");
  list.set_u64("vdev_children", 2);
  return list;
}

NvList mos_list() {
  NvList list = pool_facts();
  list.set_boolean("com.delphix:has_per_vdev_zaps");
  NvList root, hole;
  hole.set_string("type", "hole");
  hole.set_u64("id", 1);
  hole.set_u64("guid", 0);
  root.set_string("type", "root");
  root.set_u64("id", 0);
  root.set_u64("guid", 999);
  root.set_u64("create_txg", 4);
  root.set_u64("com.klarasystems:vdev_zap_root", 129);
  root.set_lists("children", {raidz(0, 10), hole});
  list.set_list("vdev_tree", root);
  NvList features;
  features.set_boolean("com.delphix:hole_birth");
  list.set_list("features_for_read", features);
  return list;
}

// The same pairs in any order; what `left` has, `right` has.
testing::AssertionResult holds_all_of(const NvList& right, const NvList& left) {
  for (const codec::NvPair& pair : left.pairs()) {
    const codec::NvPair* const other = right.find(pair.name);
    if (other == nullptr) {
      return testing::AssertionFailure() << pair.name << " is lost";
    }
    if (const auto* const lists = std::get_if<std::vector<NvList>>(&pair.value)) {
      const auto* const others = std::get_if<std::vector<NvList>>(&other->value);
      if (others == nullptr || others->size() != lists->size()) {
        return testing::AssertionFailure() << pair.name << " differs";
      }
      for (std::size_t i = 0; i < lists->size(); ++i) {
        if (const auto below = holds_all_of((*others)[i], (*lists)[i]); !below) {
          return testing::AssertionFailure() << pair.name << ": " << below.message();
        }
      }
    } else if (!(*other == pair)) {
      return testing::AssertionFailure() << pair.name << " differs";
    }
  }
  return testing::AssertionSuccess();
}

TEST(PoolConfig, TheMosListSurvivesWithKeysThatWeDoNotKnow) {
  const auto config = decode_mos_config(mos_list());
  ASSERT_TRUE(config.has_value()) << config.error().what();
  EXPECT_EQ(config->name, "tank");
  EXPECT_EQ(config->root.children.size(), 2U);
  EXPECT_EQ(config->root.children[0].parity, 2U);
  EXPECT_EQ(config->root.children[1].type, VdevType::hole);
  EXPECT_EQ(config->features_for_read, std::vector<std::string>{"com.delphix:hole_birth"});
  EXPECT_TRUE(holds_all_of(encode_mos_config(*config), mos_list()));
}

TEST(PoolConfig, ALabelOfItLacksWhatOnlyTheMosMayHave) {
  const auto config = decode_mos_config(mos_list());
  ASSERT_TRUE(config.has_value());
  const NvList label = encode_label_config(*config, 0, 12);
  EXPECT_EQ(*label.u64("guid"), 12U);
  EXPECT_EQ(*label.u64("top_guid"), 10U);
  EXPECT_FALSE(label.has("com.delphix:has_per_vdev_zaps"));
  EXPECT_EQ(label.u64s("hole_array")->size(), 1U);
  const NvList& top = **label.list("vdev_tree");
  EXPECT_FALSE(top.has("com.delphix:vdev_zap_top"));
  EXPECT_FALSE((*top.lists("children"))[0].has("com.delphix:vdev_zap_leaf"));
  const auto back = decode_label_config(label);
  ASSERT_TRUE(back.has_value()) << back.error().what();
  EXPECT_EQ(back->guid, 12U);
  EXPECT_EQ(back->holes, std::vector<std::uint64_t>{1});
  EXPECT_EQ(back->pool.root.children[0].children.size(), 4U);
}

TEST(PoolConfig, GuidSumCountsEveryVdevOnce) {
  const auto config = decode_mos_config(mos_list());
  ASSERT_TRUE(config.has_value());
  EXPECT_EQ(guid_sum(config->root), 999U + 10 + 11 + 12 + 13 + 14);
  // source: format page 01 section 5, a pool of one file.
  vdev::VdevConfig root, file;
  root.guid = 7180307423654184295U;
  file.guid = 8098858878092203249U;
  root.children.push_back(file);
  EXPECT_EQ(guid_sum(root), 15279166301746387544U);
  EXPECT_EQ(top_of_leaf(config->root, 13), 0U);
  EXPECT_EQ(top_of_leaf(config->root, 15), 2U);
}

TEST(PoolConfig, WhatWeLackIsNamed) {
  const auto refused = [](const NvList& list) {
    const auto config = decode_mos_config(list);
    EXPECT_FALSE(config.has_value());
    return config ? std::string()
                  : std::string(to_string(config.error().code())) + " " + config.error().what();
  };
  NvList list = mos_list();
  list.set_u64("version", 29);
  EXPECT_NE(refused(list).find("unsupported pool version 29"), std::string::npos);
  list = mos_list();
  NvList root = **list.list("vdev_tree");
  NvList draid = raidz(0, 10);
  draid.set_string("type", "draid");
  root.set_lists("children", {draid});
  list.set_list("vdev_tree", root);
  EXPECT_NE(refused(list).find("draid"), std::string::npos);
  NvList expanding = raidz(0, 10);
  expanding.set_u64s("raidz_expand_txgs", {5});
  root.set_lists("children", {expanding});
  list.set_list("vdev_tree", root);
  EXPECT_NE(refused(list).find("raidz_expand_txgs"), std::string::npos);
  list = mos_list();
  list.erase("pool_guid");
  EXPECT_NE(refused(list).find("pool_guid"), std::string::npos);
}

TEST(PoolConfig, ALabelOfASpareIsNoPool) {
  NvList list;
  list.set_u64("version", 5000);
  list.set_u64("state", 3);
  list.set_u64("guid", 8);
  EXPECT_FALSE(decode_label_config(list).has_value());
}

TEST(PoolConfig, LabelsThatOpenZfsWroteComeBackWithEveryKey) {
  for (const std::string& name : test::fixture_names()) {
    const test::Fixture fixture(name);
    ASSERT_FALSE(fixture.images().empty()) << name;
    auto device = vdev::FileDevice::open(fixture.images()[0].string(), {.read_only = true});
    ASSERT_TRUE(device.has_value());
    const auto labels = read_labels(**device);
    ASSERT_TRUE(labels.has_value());
    const auto config = decode_label_config(labels->config());
    ASSERT_TRUE(config.has_value()) << config.error().what();
    EXPECT_EQ(config->pool.state, PoolState::exported);
    const NvList again = encode_label_config(config->pool, 0, config->guid);
    EXPECT_TRUE(holds_all_of(again, labels->config())) << name;
    EXPECT_TRUE(holds_all_of(labels->config(), again)) << name;
  }
}

}  // namespace
}  // namespace zuse::pool
