// Finding pools among files: in any order and place, with images missing, damaged, doubled, cut
// short, of other hosts, of features that we lack.
#include "fs/pool/import.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "fs/pool/label.h"
#include "tests/support/fixtures.h"
#include "vdev/file_device.h"
#include "vdev/memory_device.h"

namespace zuse::pool {
namespace {

namespace fs = std::filesystem;

DeviceOpener files() {
  return [](const std::string& path, bool read_only) -> Result<std::unique_ptr<vdev::BlockDevice>> {
    ZUSE_TRY(auto device, vdev::FileDevice::open(path, {.read_only = read_only}));
    return device;
  };
}

bool mentions(const std::vector<std::string>& notes, const std::string& text) {
  return std::ranges::any_of(
      notes, [&](const std::string& note) { return note.find(text) != std::string::npos; });
}

// ---- Images in memory
// -----------------------------------------------------------------------------

// A pool of one raidz1 of three leaves and one single leaf, as labels and uberblocks only.
class MemoryPool {
 public:
  MemoryPool() {
    config_.version = 5000;
    config_.name = "tank";
    config_.state = PoolState::exported;
    config_.txg = 10;
    config_.pool_guid = 1000;
    config_.vdev_children = 2;
    config_.root.type = vdev::VdevType::root;
    config_.root.guid = 1000;
    vdev::VdevConfig raidz;
    raidz.type = vdev::VdevType::raidz;
    raidz.guid = 100;
    raidz.parity = 1;
    raidz.ashift = 12;
    raidz.metaslab_shift = 24;
    raidz.asize = 3 * leaf_asize(kSize);
    for (std::uint64_t i = 0; i < 3; ++i) {
      vdev::VdevConfig leaf;
      leaf.type = vdev::VdevType::file;
      leaf.id = i;
      leaf.guid = 1 + i;
      leaf.path = "/once/d" + std::to_string(i);
      raidz.children.push_back(leaf);
    }
    vdev::VdevConfig single;
    single.type = vdev::VdevType::file;
    single.id = 1;
    single.guid = 4;
    single.path = "/once/d3";
    single.ashift = 12;
    single.metaslab_shift = 24;
    single.asize = leaf_asize(kSize);
    config_.root.children = {raidz, single};
    for (std::uint64_t guid = 1; guid <= 4; ++guid) {
      images_.emplace("memory:" + std::to_string(guid), vdev::MemoryImage(kSize));
    }
  }

  PoolConfig& config() { return config_; }
  std::map<std::string, vdev::MemoryImage>& images() { return images_; }

  // Writes what config() says now into all labels, and an uberblock of its txg.
  void write() {
    for (auto& [name, image] : images_) {
      vdev::MemoryDevice device(image, name);
      const std::uint64_t guid = std::stoull(name.substr(7));
      const std::size_t top = top_of_leaf(config_.root, guid);
      for (unsigned i = 0; i < kLabels; ++i) {
        ASSERT_TRUE(write_label(device, i, encode_label_config(config_, top, guid)).has_value());
      }
      ASSERT_TRUE(write_uberblock(device, uberblock(config_.txg), 12).has_value());
      image = device.image();
    }
  }
  format::Uberblock uberblock(std::uint64_t txg) const {
    format::Uberblock out;
    out.version = config_.version;
    out.txg = txg;
    out.guid_sum = guid_sum(config_.root);
    return out;
  }
  DeviceOpener opener() {
    return [this](const std::string& path,
                  bool read_only) -> Result<std::unique_ptr<vdev::BlockDevice>> {
      EXPECT_TRUE(read_only) << "looking for pools must not open for writing";
      const auto it = images_.find(path);
      if (it == images_.end()) {
        return fail(Errc::not_found, path + " does not exist");
      }
      return std::make_unique<vdev::MemoryDevice>(it->second, path, 9U, true);
    };
  }
  std::vector<PoolCandidate> find() {
    std::vector<std::string> names;
    for (const auto& [name, image] : images_) {
      names.push_back(name);
    }
    auto pools = find_pools(names, opener());
    EXPECT_TRUE(pools.has_value()) << (pools ? "" : pools.error().what());
    return pools ? *std::move(pools) : std::vector<PoolCandidate>{};
  }

