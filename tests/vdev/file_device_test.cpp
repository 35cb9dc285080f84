// File devices against plain system calls on the same file: what one writes the other must read.
#include "vdev/file_device.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <string>
#include <vector>

#include "tests/support/seed.h"
#include "tests/vdev/temporary.h"
#include "vdev/base/buffer.h"
#include "vdev/base/units.h"
#include "vdev/io_ring.h"

namespace zuse::vdev {
namespace {

constexpr std::uint64_t kSize = 8 * kMiB;

std::vector<std::byte> random_bytes(std::mt19937_64& rng, std::size_t size) {
  std::vector<std::byte> bytes(size);
  std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<std::byte>(rng()); });
  return bytes;
}

// The file's content, read by other means than the device.
std::vector<std::byte> slurp(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  std::vector<std::byte> bytes(kSize);
  const ssize_t got = pread(fd, bytes.data(), bytes.size(), 0);
  close(fd);
  bytes.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
  return bytes;
}

void spill(const std::string& path, const std::vector<std::byte>& bytes) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_EQ(pwrite(fd, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  close(fd);
}

class FileDeviceTest : public testing::TestWithParam<bool> {
 protected:
  std::unique_ptr<FileDevice> open(bool read_only = false) {
    auto device = FileDevice::open(path_, {.read_only = read_only, .direct = GetParam()});
    EXPECT_TRUE(device) << device.error().what();
    return device ? *std::move(device) : nullptr;
  }

  std::mt19937_64 rng_{test::seed()};
  const testing::ScopedTrace trace_{__FILE__, __LINE__, test::rerun()};
  const test::TemporaryFolder folder_;
  const std::string path_ = folder_.image("disk.img", kSize);
};

INSTANTIATE_TEST_SUITE_P(Access, FileDeviceTest, testing::Bool(),
                         [](const auto& access) { return access.param ? "direct" : "cached"; });

TEST_P(FileDeviceTest, WhatIsWrittenIsInTheFile) {
  const auto bytes = random_bytes(rng_, 64 * kKiB);
  {
    const auto device = open();
    ASSERT_TRUE(device);
    EXPECT_EQ(device->size(), kSize);
    EXPECT_EQ(device->name(), path_);
    EXPECT_FALSE(device->read_only());
    ASSERT_TRUE(device->write(1 * kMiB, bytes));
    ASSERT_TRUE(device->flush());
  }
  const auto all = slurp(path_);
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), all.begin() + kMiB));
}

TEST_P(FileDeviceTest, ReadsOfAnyAlignmentReturnTheFilesBytes) {
  const auto expected = random_bytes(rng_, kSize);
  spill(path_, expected);
  const auto device = open();
  ASSERT_TRUE(device);
  for (int round = 0; round < 200; ++round) {
    const std::uint64_t offset = rng_() % kSize;
    const std::size_t length = 1 + rng_() % std::min<std::uint64_t>(kSize - offset, 200 * kKiB);
    const std::size_t shift = rng_() % 8;  // misaligned memory
    std::vector<std::byte> into(length + shift);
    ASSERT_TRUE(device->read(offset, std::span(into).subspan(shift)));
    ASSERT_TRUE(std::equal(into.begin() + static_cast<std::ptrdiff_t>(shift), into.end(),
                           expected.begin() + static_cast<std::ptrdiff_t>(offset)))
        << "offset " << offset << " length " << length;
  }
}

TEST_P(FileDeviceTest, SectorWritesFromMisalignedMemoryArrive) {
  auto expected = random_bytes(rng_, kSize);
  spill(path_, expected);
  const auto device = open();
  ASSERT_TRUE(device);
  for (int round = 0; round < 50; ++round) {
    const std::uint64_t sector = std::uint64_t{1} << device->sector_shift();
    const std::uint64_t offset = rng_() % (kSize / sector - 64) * sector;
    const std::size_t length = (1 + rng_() % 64) * sector;
    std::vector<std::byte> memory = random_bytes(rng_, length + 8);
    const auto bytes = std::span(memory).subspan(rng_() % 8, length);
    ASSERT_TRUE(device->write(offset, bytes));
    std::copy(bytes.begin(), bytes.end(), expected.begin() + static_cast<std::ptrdiff_t>(offset));
  }
  EXPECT_TRUE(slurp(path_) == expected);
}

