// The choice among implementations.
#include "raid/registry.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string_view>

namespace zuse::raid {
namespace {

TEST(RegistryTest, ChoiceByNameIsNeverAnotherImplementation) {
  for (const Compiled& entry : compiled()) {
    const auto chosen = choose(entry.kernels->name);
    const auto same_name_runs = [&](const Compiled& other) {
      return std::string_view(other.kernels->name) == entry.kernels->name && other.usable();
    };
    if (entry.usable()) {
      ASSERT_TRUE(chosen);
      EXPECT_EQ(*chosen, entry.kernels);
    } else if (std::ranges::none_of(compiled(), same_name_runs)) {
      ASSERT_FALSE(chosen);
      EXPECT_NE(chosen.error().find(entry.kernels->name), std::string::npos);
    }
  }
}

TEST(RegistryTest, UnknownNamesAreRefusedWithTheListOfKnownOnes) {
  const auto chosen = choose("warp");
  ASSERT_FALSE(chosen);
  EXPECT_NE(chosen.error().find("warp"), std::string::npos);
  EXPECT_NE(chosen.error().find("scalar"), std::string::npos);
}

TEST(RegistryTest, TheFastestIsMeasuredForEveryMethodAndSizeAndNotTheReference) {
  ASSERT_TRUE(choose("fastest"));
  EXPECT_EQ(*choose("fastest"), &fastest());
  for (const auto& sizes : fastest_choice().by_method) {
    for (const Kernels* const kernels : sizes) {
      ASSERT_NE(kernels, nullptr);
      EXPECT_STRNE(kernels->name, "original");
    }
  }
  EXPECT_EQ(fastest_in_words().find(fastest_choice().by_method[1][1]->name), 0U);
}

TEST(RegistryTest, TheFastestTakesItsFunctionsFromWhatWasMeasured) {
  for (std::size_t size = 0; size < kFastestSizes.size(); ++size) {
    const Kernels& table = fastest().pick(kFastestSizes[size]);
    for (std::size_t method = 0; method < kMethods.size(); ++method) {
      const Kernels& best = *fastest_choice().by_method[method][size];
      if (method < kParityMax) {
        EXPECT_EQ(table.generate[method], best.generate[method]);
      } else {
        EXPECT_EQ(table.rebuild[method - kParityMax + 1], best.rebuild[method - kParityMax + 1]);
      }
    }
  }
}

TEST(RegistryTest, CyclingTakesEveryUsableImplementationInTurn) {
  const auto cycle = choose("cycle");
  ASSERT_TRUE(cycle);
  std::set<const Kernels*> seen;
  for (std::size_t i = 0; i < usable().size(); ++i) {
    seen.insert(&(*cycle)->pick(4096));
  }
  EXPECT_EQ(seen.size(), usable().size());
}

TEST(RegistryTest, TheSelfTestSeesABrokenKernel) {
  static const Kernels* const whole = usable().front();
  Kernels broken = *whole;
  broken.generate[1] = [](const Row& row) noexcept {
    whole->generate[1](row);
    row.parity[1][row.bytes - 1] ^= std::byte{1};
  };
  EXPECT_FALSE(self_test(broken));
}

}  // namespace
}  // namespace zuse::raid
