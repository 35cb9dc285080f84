// Bytes of files: growth of blocks, lengths, holes; extended attributes in both forms.
#include <gtest/gtest.h>
#include <linux/falloc.h>

#include <algorithm>
#include <random>

#include "fs/object/zap.h"
#include "fs/posix/format.h"
#include "tests/posix/mounted_fs.h"
#include "tests/support/seed.h"

namespace zuse::test {
namespace {

using posix::Attributes;
using posix::Inode;
using XattrMode = posix::FileSystem::XattrMode;

class Data : public MountedTest {
 protected:
  void SetUp() override { make(); }
  std::uint64_t size(Inode inode) { return must(fs->attributes(inode)).size; }
  std::uint32_t block(Inode inode) { return must(fs->attributes(inode)).block_size; }
  void resize(Inode inode, std::uint64_t to) {
    posix::AttributeChange change;
    change.size = to;
    EXPECT_OK(fs->set_attributes(inode, change, kRoot));
  }
};

TEST_F(Data, ASmallFileIsOneBlockThatGrowsByHalfKibibytes) {
  const Inode f = file(root, "f").inode;
  EXPECT_EQ(block(f), 512U);
  put(f, 0, "a");
  EXPECT_EQ(block(f), 512U);
  put(f, 511, "bc");
  EXPECT_EQ(block(f), 1024U);
  put(f, 5000, "d");
  EXPECT_EQ(block(f), 5120U);
  put(f, 131071, "e");
  EXPECT_EQ(block(f), 131072U);
  put(f, 131072, "f");
  EXPECT_EQ(block(f), 131072U);
  EXPECT_EQ(size(f), 131073U);
  std::string expected(131073, '\0');
  expected[0] = 'a';
  expected[511] = 'b';
  expected[512] = 'c';
  expected[5000] = 'd';
  expected[131071] = 'e';
  expected[131072] = 'f';
  EXPECT_EQ(get(f), expected);
  remount();
  EXPECT_EQ(get(f), expected);
}

TEST_F(Data, AWriteFarBehindTheEndLeavesAHole) {
  const Inode f = file(root, "f").inode;
  put(f, 10 << 20, "end");
  EXPECT_EQ(block(f), 131072U);
  EXPECT_EQ(get(f, (10 << 20) - 3, 10), std::string("\0\0\0end", 6));
  EXPECT_EQ(must(fs->seek_data(f, 0)), 10U << 20U);
  EXPECT_EQ(must(fs->seek_hole(f, 0)), 0U);
  EXPECT_EQ(must(fs->seek_hole(f, 10 << 20)), (10U << 20U) + 3);
  EXPECT_FAILS(fs->seek_data(f, (10 << 20) + 3), not_found);
  EXPECT_FAILS(fs->seek_hole(f, (10 << 20) + 3), not_found);
  remount();
  EXPECT_EQ(must(fs->seek_data(f, 0)), 10U << 20U);
}

TEST_F(Data, TruncationForgetsWhatItCutsOff) {
  const Inode f = file(root, "f").inode;
  put(f, 0, std::string(200000, 'x'));
  resize(f, 1000);
  EXPECT_EQ(size(f), 1000U);
  resize(f, 150000);
  EXPECT_EQ(get(f), std::string(1000, 'x') + std::string(149000, '\0'));
  remount();
  EXPECT_EQ(get(f), std::string(1000, 'x') + std::string(149000, '\0'));
  resize(f, 0);
  put(f, 5, "y");
  EXPECT_EQ(get(f), std::string("\0\0\0\0\0y", 6));
}

TEST_F(Data, GrowingByTruncationSizesTheBlockToo) {
  const Inode f = file(root, "f").inode;
  put(f, 0, "abc");
  resize(f, 3000);
  EXPECT_EQ(block(f), 3072U);
  resize(f, std::uint64_t{1} << 40U);
  EXPECT_EQ(block(f), 131072U);
  EXPECT_EQ(get(f, 0, 4), std::string("abc\0", 4));
  EXPECT_EQ(get(f, (std::uint64_t{1} << 40U) - 2, 10), std::string(2, '\0'));
  put(f, std::uint64_t{1} << 39U, "mid");
  resize(f, (std::uint64_t{1} << 39U) + 1);
  EXPECT_EQ(get(f, std::uint64_t{1} << 39U, 10), "m");
  resize(f, 2);
  EXPECT_EQ(get(f), "ab");
}

TEST_F(Data, LimitsAreRefused) {
  const Inode f = file(root, "f").inode;
  EXPECT_FAILS(fs->write(f, INT64_MAX, bytes_of("x"), kRoot), too_large);
  EXPECT_FAILS(fs->write(f, ~std::uint64_t{0}, bytes_of("x"), kRoot), too_large);
  posix::AttributeChange change;
  change.size = std::uint64_t{1} << 63U;
  EXPECT_FAILS(fs->set_attributes(f, change, kRoot), too_large);
  EXPECT_FAILS(fs->allocate(f, 0, INT64_MAX, 1, kRoot), too_large);
  EXPECT_FAILS(fs->allocate(f, 0, 0, 0, kRoot), invalid);
  EXPECT_FAILS(fs->allocate(f, FALLOC_FL_COLLAPSE_RANGE, 0, 4096, kRoot), unsupported);
  EXPECT_FAILS(fs->allocate(f, FALLOC_FL_PUNCH_HOLE, 0, 4096, kRoot), unsupported);
  EXPECT_FAILS(fs->allocate(f, 0, 0, std::uint64_t{1} << 41U, kRoot), no_space);
  const Inode d = directory(root, "d").inode;
  EXPECT_FAILS(fs->read(d, 0, 10), is_directory);
  EXPECT_FAILS(fs->write(d, 0, bytes_of("x"), kRoot), is_directory);
  change.size = 0;
  EXPECT_FAILS(fs->set_attributes(d, change, kRoot), is_directory);
  const Inode pipe = must(fs->create(root, "p", S_IFIFO | 0600, 0, 0, kRoot)).inode;
  EXPECT_FAILS(fs->write(pipe, 0, bytes_of("x"), kRoot), invalid);
}

TEST_F(Data, FallocateExtendsPunchesAndZeroes) {
  const Inode f = file(root, "f").inode;
  put(f, 0, std::string(400000, 'x'));
  EXPECT_OK(fs->allocate(f, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 1000, 300000, kRoot));
  std::string expected(400000, 'x');
  std::fill(expected.begin() + 1000, expected.begin() + 301000, '\0');
  EXPECT_EQ(get(f), expected);
  EXPECT_EQ(must(fs->seek_hole(f, 0)), 131072U) << "whole blocks become holes";
  EXPECT_OK(fs->allocate(f, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 399999, 1000, kRoot));
  expected[399999] = '\0';
  EXPECT_EQ(get(f), expected);
  EXPECT_OK(fs->allocate(f, FALLOC_FL_ZERO_RANGE, 390000, 20000, kRoot));
  expected.resize(410000);
  std::fill(expected.begin() + 390000, expected.end(), '\0');
  EXPECT_EQ(get(f), expected);
  EXPECT_OK(fs->allocate(f, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, 0, 1000000, kRoot));
  EXPECT_EQ(get(f), std::string(410000, '\0'));
  EXPECT_OK(fs->allocate(f, FALLOC_FL_KEEP_SIZE, 0, 1000000, kRoot));
  EXPECT_EQ(size(f), 410000U);
  EXPECT_OK(fs->allocate(f, 0, 0, 500000, kRoot));
  EXPECT_EQ(size(f), 500000U);
  EXPECT_OK(fs->allocate(f, 0, 0, 100, kRoot));
  EXPECT_EQ(size(f), 500000U);
}

TEST_F(Data, FsyncMakesNameAndContentsSurviveACrash) {
  const Inode d = directory(root, "d").inode;
  const Inode f = file(d, "f").inode;
  put(f, 0, "precious");
  EXPECT_OK(fs->fsync(f));
  put(f, 0, "LOST");
  file(d, "lost");
  crash();
  EXPECT_EQ(get(f), "precious");
  const auto names = list(d);
  ASSERT_EQ(names.size(), 1U);
  EXPECT_EQ(names[0].name, "f");
}

TEST_F(Data, AccountingFollowsOwnersAndSizes) {
  MemoryDatasetOptions options;
  options.policy.user_accounting = true;
  options.policy.user_object_accounting = true;
  options.policy.project_accounting = true;
  disk.txg = 0;
  fs.reset();
  dataset.reset();
  make(options);
  const Inode f = must(fs->create(root, "f", S_IFREG | 0644, 0, 0, kUser)).inode;
  put(f, 0, std::string(100000, 'x'));
  EXPECT_OK(dataset->sync());
  const object::DnodeRef users = dataset->objset().special(-1);
  ASSERT_NE(users, nullptr);
  const object::Zap zap(users);
  const std::uint64_t used = must(zap.lookup("3e8"));
  EXPECT_GE(used, 100000U);
  EXPECT_EQ(must(zap.lookup("obj-3e8")), 1U);
  posix::AttributeChange owner;
  owner.uid = 1001;
  must(fs->set_attributes(f, owner, kRoot));
  EXPECT_OK(dataset->sync());
  EXPECT_EQ(must(zap.lookup("3e9")), used);
  EXPECT_FAILS(zap.lookup("3e8"), not_found);
}

class Xattrs : public MountedTest, public testing::WithParamInterface<int> {
 protected:
  void SetUp() override {
    MemoryDatasetOptions options;
    options.properties["xattr"] = static_cast<std::uint64_t>(GetParam());
    make(options);
  }
  std::string value(Inode inode, const std::string& name) {
    return text_of(must(fs->get_xattr(inode, name), name.c_str()));
  }
  void set(Inode inode, const std::string& name, std::string_view text) {
    EXPECT_OK(fs->set_xattr(inode, name, bytes_of(text), XattrMode::any));
  }
};

TEST_P(Xattrs, AreKeptListedReplacedAndRemoved) {
  const Inode f = file(root, "f").inode;
  const Inode d = directory(root, "d").inode;
  const Inode l = must(fs->make_symlink(root, "l", "f", kRoot)).inode;
  for (const Inode inode : {f, d, l}) {
    EXPECT_FAILS(fs->get_xattr(inode, "user.a"), no_data);
    EXPECT_FAILS(fs->remove_xattr(inode, "user.a"), no_data);
    EXPECT_TRUE(must(fs->list_xattrs(inode)).empty());
    set(inode, "user.a", "one");
    set(inode, "trusted.b", "");
    set(inode, "security.selinux", std::string(300, 's'));
    set(inode, "system.posix_acl_access", "acl");
    EXPECT_FAILS(fs->set_xattr(inode, "user.a", bytes_of("x"), XattrMode::create), exists);
    EXPECT_FAILS(fs->set_xattr(inode, "user.new", bytes_of("x"), XattrMode::replace), no_data);
    EXPECT_OK(fs->set_xattr(inode, "user.a", bytes_of("other"), XattrMode::replace));
    EXPECT_OK(fs->remove_xattr(inode, "trusted.b"));
  }
  remount();
  for (const Inode inode : {f, d, l}) {
    EXPECT_EQ(value(inode, "user.a"), "other");
    EXPECT_EQ(value(inode, "security.selinux"), std::string(300, 's'));
    auto names = must(fs->list_xattrs(inode));
    std::sort(names.begin(), names.end());
    EXPECT_EQ(names,
              (std::vector<std::string>{"security.selinux", "system.posix_acl_access", "user.a"}));
  }
  EXPECT_EQ(must(fs->read_symlink(l)), "f");
  EXPECT_TRUE(list(d).empty()) << "attributes are no directory entries";
}

TEST_P(Xattrs, LargeOnesAndManyOnesAreKept) {
  const Inode f = file(root, "f").inode;
  set(f, "user.large", std::string(60000, 'L'));
  for (int i = 0; i < 40; ++i) {
    set(f, "user.n" + std::to_string(i), std::string(3000, static_cast<char>('a' + i % 26)));
  }
  EXPECT_FAILS(fs->set_xattr(f, "user.huge", std::vector<std::byte>(65537), XattrMode::any),
               too_large);
  remount();
  EXPECT_EQ(value(f, "user.large"), std::string(60000, 'L'));
  for (int i = 0; i < 40; ++i) {
    EXPECT_EQ(value(f, "user.n" + std::to_string(i)),
              std::string(3000, static_cast<char>('a' + i % 26)));
  }
  EXPECT_EQ(must(fs->list_xattrs(f)).size(), 41U);
  // A value that shrinks or grows moves between the forms and stays one.
  set(f, "user.large", "now small");
  EXPECT_EQ(value(f, "user.large"), "now small");
  set(f, "user.n0", std::string(50000, 'G'));
  EXPECT_EQ(value(f, "user.n0"), std::string(50000, 'G'));
  EXPECT_EQ(must(fs->list_xattrs(f)).size(), 41U);
}

TEST_P(Xattrs, GoWithTheirFile) {
  const std::uint64_t objects = dataset->objset().object_count();
  const Inode f = file(root, "f").inode;
  for (int i = 0; i < 100; ++i) {
    set(f, "user.n" + std::to_string(i), std::string(2000, 'x'));
  }
  EXPECT_OK(dataset->sync());
  EXPECT_GT(dataset->objset().object_count(), objects);
  EXPECT_OK(fs->unlink(root, "f", kRoot));
  fs->forget(f, 1);
  EXPECT_OK(dataset->sync());
  EXPECT_EQ(dataset->objset().object_count(), objects);
}

TEST_P(Xattrs, AreRefusedUnderForeignNames) {
  const Inode f = file(root, "f").inode;
  EXPECT_FAILS(fs->set_xattr(f, "plain", {}, XattrMode::any), unsupported);
  EXPECT_FAILS(fs->set_xattr(f, "system.other", {}, XattrMode::any), unsupported);
  EXPECT_FAILS(fs->set_xattr(f, "", {}, XattrMode::any), invalid);
  EXPECT_FAILS(fs->set_xattr(f, "user." + std::string(251, 'x'), {}, XattrMode::any),
               name_too_long);
}

INSTANTIATE_TEST_SUITE_P(Form, Xattrs, testing::Values(1, 2), [](const auto& form) {
  return form.param == 1 ? "Directory" : "SystemAttribute";
});

TEST_F(Data, TheXattrPropertyOffRefusesNewOnes) {
  dataset_options.properties["xattr"] = 0;
  remount();
  const Inode f = file(root, "f").inode;
  EXPECT_FAILS(fs->set_xattr(f, "user.a", {}, XattrMode::any), unsupported);
  EXPECT_FAILS(fs->get_xattr(f, "user.a"), no_data);
}

}  // namespace
}  // namespace zuse::test