// Many requests at once, in any order, next to each other or not: more than a ring holds.
TEST_P(FileDeviceTest, ABatchOfThousandsOfRequestsIsCarriedOutExactlyOnce) {
  const auto device = open();
  ASSERT_TRUE(device);
  constexpr std::uint64_t kUnit = 4 * kKiB;
  constexpr std::size_t kCount = kSize / kUnit;
  Buffer source(kSize);
  const auto expected = random_bytes(rng_, kSize);
  std::copy(expected.begin(), expected.end(), source.data());
  std::vector<std::size_t> order(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    order[i] = i;
  }
  std::shuffle(order.begin(), order.end(), rng_);
  std::size_t finished = 0;
  std::deque<IoRequest> requests;
  const auto run = [&](IoOp op, Buffer& memory) {
    requests.clear();
    finished = 0;
    IoBatch batch;
    for (const std::size_t unit : order) {
      IoRequest& request = requests.emplace_back();
      request.op = op;
      request.offset = unit * kUnit;
      request.data = memory.span().subspan(unit * kUnit, kUnit);
      request.on_done = [&](IoRequest&) { ++finished; };
      batch.add(*device, request);
      if (rng_() % 100 == 0) {
        batch.submit();
      }
    }
    batch.wait();
  };
  run(IoOp::write, source);
  EXPECT_EQ(finished, kCount);
  EXPECT_TRUE(slurp(path_) == expected);
  Buffer back = Buffer::zeroed(kSize);
  run(IoOp::read, back);
  EXPECT_EQ(finished, kCount);
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), back.data()));
  for (const IoRequest& request : requests) {
    EXPECT_EQ(request.status, IoStatus::ok);
  }
}

TEST_P(FileDeviceTest, RequestsPastTheEndFailAndHarmNoOther) {
  const auto device = open();
  ASSERT_TRUE(device);
  Buffer memory = Buffer::zeroed(8 * kKiB);
  EXPECT_EQ(device->read(kSize - 4096, memory.span()).error().code(), Errc::io);
  EXPECT_EQ(device->read(~std::uint64_t{0} - 100, memory.span()).error().code(), Errc::io);
  EXPECT_EQ(device->write(kSize, memory.span()).error().code(), Errc::io);
  EXPECT_TRUE(device->read(kSize - 8192, memory.span()));
  EXPECT_EQ(std::filesystem::file_size(path_), kSize);
}

TEST_P(FileDeviceTest, AFileCutShortFailsOnlyWhatIsGone) {
  const auto device = open();
  ASSERT_TRUE(device);
  std::filesystem::resize_file(path_, 2 * kMiB);
  Buffer memory(128 * kKiB);
  std::deque<IoRequest> requests(2);
  IoBatch batch;
  for (std::size_t i = 0; i < 2; ++i) {  // adjacent: they become one operation
    requests[i].offset = 2 * kMiB - 64 * kKiB + i * 64 * kKiB;
    requests[i].data = memory.span().subspan(i * 64 * kKiB, 64 * kKiB);
    batch.add(*device, requests[i]);
  }
  batch.wait();
  EXPECT_EQ(requests[0].status, IoStatus::ok);
  EXPECT_EQ(requests[1].status, IoStatus::io_error);
}

TEST_P(FileDeviceTest, AFlushInABatchEndsAfterTheWritesBeforeIt) {
  const auto device = open();
  ASSERT_TRUE(device);
  Buffer memory = Buffer::zeroed(kMiB);
  std::deque<IoRequest> requests(9);
  std::vector<IoOp> ended;
  IoBatch batch;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    IoRequest& request = requests[i];
    request.op = i == 8 ? IoOp::flush : IoOp::write;
    if (request.op == IoOp::write) {
      request.offset = i * kMiB;
      request.data = memory.span();
    }
    request.on_done = [&](IoRequest& done) { ended.push_back(done.op); };
    if (i < 8) {
      batch.add(*device, request);
    }
  }
  batch.add(*device, requests[8]);
  batch.wait();
  ASSERT_EQ(ended.size(), 9U);
  EXPECT_EQ(ended.back(), IoOp::flush);
}

TEST_P(FileDeviceTest, CompletionsMayAddToTheirBatch) {
  const auto device = open();
  ASSERT_TRUE(device);
  Buffer memory(4096);
  std::deque<IoRequest> chain(50);
  IoBatch batch;
  std::size_t finished = 0;
  for (std::size_t i = 0; i < chain.size(); ++i) {
    chain[i].offset = i * 4096;
    chain[i].data = memory.span();
    chain[i].on_done = [&, i](IoRequest&) {
      ++finished;
      if (i + 1 < chain.size()) {
        batch.add(*device, chain[i + 1]);
      }
    };
  }
  batch.add(*device, chain[0]);
  batch.wait();
  EXPECT_EQ(finished, chain.size());
}

