// Whole pools in memory: made, filled, exported, imported, damaged and checked.
#include <gtest/gtest.h>

#include <random>

#include "tests/support/manifest.h"
#include "tests/support/pool_fixture.h"
#include "tests/support/seed.h"

namespace zuse {
namespace {

constexpr std::uint64_t kLeafSize = std::uint64_t{128} << 20;

struct Shape {
  const char* name;
  vdev::VdevType type;
  unsigned parity, leaves, ashift;
};

void PrintTo(const Shape& shape, std::ostream* out) {
  *out << shape.name;
}

class PoolShapes : public testing::TestWithParam<Shape> {
 protected:
  test::MemoryLeaves leaves_{GetParam().leaves, kLeafSize};
  std::mt19937_64 random_{test::seed()};
  const testing::ScopedTrace trace_{__FILE__, __LINE__, test::rerun()};

  void create(const std::map<std::string, std::string>& properties = {}) {
    const auto made = test::create_pool(leaves_, "tank", GetParam().type, GetParam().parity,
                                        GetParam().ashift, properties);
    ASSERT_TRUE(made) << made.error().what();
  }

  // Files of many sizes in nested directories.
  void fill(posix::FileSystem& files, unsigned count) {
    const posix::Caller caller;
    auto directory = files.root();
    for (unsigned i = 0; i < count; ++i) {
      if (i % 50 == 0) {
        const auto made = files.make_directory(directory, "dir" + std::to_string(i), 0755, caller);
        ASSERT_TRUE(made) << made.error().what();
        directory = made->inode;
      }
      const auto file =
          files.create(directory, "file" + std::to_string(i), S_IFREG | 0644, 0, 0, caller);
      ASSERT_TRUE(file) << file.error().what();
      std::vector<std::byte> data(random_() % (i % 20 == 0 ? 700000 : 9000));
      for (std::size_t at = 0; at < data.size(); ++at) {
        data[at] = static_cast<std::byte>(i % 2 == 0 ? random_() : at / 64);
      }
      const auto written = files.write(file->inode, 0, data, caller);
      ASSERT_TRUE(written) << written.error().what();
      files.forget(file->inode, 1);
    }
  }
};

TEST_P(PoolShapes, ANewPoolIsExactAndEmpty) {
  ASSERT_NO_FATAL_FAILURE(create());
  EXPECT_EQ(test::check_findings(leaves_, "tank"), "");
  auto pool = test::import_pool(leaves_, "tank", true);
  ASSERT_TRUE(pool) << pool.error().what();
  auto files = test::mount_root(**pool, "tank", true);
  ASSERT_TRUE(files) << files.error().what();
  const auto rows = test::manifest_of(**files, "tank");
  ASSERT_TRUE(rows) << rows.error().what();
  EXPECT_EQ(rows->size(), 1U);
  ASSERT_TRUE((*files)->unmount());
}

TEST_P(PoolShapes, WhatWasWrittenIsThereAfterExportAndImport) {
  ASSERT_NO_FATAL_FAILURE(create());
  std::map<std::string, std::string> before;
  {
    auto pool = test::import_pool(leaves_, "tank");
    ASSERT_TRUE(pool) << pool.error().what();
    auto files = test::mount_root(**pool, "tank");
    ASSERT_TRUE(files) << files.error().what();
    ASSERT_NO_FATAL_FAILURE(fill(**files, 300));
    const auto rows = test::manifest_of(**files, "tank");
    ASSERT_TRUE(rows) << rows.error().what();
    before = *rows;
    const auto unmounted = (*files)->unmount();
    ASSERT_TRUE(unmounted) << unmounted.error().what();
    files->reset();
    const auto closed = (*pool)->close(true);
    ASSERT_TRUE(closed) << closed.error().what();
  }
  EXPECT_EQ(test::check_findings(leaves_, "tank"), "");
  auto pool = test::import_pool(leaves_, "tank", true);
  ASSERT_TRUE(pool) << pool.error().what();
  auto files = test::mount_root(**pool, "tank", true);
  ASSERT_TRUE(files) << files.error().what();
  const auto rows = test::manifest_of(**files, "tank");
  ASSERT_TRUE(rows) << rows.error().what();
  EXPECT_EQ(*rows, before);
  ASSERT_TRUE((*files)->unmount());
}

TEST_P(PoolShapes, EverySessionLeavesThePoolExact) {
  ASSERT_NO_FATAL_FAILURE(create());
  for (unsigned session = 0; session < 4; ++session) {
    auto pool = test::import_pool(leaves_, "tank");
    ASSERT_TRUE(pool) << pool.error().what();
    auto files = test::mount_root(**pool, "tank");
    ASSERT_TRUE(files) << files.error().what();
    const posix::Caller caller;
    const auto top =
        (*files)->make_directory((*files)->root(), "s" + std::to_string(session), 0755, caller);
    ASSERT_TRUE(top) << top.error().what();
    ASSERT_NO_FATAL_FAILURE(fill(**files, 60));
    ASSERT_TRUE((*pool)->sync());
    // Take away what an earlier session made.
    if (session > 0) {
      const auto removed =
          (*files)->remove_directory((*files)->root(), "s" + std::to_string(session - 1), caller);
      ASSERT_TRUE(removed) << removed.error().what();
    }
    const auto cleared = (*files)->lookup((*files)->root(), "dir0");
    ASSERT_TRUE(cleared);
    for (unsigned i = 0; i < 50; ++i) {
      const auto gone = (*files)->unlink(cleared->inode, "file" + std::to_string(i), caller);
      ASSERT_TRUE(gone) << gone.error().what();
    }
    const auto below = (*files)->lookup(cleared->inode, "dir50");
    ASSERT_TRUE(below);
    for (unsigned i = 50; i < 60; ++i) {
      ASSERT_TRUE((*files)->unlink(below->inode, "file" + std::to_string(i), caller));
    }
    ASSERT_TRUE((*files)->remove_directory(cleared->inode, "dir50", caller));
    (*files)->forget(below->inode, 1);
    ASSERT_TRUE((*files)->remove_directory((*files)->root(), "dir0", caller));
    ASSERT_TRUE((*files)->unmount());
    files->reset();
    ASSERT_TRUE((*pool)->close(true));
    pool->reset();
    ASSERT_EQ(test::check_findings(leaves_, "tank"), "") << "after session " << session;
  }
}

TEST_P(PoolShapes, DataIsReadWithAsManyLeavesMissingAsRedundancyAllows) {
  const unsigned redundancy =
      GetParam().type == vdev::VdevType::mirror ? GetParam().leaves - 1 : GetParam().parity;
  ASSERT_NO_FATAL_FAILURE(create());
  std::map<std::string, std::string> before;
  {
    auto pool = test::import_pool(leaves_, "tank");
    ASSERT_TRUE(pool) << pool.error().what();
    auto files = test::mount_root(**pool, "tank");
    ASSERT_TRUE(files) << files.error().what();
    ASSERT_NO_FATAL_FAILURE(fill(**files, 100));
    before = *test::manifest_of(**files, "tank");
    ASSERT_TRUE((*files)->unmount());
    files->reset();
    ASSERT_TRUE((*pool)->close(true));
  }
  for (unsigned lost = 1; lost <= redundancy; ++lost) {
    leaves_.remove("d" + std::to_string(lost));
    auto pool = test::import_pool(leaves_, "tank", true);
    ASSERT_TRUE(pool) << pool.error().what();
    auto files = test::mount_root(**pool, "tank", true);
    ASSERT_TRUE(files) << files.error().what();
    const auto rows = test::manifest_of(**files, "tank");
    ASSERT_TRUE(rows) << rows.error().what();
    EXPECT_EQ(*rows, before) << lost << " leaves lost";
    ASSERT_TRUE((*files)->unmount());
  }
}

INSTANTIATE_TEST_SUITE_P(All, PoolShapes,
                         testing::Values(Shape{"single", vdev::VdevType::file, 0, 1, 12},
                                         Shape{"stripe", vdev::VdevType::file, 0, 3, 9},
                                         Shape{"mirror", vdev::VdevType::mirror, 0, 2, 12},
                                         Shape{"raidz1", vdev::VdevType::raidz, 1, 3, 9},
                                         Shape{"raidz2", vdev::VdevType::raidz, 2, 6, 12},
                                         Shape{"raidz3", vdev::VdevType::raidz, 3, 7, 12}),
                         [](const testing::TestParamInfo<Shape>& tested) {
                           return std::string(tested.param.name);
                         });

}  // namespace
}  // namespace zuse
