#include "vdev/memory_device.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/support/seed.h"
#include "vdev/base/units.h"

namespace zuse::vdev {
namespace {

TEST(MemoryImage, BehavesLikeAnArrayOfBytesAndCopiesDoNotFollow) {
  std::mt19937_64 rng(test::seed());
  SCOPED_TRACE(test::rerun());
  constexpr std::size_t kSize = 1'000'003;
  MemoryImage image(kSize);
  std::vector<std::byte> model(kSize);
  std::vector<std::pair<MemoryImage, std::vector<std::byte>>> snapshots;
  for (int step = 0; step < 300; ++step) {
    const std::size_t offset = rng() % kSize;
    const std::size_t length = rng() % std::min<std::size_t>(kSize - offset, 150'000) + 1;
    const auto at = model.begin() + static_cast<std::ptrdiff_t>(offset);
    if (rng() % 4 == 0) {
      image.discard(offset, length);
      std::fill_n(at, length, std::byte{0});
    } else {
      const std::vector<std::byte> bytes(length, static_cast<std::byte>(rng()));
      image.write(offset, bytes);
      std::copy(bytes.begin(), bytes.end(), at);
    }
    if (step % 50 == 0) {
      snapshots.emplace_back(image, model);
    }
  }
  snapshots.emplace_back(image, model);
  for (const auto& [copy, expected] : snapshots) {
    std::vector<std::byte> all(kSize);
    copy.read(0, all);
    EXPECT_TRUE(all == expected);
  }
  EXPECT_FALSE(snapshots.front().first == image);
  EXPECT_TRUE(snapshots.back().first == image);
}

TEST(MemoryDevice, RefusesWhatRunsPastItsEnd) {
  MemoryDevice device(kMiB);
  std::vector<std::byte> bytes(1024);
  EXPECT_TRUE(device.write(kMiB - 1024, bytes));
  EXPECT_EQ(device.write(kMiB - 1023, bytes).error().code(), Errc::io);
  EXPECT_EQ(device.read(~std::uint64_t{0}, bytes).error().code(), Errc::io);
  EXPECT_TRUE(device.flush());
}

TEST(MemoryDevice, ReadOnlyOnesKeepTheirBytes) {
  MemoryDevice device(MemoryImage(kMiB), "memory:0", 12, true);
  EXPECT_EQ(device.sector_shift(), 12U);
  EXPECT_FALSE(device.write(0, std::vector<std::byte>(512)));
  EXPECT_TRUE(device.image() == MemoryImage(kMiB));
}

}  // namespace
}  // namespace zuse::vdev