TEST_P(FileDeviceTest, DiscardedRangesReadAsZeros) {
  spill(path_, random_bytes(rng_, kSize));
  const auto device = open();
  ASSERT_TRUE(device);
  IoRequest request;
  request.op = IoOp::discard;
  request.offset = kMiB;
  request.length = kMiB;
  {
    IoBatch batch;
    batch.add(*device, request);
  }
  EXPECT_EQ(request.status, IoStatus::ok);
  const auto all = slurp(path_);
  EXPECT_EQ(all.size(), kSize);
  EXPECT_TRUE(std::all_of(all.begin() + kMiB, all.begin() + 2 * kMiB,
                          [](std::byte b) { return b == std::byte{0}; }));
  EXPECT_NE(all[kMiB - 1] | all[kMiB - 2] | all[kMiB - 3] | all[kMiB - 4], std::byte{0});
}

TEST_P(FileDeviceTest, TheSameFileTwiceIsRefusedByName) {
  const auto device = open();
  ASSERT_TRUE(device);
  std::filesystem::create_symlink(path_, folder_.path("other-name"));
  std::filesystem::create_hard_link(path_, folder_.path("hard-link"));
  for (const char* const name : {"disk.img", "other-name", "hard-link"}) {
    const std::string path = folder_.path(name);
    const auto second = FileDevice::open(path);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code(), Errc::busy);
    EXPECT_NE(second.error().what().find(path), std::string::npos);
    EXPECT_FALSE(FileDevice::open(path, {.read_only = true}));
  }
}

TEST_P(FileDeviceTest, AnotherProcessIsRefusedUntilTheDeviceIsClosed) {
  auto device = open();
  ASSERT_TRUE(device);
  const auto child_opens = [&] {
    const pid_t child = fork();
    if (child == 0) {
      // The inherited descriptor shares the parent's lock; only a new opening is put to the test.
      const auto mine = FileDevice::open(path_);
      _exit(mine ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WEXITSTATUS(status) == 0;
  };
  EXPECT_FALSE(child_opens());
  device.reset();
  EXPECT_TRUE(child_opens());
}

TEST_P(FileDeviceTest, ReadersShareAndCannotWrite) {
  const auto first = open(true);
  const auto second = open(true);
  ASSERT_TRUE(first && second);
  EXPECT_TRUE(first->read_only());
  Buffer memory = Buffer::zeroed(4096);
  EXPECT_TRUE(first->read(0, memory.span()));
  EXPECT_FALSE(first->write(0, memory.span()));
  EXPECT_TRUE(first->flush());
  EXPECT_EQ(FileDevice::open(path_).error().code(), Errc::busy);
}

TEST(FileDevice, WhatIsNoDeviceIsRefusedWithItsKind) {
  const test::TemporaryFolder folder;
  EXPECT_EQ(FileDevice::open(folder.path("absent")).error().code(), Errc::not_found);
  EXPECT_EQ(FileDevice::open(folder.path("")).error().code(), Errc::invalid);
  EXPECT_EQ(FileDevice::open("/dev/null").error().code(), Errc::invalid);
}

TEST(FileDevice, AnOddSizeIsReadToItsLastByte) {
  const test::TemporaryFolder folder;
  const auto device = FileDevice::open(folder.image("odd.img", 100'001));
  ASSERT_TRUE(device);
  std::vector<std::byte> last(1);
  EXPECT_TRUE((*device)->read(100'000, last));
  EXPECT_FALSE((*device)->direct());
}

// The file system of the test folder decides what is possible; here it is only checked that the
// answers agree with each other.
TEST(FileDevice, DirectAccessIsUsedOnlyUpToTheSmallestWrite) {
  const test::TemporaryFolder folder;
  const std::string path = folder.image("disk.img", kSize);
  const auto device = FileDevice::open(path, {.smallest_write_shift = 12});
  ASSERT_TRUE(device);
  EXPECT_LE((*device)->sector_shift(), 12U);
  const auto cached = [&] {
    const auto dropped = FileDevice::open(path, {.direct = false});
    return dropped && !(*dropped)->direct();
  };
  EXPECT_FALSE(cached()) << "the first opening still has the lock";
}

}  // namespace
}  // namespace zuse::vdev
