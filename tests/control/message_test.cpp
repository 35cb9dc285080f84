// Requests as they come from the socket: anybody may write anything.
#include "fs/control/message.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <thread>

namespace zuse::control {
namespace {

TEST(Request, ACommandWithArgumentsIsUnderstood) {
  const auto request = decode_request(R"({"command":"scrub","args":{"action":"pause"}})");
  ASSERT_TRUE(request);
  EXPECT_EQ(request->command, "scrub");
  EXPECT_EQ(string_arg_or(request->args, "action"), "pause");
}

TEST(Request, ArgumentsMayBeLeftOut) {
  const auto request = decode_request(R"({"command":"status"})");
  ASSERT_TRUE(request);
  EXPECT_TRUE(request->args.is_object());
}

TEST(Request, EverythingElseIsInvalid) {
  for (const char* const line :
       {"", "status", "{", "[]", "{}", R"({"command":1})", R"({"command":"x","args":[]})",
        R"({"args":{}})", "\xff\xfe", "null"}) {
    const auto request = decode_request(line);
    ASSERT_FALSE(request) << line;
    EXPECT_EQ(request.error().code(), Errc::invalid) << line;
  }
}

TEST(Request, ArgumentsOfTheWrongTypeAreAbsent) {
  const Json args = {{"force", "yes"}, {"name", 7}};
  EXPECT_FALSE(flag_arg(args, "force"));
  EXPECT_EQ(string_arg_or(args, "name", "none"), "none");
  EXPECT_FALSE(string_arg(args, "name"));
}

class LineTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends_.data()), 0); }
  void TearDown() override {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  std::array<int, 2> ends_{};
  std::string pending_;
};

TEST_F(LineTest, LinesComeOneByOneHoweverTheyWereSent) {
  ASSERT_TRUE(write_all(ends_[0], "one\ntwo\nth"));
  ASSERT_TRUE(write_all(ends_[0], "ree\n"));
  for (const char* const expected : {"one", "two", "three"}) {
    const auto line = read_line(ends_[1], pending_, 100);
    ASSERT_TRUE(line && *line);
    EXPECT_EQ(**line, expected);
  }
}

TEST_F(LineTest, TheEndOfTheConnectionIsNoLine) {
  ASSERT_TRUE(write_all(ends_[0], "half a li"));
  ::shutdown(ends_[0], SHUT_WR);
  const auto line = read_line(ends_[1], pending_, 100);
  ASSERT_TRUE(line);
  EXPECT_FALSE(line->has_value());
}

TEST_F(LineTest, ALineWithoutEndIsRefused) {
  std::thread writer([this] { (void)write_all(ends_[0], std::string(5000, 'x')); });
  const auto line = read_line(ends_[1], pending_, 1000);
  writer.join();
  ASSERT_FALSE(line);
  EXPECT_EQ(line.error().code(), Errc::too_large);
}

TEST_F(LineTest, AStopEndsTheWait) {
  std::array<int, 2> stop{};
  ASSERT_EQ(::pipe(stop.data()), 0);
  ASSERT_EQ(::write(stop[1], "x", 1), 1);
  const auto line = read_line(ends_[1], pending_, 1000, stop[0]);
  ASSERT_FALSE(line);
  EXPECT_EQ(line.error().code(), Errc::stopped);
  ::close(stop[0]);
  ::close(stop[1]);
}

}  // namespace
}  // namespace zuse::control
