// The choice among implementations.
#include "raid/registry.h"

#include <gtest/gtest.h>

namespace zuse::raid {
namespace {

TEST(RegistryTest, ChoiceByNameIsNeverAnotherImplementation) {
  for (const Compiled& entry : compiled()) {
    const auto chosen = choose(entry.kernels->name);
    if (entry.usable()) {
      ASSERT_TRUE(chosen);
      EXPECT_EQ(*chosen, entry.kernels);
    } else {
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

TEST(RegistryTest, TheFastestIsNotTheReference) {
  EXPECT_STRNE(fastest().name, "original");
  ASSERT_TRUE(choose("fastest"));
  EXPECT_EQ(*choose("fastest"), &fastest());
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
