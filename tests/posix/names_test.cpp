// Names: creating, linking, renaming, removing, listing; what each does to attributes and what each
// refuses.
#include <gtest/gtest.h>
#include <linux/falloc.h>
#include <stdio.h>

#include <set>

#include "tests/posix/mounted_fs.h"

namespace zuse::test {
namespace {

using posix::Attributes;
using posix::Inode;

class Names : public MountedTest {
 protected:
  void SetUp() override { make(); }
  Attributes stat(Inode inode) { return must(fs->attributes(inode), "attributes"); }
  Result<Attributes> find(Inode parent, std::string_view name) {
    auto found = fs->lookup(parent, name);
    if (found) {
      fs->forget(found->inode, 1);
    }
    return found;
  }
};

TEST_F(Names, ANewFileSystemHasAnEmptyRootDirectory) {
  const Attributes attributes = stat(root);
  EXPECT_EQ(attributes.mode, S_IFDIR | 0755U);
  EXPECT_EQ(attributes.links, 2U);
  EXPECT_EQ(attributes.size, 2U);
  EXPECT_NE(attributes.generation, 0U);
  EXPECT_TRUE(list(root).empty());
  EXPECT_EQ(must(find(root, "..")).inode, root);
  EXPECT_EQ(must(find(root, ".")).inode, root);
}

TEST_F(Names, WhatIsCreatedIsFoundAgainAfterARemount) {
  const Attributes made = must(fs->create(root, "f", S_IFREG | 0640, 0, 0, kUser));
  must(fs->create(root, "pipe", S_IFIFO | 0600, 0, 0, kUser));
  must(fs->create(root, "socket", S_IFSOCK | 0600, 0, 0, kUser));
  must(fs->create(root, "disk", S_IFBLK | 0600, 8, 1, kRoot));
  must(fs->create(root, "big", S_IFCHR | 0600, 5000, 3000000, kRoot));
  must(fs->make_symlink(root, "link", "target/file", kUser));
  must(fs->make_directory(root, "d", 0750, kUser));
  remount();
  const Attributes found = must(find(root, "f"));
  EXPECT_EQ(found.inode, made.inode);
  EXPECT_EQ(found.generation, made.generation);
  EXPECT_EQ(found.mode, S_IFREG | 0640U);
  EXPECT_EQ(found.uid, 1000U);
  EXPECT_EQ(found.gid, 1000U);
  EXPECT_EQ(found.links, 1U);
  EXPECT_EQ(found.mtime, made.mtime);
  EXPECT_EQ(found.birth, made.birth);
  EXPECT_EQ(must(find(root, "pipe")).mode, S_IFIFO | 0600U);
  EXPECT_EQ(must(find(root, "socket")).mode, S_IFSOCK | 0600U);
  const Attributes disk_node = must(find(root, "disk"));
  EXPECT_EQ(disk_node.mode, S_IFBLK | 0600U);
  EXPECT_EQ(disk_node.rdev_major, 8U);
  EXPECT_EQ(disk_node.rdev_minor, 1U);
  const Attributes big = must(find(root, "big"));
  EXPECT_EQ(big.rdev_major, 5000U);
  EXPECT_EQ(big.rdev_minor, 3000000U);
  const Attributes link = must(find(root, "link"));
  EXPECT_EQ(link.size, 11U);
  EXPECT_EQ(must(fs->read_symlink(link.inode)), "target/file");
  const Attributes subdirectory = must(find(root, "d"));
  EXPECT_EQ(subdirectory.mode, S_IFDIR | 0750U);
  EXPECT_EQ(subdirectory.links, 2U);
  EXPECT_EQ(must(find(subdirectory.inode, "..")).inode, root);
  EXPECT_EQ(stat(root).size, 9U);
  EXPECT_EQ(stat(root).links, 3U);
}

TEST_F(Names, EveryErrorHasItsKind) {
  const Attributes f = file(root, "f");
  const Attributes d = directory(root, "d");
  const Attributes inner = directory(d.inode, "inner");
  const std::string long_name(256, 'x');
  EXPECT_FAILS(fs->lookup(root, "absent"), not_found);
  EXPECT_FAILS(fs->lookup(f.inode, "x"), not_directory);
  EXPECT_FAILS(fs->lookup(root, long_name), name_too_long);
  EXPECT_FAILS(fs->lookup(999999, "x"), stale);
  EXPECT_FAILS(fs->attributes(1), stale);
  EXPECT_FAILS(fs->attributes(0), stale);
  EXPECT_FAILS(fs->create(root, "f", S_IFREG | 0644, 0, 0, kRoot), exists);
  EXPECT_FAILS(fs->create(root, "..", S_IFREG | 0644, 0, 0, kRoot), exists);
  EXPECT_FAILS(fs->create(root, "", S_IFREG | 0644, 0, 0, kRoot), invalid);
  EXPECT_FAILS(fs->create(root, "a/b", S_IFREG | 0644, 0, 0, kRoot), invalid);
  EXPECT_FAILS(fs->create(root, long_name, S_IFREG | 0644, 0, 0, kRoot), name_too_long);
  EXPECT_FAILS(fs->create(root, "x", S_IFDIR | 0644, 0, 0, kRoot), invalid);
  EXPECT_FAILS(fs->create(f.inode, "x", S_IFREG | 0644, 0, 0, kRoot), not_directory);
  EXPECT_FAILS(fs->make_directory(root, "d", 0755, kRoot), exists);
  EXPECT_FAILS(fs->make_symlink(root, "l", std::string(4096, 'y'), kRoot), name_too_long);
  EXPECT_FAILS(fs->make_symlink(root, "l", "", kRoot), invalid);
  EXPECT_FAILS(fs->read_symlink(f.inode), invalid);
  EXPECT_FAILS(fs->unlink(root, "d", kRoot), is_directory);
  EXPECT_FAILS(fs->unlink(root, "absent", kRoot), not_found);
  EXPECT_FAILS(fs->remove_directory(root, "f", kRoot), not_directory);
  EXPECT_FAILS(fs->remove_directory(root, "d", kRoot), not_empty);
  EXPECT_FAILS(fs->remove_directory(root, ".", kRoot), invalid);
  EXPECT_FAILS(fs->remove_directory(root, "..", kRoot), not_empty);
  EXPECT_FAILS(fs->link(d.inode, root, "d2"), not_permitted);
  EXPECT_FAILS(fs->link(f.inode, root, "d"), exists);
  EXPECT_FAILS(fs->rename(root, "absent", root, "x", 0, kRoot), not_found);
  EXPECT_FAILS(fs->rename(root, "f", root, "d", 0, kRoot), is_directory);
  EXPECT_FAILS(fs->rename(root, "d", root, "f", 0, kRoot), not_directory);
  EXPECT_FAILS(fs->rename(root, "d", inner.inode, "x", 0, kRoot), invalid);
  EXPECT_FAILS(fs->rename(root, "d", d.inode, "x", 0, kRoot), invalid);
  EXPECT_FAILS(fs->rename(d.inode, "inner", root, "d", 0, kRoot), not_empty);
  EXPECT_FAILS(fs->rename(root, "f", root, "d", RENAME_NOREPLACE, kRoot), exists);
  EXPECT_FAILS(fs->rename(root, "f", root, "x", RENAME_EXCHANGE, kRoot), not_found);
  EXPECT_FAILS(fs->rename(root, "f", root, "x", RENAME_WHITEOUT, kRoot), invalid);
  EXPECT_FAILS(fs->rename(root, "f", root, "x", RENAME_EXCHANGE | RENAME_NOREPLACE, kRoot),
               invalid);
  EXPECT_FAILS(fs->rename(root, ".", root, "x", 0, kRoot), busy);
  EXPECT_FAILS(fs->rename(d.inode, "inner", root, "d", RENAME_EXCHANGE, kRoot), invalid);
}

TEST_F(Names, ADirectoryThatWasRemovedTakesNoNewNames) {
  const Attributes d = directory(root, "d");
  const Attributes f = file(root, "f");
  EXPECT_OK(fs->remove_directory(root, "d", kRoot));
  EXPECT_EQ(stat(d.inode).links, 0U);
  EXPECT_FAILS(fs->create(d.inode, "x", S_IFREG | 0644, 0, 0, kRoot), not_found);
  EXPECT_FAILS(fs->make_directory(d.inode, "x", 0755, kRoot), not_found);
  EXPECT_FAILS(fs->link(f.inode, d.inode, "x"), not_found);
  EXPECT_FAILS(fs->rename(root, "f", d.inode, "x", 0, kRoot), not_found);
  EXPECT_FAILS(fs->make_temporary(d.inode, 0600, kRoot), not_found);
  EXPECT_TRUE(must(fs->read_directory(d.inode, 2, 10)).empty());
  fs->forget(d.inode, 1);
  EXPECT_FAILS(fs->attributes(d.inode), stale);
}

TEST_F(Names, HardLinksShareAFileAndCount) {
  const Attributes f = file(root, "f");
  const Attributes d = directory(root, "d");
  EXPECT_EQ(must(fs->link(f.inode, d.inode, "g")).links, 2U);
  put(f.inode, 0, "shared");
  EXPECT_EQ(must(find(d.inode, "g")).inode, f.inode);
  EXPECT_OK(fs->unlink(root, "f", kRoot));
  EXPECT_EQ(stat(f.inode).links, 1U);
  remount();
  EXPECT_EQ(get(must(find(must(find(root, "d")).inode, "g")).inode), "shared");
}

TEST_F(Names, AnUnlinkedFileLivesAsLongAsItIsHeld) {
  const Attributes f = file(root, "f");
  put(f.inode, 0, "still here");
  EXPECT_OK(fs->unlink(root, "f", kRoot));
  EXPECT_FAILS(find(root, "f"), not_found);
  EXPECT_EQ(stat(f.inode).links, 0U);
  EXPECT_EQ(get(f.inode), "still here");
  put(f.inode, 6, "there");
  EXPECT_EQ(get(f.inode), "still there");
  EXPECT_OK(dataset->sync());
  EXPECT_EQ(get(f.inode), "still there");
  fs->forget(f.inode, 1);
  EXPECT_FAILS(fs->attributes(f.inode), stale);
}

TEST_F(Names, FilesWithoutANameAreFreedByTheNextMountAfterACrash) {
  EXPECT_OK(dataset->sync());
  remount();
  const std::uint64_t objects = dataset->objset().object_count();
  const Attributes f = file(root, "f");
  put(f.inode, 0, std::string(300000, 'a'));
  const Attributes d = directory(root, "d");
  must(fs->make_temporary(root, 0600, kRoot));
  EXPECT_OK(fs->unlink(root, "f", kRoot));
  EXPECT_OK(fs->remove_directory(root, "d", kRoot));
  EXPECT_OK(dataset->sync());
  EXPECT_EQ(dataset->objset().object_count(), objects + 3);
  crash();
  EXPECT_OK(dataset->sync());
  EXPECT_EQ(dataset->objset().object_count(), objects);
  EXPECT_FAILS(fs->attributes(f.inode), stale);
  EXPECT_FAILS(fs->attributes(d.inode), stale);
}

TEST_F(Names, UnmountFreesWhatHasNoNameThoughItIsHeld) {
  const std::uint64_t objects = dataset->objset().object_count();
  const Attributes f = file(root, "f");
  EXPECT_OK(fs->unlink(root, "f", kRoot));
  must(fs->make_temporary(root, 0600, kRoot));
  EXPECT_OK(fs->unmount());
  EXPECT_OK(dataset->sync());
  EXPECT_EQ(dataset->objset().object_count(), objects);
  EXPECT_FAILS(fs->attributes(f.inode), stale);
}

TEST_F(Names, ATemporaryFileGetsItsNameByLinking) {
  const Attributes t = must(fs->make_temporary(root, 0600, kUser));
  EXPECT_EQ(t.links, 0U);
  put(t.inode, 0, "content");
  EXPECT_EQ(must(fs->link(t.inode, root, "named")).links, 1U);
  fs->forget(t.inode, 2);
  remount();
  EXPECT_EQ(get(must(find(root, "named")).inode), "content");
  // Once it has had a name, losing that one is final.
  const Attributes held = must(fs->lookup(root, "named"));
  EXPECT_OK(fs->unlink(root, "named", kRoot));
  EXPECT_FAILS(fs->link(held.inode, root, "again"), not_found);
}

TEST_F(Names, RenameMovesReplacesAndExchanges) {
  const Attributes a = file(root, "a");
  const Attributes b = file(root, "b");
  const Attributes d = directory(root, "d");
  const Attributes e = directory(root, "e");
  fs->forget(b.inode, 1);
  EXPECT_OK(fs->rename(root, "a", root, "b", 0, kRoot));
  EXPECT_EQ(must(find(root, "b")).inode, a.inode);
  EXPECT_FAILS(find(root, "a"), not_found);
  EXPECT_FAILS(fs->attributes(b.inode), stale);
  EXPECT_EQ(stat(root).size, 5U);

  EXPECT_OK(fs->rename(root, "d", e.inode, "d2", 0, kRoot));
  EXPECT_EQ(stat(root).links, 3U);
  EXPECT_EQ(stat(e.inode).links, 3U);
  EXPECT_EQ(must(find(d.inode, "..")).inode, e.inode);

  EXPECT_OK(fs->rename(root, "b", e.inode, "d2", RENAME_EXCHANGE, kRoot));
  EXPECT_EQ(must(find(root, "b")).inode, d.inode);
  EXPECT_EQ(must(find(e.inode, "d2")).inode, a.inode);
  EXPECT_EQ(must(find(d.inode, "..")).inode, root);
  EXPECT_EQ(stat(root).links, 4U);
  EXPECT_EQ(stat(e.inode).links, 2U);

  // An empty directory gives way to another.
  EXPECT_OK(fs->unlink(e.inode, "d2", kRoot));
  EXPECT_OK(fs->rename(root, "b", root, "e", 0, kRoot));
  EXPECT_EQ(must(find(root, "e")).inode, d.inode);
  EXPECT_EQ(stat(root).links, 3U);
  EXPECT_EQ(stat(root).size, 3U);

  // Two names of one file: nothing happens.
  const Attributes f = file(root, "f");
  must(fs->link(f.inode, root, "g"));
  EXPECT_OK(fs->rename(root, "f", root, "g", 0, kRoot));
  EXPECT_EQ(must(find(root, "f")).inode, f.inode);
  EXPECT_EQ(must(find(root, "g")).inode, f.inode);
  EXPECT_OK(fs->rename(root, "f", root, "f", 0, kRoot));
  EXPECT_OK(fs->rename(root, "f", root, "h", RENAME_NOREPLACE, kRoot));
  remount();
  EXPECT_EQ(must(find(root, "h")).inode, f.inode);
}

TEST_F(Names, ASetGroupIdDirectoryHandsDownItsGroup) {
  const Attributes d = directory(root, "d");
  posix::AttributeChange change;
  change.gid = 77;
  change.mode = 02775;
  must(fs->set_attributes(d.inode, change, kRoot));
  const Attributes f = must(fs->create(d.inode, "f", S_IFREG | 0644, 0, 0, kUser));
  EXPECT_EQ(f.gid, 77U);
  EXPECT_EQ(f.mode & S_ISGID, 0U);
  const Attributes inner = must(fs->make_directory(d.inode, "inner", 0755, kUser));
  EXPECT_EQ(inner.gid, 77U);
  EXPECT_NE(inner.mode & S_ISGID, 0U);
  EXPECT_EQ(must(fs->create(root, "plain", S_IFREG | 0644, 0, 0, kUser)).gid, 1000U);
  EXPECT_EQ(must(fs->create(root, "masked", S_IFREG | 0666, 0, 0, {1, 1, 022})).mode,
            S_IFREG | 0644U);
}

TEST_F(Names, ListingGoesOnWhereItStoppedWhileNamesComeAndGo) {
  const Attributes d = directory(root, "d");
  std::set<std::string> stay;
  for (int i = 0; i < 300; ++i) {
    const std::string name = "file-" + std::to_string(i);
    fs->forget(file(d.inode, name).inode, 1);
    if (i % 3 == 0) {
      stay.insert(name);
    }
  }
  std::multiset<std::string> seen;
  std::uint64_t offset = 0;
  int page_number = 0;
  for (;; ++page_number) {
    const auto page = must(fs->read_directory(d.inode, offset, 10));
    if (page.empty()) {
      break;
    }
    ASSERT_LT(page_number, 1000);
    for (const auto& entry : page) {
      seen.insert(entry.name);
    }
    offset = page.back().next_offset;
    const std::string gone = "file-" + std::to_string(page_number * 3 + 1);
    (void)fs->unlink(d.inode, gone, kRoot);
    fs->forget(file(d.inode, "new-" + std::to_string(page_number)).inode, 1);
  }
  for (const std::string& name : stay) {
    EXPECT_EQ(seen.count(name), 1U) << name;
  }
  EXPECT_EQ(seen.count("."), 1U);
  EXPECT_EQ(seen.count(".."), 1U);
  // The offset of any entry starts behind it.
  const auto all = must(fs->read_directory(d.inode, 0, 100000));
  for (std::size_t i = 0; i + 1 < all.size(); i += 17) {
    const auto next = must(fs->read_directory(d.inode, all[i].next_offset, 1));
    ASSERT_EQ(next.size(), 1U);
    EXPECT_EQ(next[0].name, all[i + 1].name);
  }
  EXPECT_TRUE(must(fs->read_directory(d.inode, all.back().next_offset, 10)).empty());
  EXPECT_EQ(stat(d.inode).size, all.size());
}

TEST_F(Names, AFullPoolStillRemovesAndTruncates) {
  const Attributes f = file(root, "f");
  put(f.inode, 0, std::string(100000, 'x'));
  directory(root, "d");
  dataset->set_full(true);
  EXPECT_FAILS(fs->create(root, "g", S_IFREG | 0644, 0, 0, kRoot), no_space);
  EXPECT_FAILS(fs->write(f.inode, 0, bytes_of("y"), kRoot), no_space);
  posix::AttributeChange shorter;
  shorter.size = 10;
  EXPECT_FAILS(find(root, "g"), not_found);
  EXPECT_OK(fs->remove_directory(root, "d", kRoot));
  const auto truncated = fs->set_attributes(f.inode, shorter, kRoot);
  EXPECT_OK(truncated);
  EXPECT_EQ(stat(f.inode).size, 10U);
  EXPECT_OK(fs->unlink(root, "f", kRoot));
  dataset->set_full(false);
}

TEST_F(Names, AReadOnlyFileSystemRefusesEveryChange) {
  const Attributes f = file(root, "f");
  directory(root, "d");
  put(f.inode, 0, "data");
  mount_options.read_only = true;
  remount();
  EXPECT_EQ(get(f.inode), "data");
  EXPECT_FAILS(fs->create(root, "g", S_IFREG | 0644, 0, 0, kRoot), read_only);
  EXPECT_FAILS(fs->make_directory(root, "g", 0755, kRoot), read_only);
  EXPECT_FAILS(fs->make_symlink(root, "g", "f", kRoot), read_only);
  EXPECT_FAILS(fs->make_temporary(root, 0600, kRoot), read_only);
  EXPECT_FAILS(fs->link(f.inode, root, "g"), read_only);
  EXPECT_FAILS(fs->unlink(root, "f", kRoot), read_only);
  EXPECT_FAILS(fs->remove_directory(root, "d", kRoot), read_only);
  EXPECT_FAILS(fs->rename(root, "f", root, "g", 0, kRoot), read_only);
  EXPECT_FAILS(fs->write(f.inode, 0, bytes_of("x"), kRoot), read_only);
  EXPECT_FAILS(fs->allocate(f.inode, 0, 0, 10, kRoot), read_only);
  EXPECT_FAILS(fs->set_attributes(f.inode, {}, kRoot), read_only);
  EXPECT_FAILS(fs->set_xattr(f.inode, "user.a", {}, posix::FileSystem::XattrMode::any), read_only);
  EXPECT_FAILS(fs->remove_xattr(f.inode, "user.a"), read_only);
  EXPECT_OK(fs->fsync(f.inode));
}

TEST_F(Names, ChangingOwnerOrContentsDropsSetUserId) {
  const Attributes f = file(root, "f", 06755);
  posix::AttributeChange owner;
  owner.uid = 1000;
  EXPECT_EQ(must(fs->set_attributes(f.inode, owner, kRoot)).mode, S_IFREG | 06755U);
  EXPECT_OK(fs->write(f.inode, 0, bytes_of("x"), kRoot));
  EXPECT_EQ(stat(f.inode).mode, S_IFREG | 06755U);
  EXPECT_OK(fs->write(f.inode, 0, bytes_of("x"), kUser));
  EXPECT_EQ(stat(f.inode).mode, S_IFREG | 0755U);
  posix::AttributeChange mode, full;
  mode.mode = 06745;
  full.mode = 06755;
  EXPECT_EQ(must(fs->set_attributes(f.inode, mode, kRoot)).mode, S_IFREG | 06745U);
  posix::AttributeChange group;
  group.gid = 5;
  // Without group execution set-group-id means something else, and stays.
  EXPECT_EQ(must(fs->set_attributes(f.inode, group, kUser)).mode, S_IFREG | 02745U);
  // Cutting, and whatever fallocate(2) does.
  posix::AttributeChange cut;
  cut.size = 0;
  const auto again = [&] { must(fs->set_attributes(f.inode, full, kRoot)); };
  again();
  EXPECT_EQ(must(fs->set_attributes(f.inode, cut, kRoot)).mode, S_IFREG | 06755U);
  EXPECT_EQ(must(fs->set_attributes(f.inode, cut, kUser)).mode, S_IFREG | 0755U);
  put(f.inode, 0, "some bytes");
  for (const int how :
       {0, FALLOC_FL_KEEP_SIZE, FALLOC_FL_ZERO_RANGE, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE}) {
    for (const std::uint64_t length : {std::uint64_t{5}, std::uint64_t{100}}) {
      again();
      EXPECT_OK(fs->allocate(f.inode, how, 0, length, kRoot));
      EXPECT_EQ(stat(f.inode).mode, S_IFREG | 06755U) << how << ' ' << length;
      EXPECT_OK(fs->allocate(f.inode, how, 0, length, kUser));
      EXPECT_EQ(stat(f.inode).mode, S_IFREG | 0755U) << how << ' ' << length;
    }
  }
  // So does a new owner of what is no regular file.
  for (const std::uint32_t type : {S_IFIFO, S_IFSOCK, S_IFCHR, S_IFBLK}) {
    const Attributes node =
        must(fs->create(root, "node" + std::to_string(type), type | 06755U, 0, 0, kRoot));
    EXPECT_EQ(must(fs->set_attributes(node.inode, owner, kUser)).mode, type | 0755U);
  }
  // Directories keep theirs: set-group-id means inheritance.
  const Attributes d = must(fs->make_directory(root, "d", 02775, kRoot));
  EXPECT_EQ(must(fs->set_attributes(d.inode, owner, kUser)).mode, S_IFDIR | 02775U);
}

TEST_F(Names, TimesFollowWhatIsDone) {
  mount_options.clock = [now = std::make_shared<std::int64_t>(1000)] {
    return posix::Time{++*now, 7};
  };
  remount();
  const Attributes f = file(root, "f");
  EXPECT_EQ(f.atime, f.birth);
  const Attributes before = stat(root);
  put(f.inode, 0, "x");
  EXPECT_GT(stat(f.inode).mtime, f.mtime);
  EXPECT_EQ(stat(f.inode).mtime, stat(f.inode).ctime);
  EXPECT_EQ(stat(root).mtime, before.mtime);
  const Attributes written = stat(f.inode);
  EXPECT_EQ(get(f.inode), "x");
  EXPECT_GT(stat(f.inode).atime, written.mtime) << "the first read after a change counts";
  const Attributes once = stat(f.inode);
  EXPECT_EQ(get(f.inode), "x");
  EXPECT_EQ(stat(f.inode).atime, once.atime) << "relatime: the second does not";
  posix::AttributeChange change;
  change.atime = posix::Time{-5, 999'999'999};
  change.mtime = posix::Time{4'000'000'000, 1};
  const Attributes set = must(fs->set_attributes(f.inode, change, kRoot));
  EXPECT_EQ(set.atime, *change.atime);
  EXPECT_EQ(set.mtime, *change.mtime);
  EXPECT_GT(set.ctime, once.ctime);
  EXPECT_OK(fs->rename(root, "f", root, "g", 0, kRoot));
  EXPECT_GT(stat(f.inode).ctime, set.ctime);
  EXPECT_GT(stat(root).mtime, before.mtime);
  remount();
  EXPECT_EQ(stat(f.inode).mtime, *change.mtime);
  EXPECT_EQ(stat(f.inode).atime, *change.atime);
  EXPECT_EQ(stat(f.inode).birth, f.birth);
}

TEST_F(Names, StatisticsAddUp) {
  const posix::Statistics statistics = must(fs->statistics());
  EXPECT_EQ(statistics.block_size, 131072U);
  EXPECT_EQ(statistics.blocks - statistics.free, 8U);  // the dataset refers to 1 MiB
  EXPECT_EQ(statistics.available, (std::uint64_t{1} << 40U) / 131072);
  EXPECT_EQ(statistics.files - statistics.files_free, dataset->objset().object_count());
  EXPECT_EQ(statistics.name_max, 255U);
}

TEST_F(Names, FilesThatNobodyHoldsAreKeptInBoundedNumberAndReadAgain) {
  mount_options.znodes_idle_max = 10;
  remount();
  std::vector<Attributes> files;
  for (int i = 0; i < 200; ++i) {
    files.push_back(file(root, "f" + std::to_string(i)));
    put(files.back().inode, 0, std::to_string(i));
    fs->forget(files.back().inode, 1);
  }
  for (int i = 0; i < 200; ++i) {
    EXPECT_EQ(get(files[static_cast<std::size_t>(i)].inode), std::to_string(i));
  }
  EXPECT_OK(dataset->sync());
  for (int i = 199; i >= 0; --i) {
    const Attributes found = must(find(root, "f" + std::to_string(i)));
    EXPECT_EQ(found.size, std::to_string(i).size());
  }
}

TEST_F(Names, SnapshotsAreFoundBelowTheControlDirectory) {
  disk.keep_freed = true;
  const Attributes f = file(root, "f");
  put(f.inode, 0, "then");
  EXPECT_OK(dataset->sync());
  const format::Blkptr then = disk.root;
  put(f.inode, 0, "now!");
  snapshots.list = [] {
    return Result<std::vector<std::string>>(std::vector<std::string>{"monday"});
  };
  snapshots.open = [this, then](const std::string&) -> Result<std::shared_ptr<dataset::Dataset>> {
    MemoryDatasetOptions options;
    options.read_only = options.snapshot = true;
    options.name = "tank/home@monday";
    ZUSE_TRY(std::shared_ptr<MemoryDataset> opened, MemoryDataset::open(disk, then, options));
    return std::shared_ptr<dataset::Dataset>(std::move(opened));
  };
  mount_options.snapshots_visible = true;
  remount();
  const auto names = list(root, 2);
  ASSERT_EQ(names.size(), 2U);
  EXPECT_EQ(names[0].name, ".zfs");
  const Attributes control = must(fs->lookup(root, ".zfs"));
  EXPECT_EQ(control.inode, 0xFFFFFFFFFFFFU);
  const Attributes directory_of_snapshots = must(fs->lookup(control.inode, "snapshot"));
  EXPECT_EQ(directory_of_snapshots.inode, 0xFFFFFFFFFFFDU);
  EXPECT_EQ(list(control.inode).size(), 1U);
  EXPECT_EQ(list(directory_of_snapshots.inode).at(0).name, "monday");
  EXPECT_FAILS(fs->lookup(directory_of_snapshots.inode, "tuesday"), not_found);
  const Attributes monday = must(fs->lookup(directory_of_snapshots.inode, "monday"));
  EXPECT_EQ(must(fs->lookup(monday.inode, "..")).inode, directory_of_snapshots.inode);
  const auto inside = list(monday.inode);
  ASSERT_EQ(inside.size(), 1U);
  const Attributes old = must(fs->lookup(monday.inode, "f"));
  EXPECT_EQ(old.inode, inside[0].inode);
  EXPECT_NE(old.inode, f.inode);
  EXPECT_EQ(get(old.inode), "then");
  EXPECT_EQ(get(f.inode), "now!");
  EXPECT_FAILS(fs->write(old.inode, 0, bytes_of("x"), kRoot), read_only);
  EXPECT_FAILS(fs->create(monday.inode, "x", S_IFREG | 0644, 0, 0, kRoot), read_only);
  EXPECT_FAILS(fs->create(root, ".zfs", S_IFREG | 0644, 0, 0, kRoot), exists);
  EXPECT_FAILS(fs->make_directory(directory_of_snapshots.inode, "x", 0755, kRoot), read_only);
  EXPECT_FAILS(fs->link(old.inode, root, "x"), cross_device);
  EXPECT_FAILS(fs->rename(monday.inode, "f", root, "x", 0, kRoot), cross_device);
  EXPECT_FAILS(fs->attributes(Inode{40} << 48U | 5), stale);
}

}  // namespace
}  // namespace zuse::test
