// Every implementation against the oracle: all widths, all losses of up to
// three columns, uneven columns, odd tails.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>

#include "raid/raidz_math.h"
#include "raid/registry.h"
#include "tests/raid/oracle.h"
#include "tests/raid/subjects.h"
#include "tests/support/seed.h"

namespace zuse::raid {
namespace {

using test::Bytes;

class ParityTest : public testing::TestWithParam<const Kernels*> {
 protected:
  const Kernels& kernels() const { return *GetParam(); }

  // A stripe, parity first, true parity by the oracle.
  std::vector<Bytes> stripe(unsigned parities, const std::vector<std::size_t>& sizes) {
    std::vector<Bytes> data;
    for (const std::size_t size : sizes) {
      Bytes column(size);
      std::generate(column.begin(), column.end(), [&] { return static_cast<std::byte>(rng_()); });
      data.push_back(std::move(column));
    }
    std::vector<Bytes> columns;
    for (unsigned row = 0; row < parities; ++row) {
      columns.push_back(test::oracle_parity(data, row, *std::ranges::max_element(sizes)));
    }
    columns.insert(columns.end(), data.begin(), data.end());
    return columns;
  }

  void expect_generated(unsigned parities, const std::vector<std::size_t>& sizes) {
    const auto good = stripe(parities, sizes);
    std::vector<ColumnView> data(good.begin() + parities, good.end());
    std::vector<Bytes> made;
    for (unsigned row = 0; row < parities; ++row) {
      made.emplace_back(good[row].size(), std::byte{0xaa});
    }
    std::vector<MutableColumn> parity(made.begin(), made.end());
    generate(kernels(), data, parity);
    for (unsigned row = 0; row < parities; ++row) {
      ASSERT_EQ(made[row], good[row]) << "row " << row << " of " << sizes.size() << " columns";
    }
  }

  void expect_rebuilt(const std::vector<Bytes>& good, unsigned parities,
                      const std::vector<unsigned>& missing) {
    auto columns = good;
    for (const unsigned column : missing) {
      std::fill(columns[column].begin(), columns[column].end(), std::byte{0x55});
    }
    std::vector<MutableColumn> views(columns.begin(), columns.end());
    ASSERT_TRUE(reconstruct(kernels(), views, parities, missing));
    for (unsigned i = 0; i < good.size(); ++i) {
      ASSERT_EQ(columns[i], good[i]) << "column " << i << " of " << good.size() << ", parities "
                                     << parities << ", missing " << testing::PrintToString(missing);
    }
  }

  // Every set of 1 ... parities columns.
  void expect_all_losses_rebuilt(unsigned parities, const std::vector<std::size_t>& sizes) {
    const auto good = stripe(parities, sizes);
    const auto count = static_cast<unsigned>(good.size());
    for (unsigned a = 0; a < count; ++a) {
      expect_rebuilt(good, parities, {a});
      for (unsigned b = a + 1; parities >= 2 && b < count; ++b) {
        expect_rebuilt(good, parities, {b, a});
        for (unsigned c = b + 1; parities >= 3 && c < count; ++c) {
          expect_rebuilt(good, parities, {c, a, b});
        }
      }
    }
  }

  // `width` columns, the first `big` of them longer, as the raidz map makes them.
  static std::vector<std::size_t> uneven(unsigned width, unsigned big, std::size_t size,
                                         std::size_t more) {
    std::vector<std::size_t> sizes(width, size);
    std::fill_n(sizes.begin(), big, size + more);
    return sizes;
  }

  std::uint64_t below(std::uint64_t bound) { return rng_() % bound; }

