// Where a dataset wants to be mounted, by its properties.
#include <gtest/gtest.h>

#include "fs/control/mounts.h"

namespace zuse::control {
namespace {

dataset::DatasetEntry entry(const std::string& mountpoint, const std::string& canmount,
                            dataset::PropertySource source = dataset::PropertySource::local) {
  dataset::DatasetEntry result;
  result.name = "tank/a";
  result.type = "filesystem";
  result.mountable = true;
  result.properties.all()["mountpoint"] = {mountpoint, 0, source, {}};
  result.properties.all()["canmount"] = {canmount, 0, dataset::PropertySource::local, {}};
  return result;
}

TEST(JoinRoot, PathsAreBelowTheAltrootAndTidy) {
  EXPECT_EQ(join_root("", "/tank"), "/tank");
  EXPECT_EQ(join_root("/", "/tank/"), "/tank");
  EXPECT_EQ(join_root("/mnt", "/tank"), "/mnt/tank");
  EXPECT_EQ(join_root("/mnt/", "/"), "/mnt");
  EXPECT_EQ(join_root("", "/"), "/");
  EXPECT_EQ(join_root("", "//a"), "/a");
}

TEST(MountWish, AFileSystemIsMountedAtItsProperty) {
  const MountWish wish = mount_wish(entry("/srv/a", "on"), "/mnt");
  EXPECT_EQ(wish.path, "/mnt/srv/a");
  EXPECT_TRUE(wish.automatic);
  EXPECT_FALSE(wish.inherited);
}

TEST(MountWish, NoautoIsMountedOnlyWhenAsked) {
  const MountWish wish = mount_wish(entry("/srv/a", "noauto"), "");
  EXPECT_EQ(wish.path, "/srv/a");
  EXPECT_FALSE(wish.automatic);
}

TEST(MountWish, LegacyNoneAndOffAreMountedNowhereAndSayWhy) {
  for (const auto& dataset : {entry("legacy", "on"), entry("none", "on"), entry("/a", "off")}) {
    const MountWish wish = mount_wish(dataset, "");
    EXPECT_TRUE(wish.path.empty());
    EXPECT_FALSE(wish.automatic);
    EXPECT_FALSE(wish.why_not.empty());
  }
}

TEST(MountWish, WhatCannotBeReadSaysSo) {
  dataset::DatasetEntry dataset = entry("/a", "on");
  dataset.mountable = false;
  dataset.why_not = "it is encrypted";
  EXPECT_EQ(mount_wish(dataset, "").why_not, "it is encrypted");
}

TEST(MountWish, SnapshotsAndVolumesAreNotMounted) {
  dataset::DatasetEntry dataset = entry("/a", "on");
  dataset.type = "volume";
  EXPECT_TRUE(mount_wish(dataset, "").path.empty());
}

TEST(MountWish, AnInheritedPlaceIsRememberedAsSuch) {
  EXPECT_TRUE(mount_wish(entry("/a", "on", dataset::PropertySource::inherited), "").inherited);
  EXPECT_TRUE(mount_wish(entry("/a", "on", dataset::PropertySource::defaulted), "").inherited);
}

}  // namespace
}  // namespace zuse::control
