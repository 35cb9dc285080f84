// What is fit to be mounted on, as far as it can be told without mounting.
#include "fs/fuse/mount_point.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <boost/filesystem.hpp>
#include <fstream>

namespace zuse::fuse {
namespace {

namespace bfs = boost::filesystem;

class MountPointTest : public testing::Test {
 protected:
  void SetUp() override {
    if (::access("/dev/fuse", R_OK | W_OK) != 0) {
      GTEST_SKIP() << "no /dev/fuse here";
    }
    directory_ = bfs::temp_directory_path() / bfs::unique_path("zuse-%%%%%%%%");
    bfs::create_directory(directory_);
  }
  void TearDown() override {
    if (!directory_.empty()) {
      bfs::remove_all(directory_);
    }
  }
  bfs::path directory_;
};

TEST_F(MountPointTest, AnEmptyDirectoryIsFit) {
  EXPECT_TRUE(prepare_mount_point(directory_.string(), false));
}

TEST_F(MountPointTest, ADirectoryWithFilesIsFitOnlyWhenTheyMayBeHidden) {
  std::ofstream((directory_ / "file").string()) << "x";
  const auto refused = prepare_mount_point(directory_.string(), false);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Errc::not_empty);
  EXPECT_TRUE(prepare_mount_point(directory_.string(), true));
}

TEST_F(MountPointTest, AFileIsRefusedByName) {
  const std::string path = (directory_ / "file").string();
  std::ofstream(path) << "x";
  const auto refused = prepare_mount_point(path, false);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Errc::not_directory);
  EXPECT_NE(refused.error().what().find(path), std::string::npos);
}

TEST_F(MountPointTest, WhatIsNotThereIsNotFound) {
  const auto refused = prepare_mount_point((directory_ / "absent").string(), false);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Errc::not_found);
}

TEST_F(MountPointTest, UnmountingAPlainDirectoryFailsAndSaysWhich) {
  const auto refused = unmount(directory_.string(), false);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().what().find(directory_.string()), std::string::npos);
}

}  // namespace
}  // namespace zuse::fuse
