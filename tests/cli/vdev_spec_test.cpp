// The vdevs of `zpool create` as words.
#include "fs/cli/vdev_spec.h"

#include <gtest/gtest.h>

#include <boost/filesystem.hpp>
#include <fstream>

namespace zuse::cli {
namespace {

namespace bfs = boost::filesystem;

class VdevSpecTest : public testing::Test {
 protected:
  void SetUp() override {
    before_ = bfs::current_path();
    directory_ = bfs::canonical(bfs::temp_directory_path()) / bfs::unique_path("zuse-%%%%%%%%");
    bfs::create_directory(directory_);
    bfs::current_path(directory_);
    for (const char* const name : {"a", "b", "c", "d", "e", "f"}) {
      std::ofstream(name) << "x";
    }
  }
  void TearDown() override {
    bfs::current_path(before_);
    bfs::remove_all(directory_);
  }
  std::string at(const std::string& name) const { return (directory_ / name).string(); }
  bfs::path before_, directory_;
};

TEST_F(VdevSpecTest, PathsBecomeAbsolute) {
  const auto vdevs = parse_vdevs({"a", "./b"}, false);
  ASSERT_TRUE(vdevs) << vdevs.error().what();
  ASSERT_EQ(vdevs->size(), 2U);
  EXPECT_EQ((*vdevs)[0].paths, std::vector<std::string>{at("a")});
  EXPECT_EQ((*vdevs)[1].paths, std::vector<std::string>{at("b")});
  EXPECT_EQ((*vdevs)[0].type, vdev::VdevType::file);
}

TEST_F(VdevSpecTest, AWordBeginsAGroup) {
  const auto vdevs = parse_vdevs({"raidz2", "a", "b", "c", "raidz2", "d", "e", "f"}, false);
  ASSERT_TRUE(vdevs) << vdevs.error().what();
  ASSERT_EQ(vdevs->size(), 2U);
  EXPECT_EQ((*vdevs)[1].type, vdev::VdevType::raidz);
  EXPECT_EQ((*vdevs)[1].parity, 2U);
  EXPECT_EQ((*vdevs)[1].paths, (std::vector<std::string>{at("d"), at("e"), at("f")}));
}

TEST_F(VdevSpecTest, RaidzMeansSingleParity) {
  const auto vdevs = parse_vdevs({"raidz", "a", "b", "c"}, false);
  ASSERT_TRUE(vdevs);
  EXPECT_EQ((*vdevs)[0].parity, 1U);
}

TEST_F(VdevSpecTest, TooFewDevicesAreRefused) {
  EXPECT_FALSE(parse_vdevs({}, true));
  EXPECT_FALSE(parse_vdevs({"mirror", "a"}, true));
  EXPECT_FALSE(parse_vdevs({"raidz1", "a"}, true));
  EXPECT_FALSE(parse_vdevs({"raidz3", "a", "b", "c"}, true));
}

TEST_F(VdevSpecTest, ADeviceTwiceIsRefusedHoweverItIsSpelled) {
  const auto vdevs =
      parse_vdevs({"mirror", "a", "../" + directory_.filename().string() + "/a"}, true);
  ASSERT_FALSE(vdevs);
  EXPECT_EQ(vdevs.error().code(), Errc::invalid);
}

TEST_F(VdevSpecTest, UnlikeRedundancyNeedsForce) {
  EXPECT_FALSE(parse_vdevs({"mirror", "a", "b", "raidz", "c", "d", "e"}, false));
  EXPECT_TRUE(parse_vdevs({"mirror", "a", "b", "raidz", "c", "d", "e"}, true));
  EXPECT_FALSE(parse_vdevs({"f", "mirror", "a", "b"}, false));
}

TEST_F(VdevSpecTest, OtherKindsOfVdevsAreUnsupportedByName) {
  for (const char* const word : {"log", "cache", "spare", "special", "dedup", "draid2"}) {
    const auto vdevs = parse_vdevs({"a", word, "b"}, true);
    ASSERT_FALSE(vdevs) << word;
    EXPECT_EQ(vdevs.error().code(), Errc::unsupported) << word;
    EXPECT_NE(vdevs.error().what().find(word), std::string::npos);
  }
}

TEST_F(VdevSpecTest, AMissingImageIsNamed) {
  const auto vdevs = parse_vdevs({"absent.img"}, true);
  ASSERT_FALSE(vdevs);
  EXPECT_EQ(vdevs.error().code(), Errc::not_found);
  EXPECT_NE(vdevs.error().what().find("absent.img"), std::string::npos);
}

}  // namespace
}  // namespace zuse::cli
