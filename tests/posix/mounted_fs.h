// A file system in memory for tests: format, mount, remount, pull the plug.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "fs/posix/mounted.h"
#include "tests/support/memory_dataset.h"

namespace zuse::test {

inline constexpr posix::Caller kRoot{0, 0, 0};
inline constexpr posix::Caller kUser{1000, 1000, 0, true};

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}
inline std::string text_of(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) {
    text.push_back(static_cast<char>(byte));
  }
  return text;
}

// EXPECT_FAILS(fs.unlink(...), not_found)
#define EXPECT_FAILS(expression, kind)                              \
  do {                                                              \
    const auto outcome_ = (expression);                             \
    EXPECT_FALSE(outcome_.has_value()) << #expression " succeeded"; \
    if (!outcome_) {                                                \
      EXPECT_EQ(outcome_.error().code(), Errc::kind)                \
          << #expression ": " << outcome_.error().what();           \
    }                                                               \
  } while (false)
#define EXPECT_OK(expression)                                                         \
  do {                                                                                \
    const auto outcome_ = (expression);                                               \
    EXPECT_TRUE(outcome_.has_value()) << #expression ": " << outcome_.error().what(); \
  } while (false)
#define ASSERT_OK(expression)                                                         \
  do {                                                                                \
    const auto outcome_ = (expression);                                               \
    ASSERT_TRUE(outcome_.has_value()) << #expression ": " << outcome_.error().what(); \
  } while (false)

// The value of a result that must be there; without it the test ends here.
template <class T>
T must(Result<T> result, const char* what = "call") {
  if (!result) {
    throw std::runtime_error(std::string(what) + ": " + result.error().what());
  }
  return *std::move(result);
}

class MountedTest : public testing::Test {
 protected:
  void make(MemoryDatasetOptions options = {}, posix::MountOptions mount = {}) {
    dataset_options = std::move(options);
    mount_options = std::move(mount);
    dataset = must(MemoryDataset::create(disk, dataset_options), "create");
    ASSERT_NE(dataset, nullptr);
    open_mount();
  }
  void open_mount() {
    auto mounted = posix::mount_with_snapshots(dataset, mount_options, snapshots);
    ASSERT_TRUE(mounted.has_value()) << mounted.error().what();
    fs = *std::move(mounted);
    root = fs->root();
  }
  // Unmounts in good order, and mounts what is on disk.
  void remount() {
    ASSERT_OK(fs->unmount());
    ASSERT_OK(dataset->sync());
    reopen();
  }
  // Forgets everything that is not on disk.
  void crash() {
    dataset->cut_power();
    reopen();
  }
  void reopen() {
    fs.reset();
    EXPECT_EQ(dataset->problems(), std::vector<std::string>{});
    dataset.reset();
    disk.store.drop_cache();
    dataset = must(MemoryDataset::open(disk, dataset_options), "open");
    ASSERT_NE(dataset, nullptr);
    open_mount();
  }
  void TearDown() override {
    if (fs) {
      EXPECT_OK(fs->unmount());
      fs.reset();
    }
    if (dataset) {
      EXPECT_OK(dataset->sync());
      EXPECT_EQ(dataset->problems(), std::vector<std::string>{});
    }
  }

  posix::Attributes file(posix::Inode parent, const std::string& name, std::uint32_t mode = 0644) {
    return must(fs->create(parent, name, S_IFREG | mode, 0, 0, kRoot), name.c_str());
  }
  posix::Attributes directory(posix::Inode parent, const std::string& name) {
    return must(fs->make_directory(parent, name, 0755, kRoot), name.c_str());
  }
  void put(posix::Inode inode, std::uint64_t offset, std::string_view text) {
    EXPECT_OK(fs->write(inode, offset, bytes_of(text), kRoot));
  }
  std::string get(posix::Inode inode, std::uint64_t offset = 0, std::size_t length = 1 << 20) {
    std::vector<std::byte> into(length);
    const std::size_t count =
        object::copy_pieces(must(fs->read(inode, offset, into.size()), "read"), into);
    return text_of(std::span(into).first(count));
  }
  // Names with their directory entry, "." and ".." left out.
  std::vector<posix::DirectoryEntry> list(posix::Inode inode, std::size_t limit = 7) {
    std::vector<posix::DirectoryEntry> all;
    std::uint64_t offset = 0;
    for (;;) {
      const auto page = must(fs->read_directory(inode, offset, limit), "read_directory");
      EXPECT_LE(page.size(), limit);
      if (page.empty()) {
        return all;
      }
      offset = page.back().next_offset;
      for (const auto& entry : page) {
        if (entry.name != "." && entry.name != "..") {
          all.push_back(entry);
        }
      }
    }
  }

  MemoryDisk disk;
  MemoryDatasetOptions dataset_options;
  posix::MountOptions mount_options;
  posix::SnapshotSource snapshots;
  std::shared_ptr<MemoryDataset> dataset;
  std::unique_ptr<posix::FileSystem> fs;
  posix::Inode root = 0;
};

}  // namespace zuse::test