  std::mt19937_64 rng_{test::seed()};
  const testing::ScopedTrace trace_{__FILE__, __LINE__, test::rerun()};
};

TEST_P(ParityTest, ParityIsTheWeightedSumOfEveryColumn) {
  for (unsigned width = 1; width <= 24; ++width) {
    for (unsigned parities = 1; parities <= 3; ++parities) {
      expect_generated(parities, std::vector<std::size_t>(width, 1024));
      expect_generated(parities, uneven(width, static_cast<unsigned>(below(width)), 512, 512));
    }
  }
  for (const unsigned width :
       {31U, 32U, 33U, 64U, 100U, 127U, 128U, 129U, 200U, 251U, 252U, 254U, 255U}) {
    expect_generated(3, uneven(width, width / 2, 512, 512));
  }
}

TEST_P(ParityTest, ColumnsLargerThanAStripWork) {
  for (const std::size_t size : {kStripBytes, kStripBytes + 512, 3 * kStripBytes - 512}) {
    expect_generated(3, uneven(5, 2, size, 4096));
    expect_all_losses_rebuilt(2, uneven(4, 1, size, 512));
  }
}

TEST_P(ParityTest, OddTailsAreRight) {
  for (std::size_t size = 1; size <= 200; ++size) {
    expect_generated(3, std::vector<std::size_t>(4, size));
  }
  for (int i = 0; i < 40; ++i) {
    std::vector<std::size_t> sizes(1 + below(8));
    std::ranges::generate(sizes, [&] { return below(700); });
    sizes[0] = 700;
    expect_generated(3, sizes);
    expect_all_losses_rebuilt(3, sizes);
  }
}

TEST_P(ParityTest, EveryLossUpToTheParityIsRebuilt) {
  for (unsigned width = 1; width <= 24; ++width) {
    for (unsigned parities = 1; parities <= 3; ++parities) {
      // Wide and three lost is thousands of rebuilds: short columns there.
      const std::size_t size = width <= 8 ? 512 : 64;
      expect_all_losses_rebuilt(parities, std::vector<std::size_t>(width, size));
      expect_all_losses_rebuilt(parities,
                                uneven(width, static_cast<unsigned>(below(width)), size, size));
    }
  }
}

TEST_P(ParityTest, RebuildingDataAloneLeavesLostParityAlone) {
  const auto good = stripe(3, uneven(6, 2, 1024, 512));
  auto columns = good;
  const std::array<unsigned, 3> missing{0, 4, 8};
  for (const unsigned column : missing) {
    std::fill(columns[column].begin(), columns[column].end(), std::byte{0x55});
  }
  std::vector<MutableColumn> views(columns.begin(), columns.end());
  ASSERT_TRUE(reconstruct_data(kernels(), views, 3, missing));
  EXPECT_EQ(columns[0], Bytes(columns[0].size(), std::byte{0x55}));
  columns[0] = good[0];
  EXPECT_EQ(columns, good);
}

TEST_P(ParityTest, SampledLossesOfWideStripesAreRebuilt) {
  for (const unsigned width : {40U, 97U, 128U, 180U, 255U}) {
    const auto good = stripe(3, uneven(width, static_cast<unsigned>(below(width)), 128, 64));
    for (int i = 0; i < 100; ++i) {
      std::vector<unsigned> missing;
      while (missing.size() < 1 + static_cast<std::size_t>(i) % 3) {
        const auto column = static_cast<unsigned>(below(good.size()));
        if (std::ranges::find(missing, column) == missing.end()) {
          missing.push_back(column);
        }
      }
      expect_rebuilt(good, 3, missing);
    }
  }
}

TEST_P(ParityTest, WorkedValuesOfTheFormat) {
  const auto parity_of = [this](const std::vector<unsigned>& bytes) {
    std::vector<Bytes> data;
    for (const unsigned byte : bytes) {
      data.emplace_back(128, static_cast<std::byte>(byte));
    }
    std::vector<ColumnView> views(data.begin(), data.end());
    std::vector<Bytes> parity(3, Bytes(128));
    std::vector<MutableColumn> into(parity.begin(), parity.end());
    generate(kernels(), views, into);
    return std::array<unsigned, 3>{static_cast<unsigned>(parity[0][77]),
                                   static_cast<unsigned>(parity[1][77]),
                                   static_cast<unsigned>(parity[2][77])};
  };
  EXPECT_EQ(parity_of({0x11, 0x22, 0x33, 0x44, 0x8f}), (std::array<unsigned, 3>{0xcb, 0xcb, 0x2d}));
  EXPECT_EQ(parity_of({0x01, 0x80, 0xff, 0x00}), (std::array<unsigned, 3>{0x7e, 0xd1, 0x73}));
  EXPECT_EQ(parity_of({0x5a}), (std::array<unsigned, 3>{0x5a, 0x5a, 0x5a}));
}

TEST_P(ParityTest, BytesOutsideTheColumnsStayUntouched) {
  auto memory = Bytes(4 * 1024, std::byte{0x11});
  const auto column = [&](std::size_t i) { return std::span(memory).subspan(i * 1024 + 256, 512); };
  const std::array<ColumnView, 2> data{column(0), column(1)};
  const std::array<MutableColumn, 2> parity{column(2), column(3)};
  generate(kernels(), data, parity);
  const std::array<MutableColumn, 4> all{column(2), column(3), column(0), column(1)};
  const std::array<unsigned, 2> missing{0, 3};
  ASSERT_TRUE(reconstruct(kernels(), all, 2, missing));
  for (std::size_t at = 0; at < memory.size(); ++at) {
    if (at % 1024 < 256 || at % 1024 >= 768) {
      ASSERT_EQ(memory[at], std::byte{0x11}) << at;
    }
  }
}

// Parity past the caches, where alignment allows it: the same bytes, and none beside them.
TEST_P(ParityTest, StreamedParityIsTheSame) {
  constexpr std::size_t kRoom = 4096;
  const auto memory = std::unique_ptr<std::byte, void (*)(void*)>(
      static_cast<std::byte*>(std::aligned_alloc(64, 3 * kRoom)), std::free);
  for (const std::size_t shift : {std::size_t{0}, std::size_t{64}, std::size_t{8}}) {
    for (const std::size_t size :
         {std::size_t{64}, std::size_t{512}, std::size_t{1600}, std::size_t{3201}}) {
      for (unsigned parities = 1; parities <= 3; ++parities) {
        const auto good = stripe(parities, uneven(6, 2, size - 33, 33));
        const std::vector<ColumnView> data(good.begin() + parities, good.end());
        std::fill_n(memory.get(), 3 * kRoom, std::byte{0x11});
        std::vector<MutableColumn> parity;
        for (unsigned row = 0; row < parities; ++row) {
          parity.emplace_back(memory.get() + row * kRoom + shift, size);
        }
        generate(kernels(), data, parity, Stores::streaming);
        for (unsigned row = 0; row < 3; ++row) {
          const std::span all(memory.get() + row * kRoom, kRoom);
          for (std::size_t at = 0; at < kRoom; ++at) {
            const bool inside = row < parities && at >= shift && at < shift + size;
            ASSERT_EQ(all[at], inside ? good[row][at - shift] : std::byte{0x11})
                << row << " " << at << " of " << size;
          }
        }
      }
    }
  }
}

// Nothing says that columns lie at multiples of anything.
TEST_P(ParityTest, UnalignedColumnsWork) {
  for (int i = 0; i < 40; ++i) {
    const auto good = stripe(3, uneven(5, static_cast<unsigned>(below(5)), 512, 512));
    Bytes memory(good.size() * 2048, std::byte{0x11});
    std::vector<MutableColumn> columns;
    for (std::size_t c = 0; c < good.size(); ++c) {
      columns.push_back(std::span(memory).subspan(c * 2048 + below(64), good[c].size()));
      std::ranges::copy(good[c], columns.back().begin());
    }
    const unsigned first = static_cast<unsigned>(below(good.size()));
    const std::array<unsigned, 2> missing{
        first, static_cast<unsigned>((first + 1 + below(good.size() - 1)) % good.size())};
    for (const unsigned column : missing) {
      std::ranges::fill(columns[column], std::byte{0xaa});
    }
    ASSERT_TRUE(reconstruct(kernels(), columns, 3, missing));
    for (std::size_t c = 0; c < good.size(); ++c) {
      ASSERT_TRUE(std::ranges::equal(columns[c], good[c])) << c;
    }
  }
}

TEST_P(ParityTest, MoreLossThanParityIsRefusedAndChangesNothing) {
  const auto good = stripe(2, std::vector<std::size_t>(4, 512));
  auto columns = good;
  std::vector<MutableColumn> views(columns.begin(), columns.end());
  const std::array<unsigned, 3> three{0, 2, 3};
  EXPECT_FALSE(reconstruct(kernels(), views, 2, three));
  const std::array<unsigned, 2> twice{2, 2};
  EXPECT_FALSE(reconstruct(kernels(), views, 2, twice));
  const std::array<unsigned, 1> beyond{6};
  EXPECT_FALSE(reconstruct(kernels(), views, 2, beyond));
  EXPECT_EQ(columns, good);
}

TEST_P(ParityTest, MulAddMultipliesAndAdds) {
  if (kernels().pick != nullptr) {
    GTEST_SKIP() << "a choice among implementations has no functions of its own";
  }
  for (unsigned by = 0; by < 256; ++by) {
    Bytes into(256);
    Bytes from(256);
    for (unsigned i = 0; i < 256; ++i) {
      from[i] = static_cast<std::byte>(i);
      into[i] = static_cast<std::byte>(rng_());
    }
    Bytes expected = into;
    for (unsigned i = 0; i < 256; ++i) {
      expected[i] ^= static_cast<std::byte>(test::oracle_product(by, i));
    }
    kernels().mul_add(into.data(), from.data(), into.size(), static_cast<std::uint8_t>(by));
    ASSERT_EQ(into, expected) << by;
  }
}

TEST_P(ParityTest, SelfTestPasses) {
  const auto result = self_test(kernels());
  EXPECT_TRUE(result) << result.error();
}

INSTANTIATE_TEST_SUITE_P(Every, ParityTest, testing::ValuesIn(subjects()), [](const auto& tested) {
  return tested.param->name + std::to_string(tested.index);
});

}  // namespace
}  // namespace zuse::raid
