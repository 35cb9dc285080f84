// Work done in a process of its own.
#include <gtest/gtest.h>

#include <csignal>

#include "fs/control/daemon.h"

namespace zuse::control {
namespace {

TEST(RunApart, TheTextComesBackWhole) {
  const std::string large(3'000'000, 'x');
  const auto text = run_apart([&]() -> Result<std::string> { return large; });
  ASSERT_TRUE(text);
  EXPECT_EQ(*text, large);
}

TEST(RunApart, SoDoesTheError) {
  const auto text =
      run_apart([]() -> Result<std::string> { return fail(Errc::corrupt, "no label"); });
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code(), Errc::corrupt);
  EXPECT_EQ(text.error().what(), "no label");
}

TEST(RunApart, ACrashIsAnErrorThatNamesTheSignal) {
  const auto text = run_apart([]() -> Result<std::string> {
    ::raise(SIGKILL);
    return std::string();
  });
  ASSERT_FALSE(text);
  EXPECT_NE(text.error().what().find(std::to_string(SIGKILL)), std::string::npos);
}

TEST(RunApart, NothingThatHappensThereHappensHere) {
  int value = 1;
  ASSERT_TRUE(run_apart([&]() -> Result<std::string> {
    value = 2;
    return std::string();
  }));
  EXPECT_EQ(value, 1);
}

}  // namespace
}  // namespace zuse::control