  static constexpr std::uint64_t kSize = 64 * kMiB;

 private:
  PoolConfig config_;
  std::map<std::string, vdev::MemoryImage> images_;
};

class ImportTest : public testing::Test {
 protected:
  ImportTest() { pool_.write(); }
  MemoryPool pool_;
};

TEST_F(ImportTest, AWholePoolIsPutTogether) {
  const auto pools = pool_.find();
  ASSERT_EQ(pools.size(), 1U);
  EXPECT_TRUE(pools[0].importable()) << pools[0].problem;
  EXPECT_EQ(pools[0].config.name, "tank");
  EXPECT_EQ(pools[0].found.size(), 4U);
  EXPECT_EQ(pools[0].found.at(3), "memory:3");
  EXPECT_TRUE(pools[0].missing.empty());
  EXPECT_EQ(pools[0].config.root.children[0].children[2].path, "memory:3");
  EXPECT_EQ(guid_sum(pools[0].config.root), pools[0].uberblock->guid_sum);
  EXPECT_TRUE(check_import(pools[0], 7, false, false).has_value());
}

TEST_F(ImportTest, AMissingLeafIsListedWithItsRecordedPath) {
  pool_.images().erase("memory:2");
  const auto pools = pool_.find();
  ASSERT_EQ(pools.size(), 1U);
  EXPECT_TRUE(pools[0].importable());
  ASSERT_EQ(pools[0].missing.size(), 1U);
  EXPECT_EQ(pools[0].missing[0].guid, 2U);
  EXPECT_EQ(pools[0].missing[0].recorded_path, "/once/d1");
}

TEST_F(ImportTest, AMissingTopLevelVdevIsAProblemAndHoldsItsSlot) {
  pool_.images().erase("memory:4");
  const auto pools = pool_.find();
  ASSERT_EQ(pools.size(), 1U);
  EXPECT_FALSE(pools[0].importable());
  EXPECT_EQ(pools[0].missing_tops, std::vector<std::uint64_t>{1});
  ASSERT_EQ(pools[0].config.root.children.size(), 2U);
  EXPECT_EQ(pools[0].config.root.children[1].type, vdev::VdevType::missing);
  EXPECT_FALSE(check_import(pools[0], 7, true, true).has_value());
}

TEST_F(ImportTest, OneImageUnderTwoNamesIsReportedByBoth) {
  pool_.images().emplace("memory:1copy", pool_.images().at("memory:1"));
  const auto pools = pool_.find();
  ASSERT_EQ(pools.size(), 1U);
  EXPECT_FALSE(pools[0].importable());
  EXPECT_TRUE(mentions(pools[0].notes, "memory:1copy"));
  EXPECT_NE(pools[0].problem.find("same device"), std::string::npos);
}

TEST_F(ImportTest, ATruncatedImageIsNamedAndCountsAsMissing) {
  pool_.config().root.children[0].asize = 3 * leaf_asize(128 * kMiB);
  pool_.write();
  const auto pools = pool_.find();
  ASSERT_EQ(pools.size(), 1U);
  EXPECT_EQ(pools[0].missing.size(), 3U);
  EXPECT_TRUE(mentions(pools[0].notes, "memory:2 is truncated"));
}

TEST_F(ImportTest, DamagedLabelsAreNotedAndOneGoodOneIsEnough) {
  vdev::MemoryImage& image = pool_.images().at("memory:3");
  const std::vector<std::byte> junk(kLabelSize, std::byte{0x33});
  for (const unsigned i : {0U, 1U, 3U}) {
    image.write(label_offset(i, image.size()), junk);
  }
  const auto pools = pool_.find();
  ASSERT_EQ(pools.size(), 1U);
  EXPECT_EQ(pools[0].found.size(), 4U);
  EXPECT_TRUE(mentions(pools[0].notes, "memory:3: 3 of 4 labels are damaged"));
}

TEST_F(ImportTest, LabelsNewerThanTheUberblockAreOfAGroupThatNeverWas) {
  // A power cut between labels 0 and 2 of txg 11 and its uberblock.
  PoolConfig next = pool_.config();
  next.txg = 11;
  next.name = "renamed";
  for (auto& [name, image] : pool_.images()) {
    vdev::MemoryDevice device(image, name);
    const std::uint64_t guid = std::stoull(name.substr(7));
    for (const unsigned i : {0U, 2U}) {
      ASSERT_TRUE(
          write_label(device, i, encode_label_config(next, top_of_leaf(next.root, guid), guid))
              .has_value());
    }
    image = device.image();
  }
  auto pools = pool_.find();
  ASSERT_EQ(pools.size(), 1U);
  EXPECT_EQ(pools[0].config.txg, 10U);
  EXPECT_EQ(pools[0].config.name, "tank");
  // With the uberblock of 11 on one leaf, 11 it is.
  vdev::MemoryDevice device(pool_.images().at("memory:2"), "memory:2");
  ASSERT_TRUE(write_uberblock(device, pool_.uberblock(11), 12).has_value());
  pool_.images().at("memory:2") = device.image();
  pools = pool_.find();
  EXPECT_EQ(pools[0].uberblock->txg, 11U);
  EXPECT_EQ(pools[0].config.name, "renamed");
}

TEST_F(ImportTest, AnotherHostsActivePoolNeedsForce) {
  pool_.config().state = PoolState::active;
  pool_.config().hostid = 5;
  pool_.config().hostname = "there";
  pool_.write();
  const auto pools = pool_.find();
  ASSERT_EQ(pools.size(), 1U);
  EXPECT_TRUE(check_import(pools[0], 5, false, false).has_value());
  const auto verdict = check_import(pools[0], 6, false, false);
  ASSERT_FALSE(verdict.has_value());
  EXPECT_EQ(verdict.error().code(), Errc::busy);
  EXPECT_NE(verdict.error().what().find("there"), std::string::npos);
  EXPECT_TRUE(check_import(pools[0], 6, false, true).has_value());
  EXPECT_TRUE(check_import(pools[0], 6, true, false).has_value());
}

TEST_F(ImportTest, UnsupportedFeaturesAreNamed) {
  pool_.config().features_for_read = {"com.delphix:hole_birth", "org.openzfs:draid",
                                      "org.example:future"};
  pool_.write();
  const auto pools = pool_.find();
  ASSERT_EQ(pools.size(), 1U);
  EXPECT_EQ(pools[0].unsupported_features,
            (std::vector<std::string>{"org.openzfs:draid", "org.example:future"}));
  EXPECT_NE(pools[0].problem.find("org.example:future"), std::string::npos);
  EXPECT_EQ(check_import(pools[0], 0, true, true).error().code(), Errc::unsupported);
}

TEST_F(ImportTest, APoolOfAnUnknownVdevTypeIsListedWithItsProblem) {
  for (auto& [name, image] : pool_.images()) {
    vdev::MemoryDevice device(image, name);
    const std::uint64_t guid = std::stoull(name.substr(7));
    codec::NvList label =
        encode_label_config(pool_.config(), top_of_leaf(pool_.config().root, guid), guid);
    codec::NvList top = **label.list("vdev_tree");
    top.set_string("type", "draid");
    label.set_list("vdev_tree", top);
    for (unsigned i = 0; i < kLabels; ++i) {
      ASSERT_TRUE(write_label(device, i, label).has_value());
    }
    image = device.image();
  }
  const auto pools = pool_.find();
  ASSERT_EQ(pools.size(), 1U);
  EXPECT_EQ(pools[0].config.name, "tank");
  EXPECT_NE(pools[0].problem.find("draid"), std::string::npos);
}

TEST_F(ImportTest, DestroyedPoolsAreFoundAndNotChosen) {
  pool_.config().state = PoolState::destroyed;
  pool_.write();
  const auto pools = pool_.find();
  ASSERT_EQ(pools.size(), 1U);
  EXPECT_EQ(pools[0].config.state, PoolState::destroyed);
  EXPECT_EQ(choose_pool(pools, "tank").error().code(), Errc::not_found);
}

TEST_F(ImportTest, PoolsAreChosenByNameOrGuidAndTwinsByGuidOnly) {
  std::vector<PoolCandidate> pools = pool_.find();
  ASSERT_EQ(pools.size(), 1U);
  EXPECT_EQ(*choose_pool(pools, "tank"), pools.data());
  EXPECT_EQ(*choose_pool(pools, "1000"), pools.data());
  pools.push_back(pools[0]);
  pools[1].config.pool_guid = 2000;
  EXPECT_EQ(choose_pool(pools, "tank").error().code(), Errc::exists);
  EXPECT_EQ(*choose_pool(pools, "2000"), &pools[1]);
  EXPECT_EQ(choose_pool(pools, "other").error().code(), Errc::not_found);
}

TEST_F(ImportTest, AFileThatWasNamedAndIsNoImageIsAnErrorNamingIt) {
  pool_.images().clear();
  pool_.images().emplace("memory:9", vdev::MemoryImage(MemoryPool::kSize));
  const std::vector<std::string> places = {"memory:9"};
  const auto pools = find_pools(places, pool_.opener());
  ASSERT_FALSE(pools.has_value());
  EXPECT_NE(pools.error().what().find("memory:9"), std::string::npos);
  const std::vector<std::string> nowhere = {"memory:none"};
  EXPECT_EQ(find_pools(nowhere, pool_.opener()).error().code(), Errc::not_found);
}

// ---- Pools that OpenZFS wrote, as files
// ------------------------------------------------------------

TEST(ImportFiles, ImagesAreFoundRenamedShuffledAndInSeveralPlaces) {
  const test::Fixture fixture("nofeat-raidz2");
  const auto images = fixture.images();
  ASSERT_EQ(images.size(), 6U);
  const fs::path elsewhere = fixture.directory() / "elsewhere";
  fs::create_directory(elsewhere);
  fs::rename(images[0], elsewhere / "zz");
  fs::rename(images[1], elsewhere / "a b");
  fs::rename(images[2], fixture.directory() / "d9.img");
  std::ofstream(fixture.directory() / "README") << "no image";
  fs::create_symlink(elsewhere / "zz", fixture.directory() / "link");  // the same, once more
  const std::vector<std::string> places = {fixture.directory().string(), elsewhere.string(),
                                           (elsewhere / "a b").string()};
  const auto pools = find_pools(places, files());
  ASSERT_TRUE(pools.has_value()) << pools.error().what();
  ASSERT_EQ(pools->size(), 1U);
  const PoolCandidate& pool = pools->front();
  EXPECT_TRUE(pool.importable()) << pool.problem;
  EXPECT_EQ(pool.config.name, "nofeat-raidz2");
  EXPECT_EQ(pool.config.pool_guid, 15529191593994630674U);
  EXPECT_EQ(pool.found.size(), 6U);
  EXPECT_TRUE(pool.missing.empty());
  EXPECT_TRUE(pool.notes.empty()) << pool.notes.front();
  const auto& leaves = pool.config.root.children[0].children;
  EXPECT_EQ(leaves[1].path, (elsewhere / "a b").string());
  EXPECT_EQ(leaves[2].path, (fixture.directory() / "d9.img").string());
}

TEST(ImportFiles, AFixtureThatLacksAnImageSaysWhich) {
  const test::Fixture fixture("heal-raidz2");
  const std::vector<std::string> places = {fixture.directory().string()};
  const auto pools = find_pools(places, files());
  ASSERT_TRUE(pools.has_value());
  ASSERT_EQ(pools->size(), 1U);
  ASSERT_EQ(pools->front().missing.size(), 1U);
  EXPECT_EQ(pools->front().missing[0].recorded_path, "/gold/heal-raidz2/d4.img");
}

TEST(ImportFiles, AnImageCutShortIsNamed) {
  const test::Fixture fixture("grub2-raidz2");
  ASSERT_EQ(fixture.images().size(), 5U);
  fs::resize_file(fixture.images()[3], 100 * kMiB);
  const std::vector<std::string> places = {fixture.directory().string()};
  const auto pools = find_pools(places, files());
  ASSERT_TRUE(pools.has_value());
  ASSERT_EQ(pools->size(), 1U);
  EXPECT_EQ(pools->front().missing.size(), 1U);
  EXPECT_TRUE(mentions(pools->front().notes, "d3.img is truncated"));
  EXPECT_TRUE(pools->front().importable());
}

}  // namespace
}  // namespace zuse::pool
