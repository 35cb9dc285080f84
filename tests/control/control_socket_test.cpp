// The control socket, both ends of it in one process.
#include "fs/control/control_socket.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <boost/filesystem.hpp>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>

#include "fs/control/run_directory.h"
#include "zinject/control_client.h"

namespace zuse::control {
namespace {

namespace bfs = boost::filesystem;

class ControlSocketTest : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = bfs::temp_directory_path() / bfs::unique_path("zuse-%%%%%%%%");
    ASSERT_EQ(::setenv("ZUSE_RUN_DIR", directory_.c_str(), 1), 0);
    ASSERT_TRUE(make_run_directory());
    path_ = *zinject::socket_path("tank");
  }
  void TearDown() override {
    ::unsetenv("ZUSE_RUN_DIR");
    bfs::remove_all(directory_);
  }
  static Result<Json> echo(const Request& request) {
    if (request.command == "fail") {
      return fail(Errc::busy, "it is in use");
    }
    return Json{{"command", request.command}, {"args", request.args}};
  }
  bfs::path directory_;
  std::string path_;
};

TEST_F(ControlSocketTest, AnAnswerComesBack) {
  auto server = ControlServer::listen(path_, echo);
  ASSERT_TRUE(server) << server.error().what();
  const auto answer = zinject::ask("tank", "hello", {{"number", 7}});
  ASSERT_TRUE(answer) << answer.error().what();
  EXPECT_EQ(answer->at("command"), "hello");
  EXPECT_EQ(answer->at("args").at("number"), 7);
}

TEST_F(ControlSocketTest, AnErrorKeepsItsKindAndSentence) {
  auto server = ControlServer::listen(path_, echo);
  ASSERT_TRUE(server);
  const auto answer = zinject::ask("tank", "fail", Json::object());
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code(), Errc::busy);
  EXPECT_EQ(answer.error().what(), "it is in use");
}

TEST_F(ControlSocketTest, NobodyElseMayOpenTheSocket) {
  auto server = ControlServer::listen(path_, echo);
  ASSERT_TRUE(server);
  struct stat info{};
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777U, 0600U);
}

TEST_F(ControlSocketTest, ASecondDaemonOfThePoolIsRefused) {
  auto first = ControlServer::listen(path_, echo);
  ASSERT_TRUE(first);
  const auto second = ControlServer::listen(path_, echo);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), Errc::busy);
  EXPECT_TRUE(zinject::ask("tank", "hello", Json::object())) << "the first one still serves";
}

TEST_F(ControlSocketTest, ASocketLeftByAKilledDaemonIsReplaced) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path_.c_str(), sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ::close(fd);
  EXPECT_TRUE(running_pools().empty());
  auto server = ControlServer::listen(path_, echo);
  ASSERT_TRUE(server) << server.error().what();
  EXPECT_EQ(running_pools(), std::vector<std::string>{"tank"});
}

TEST_F(ControlSocketTest, ASlowCommandDelaysNobody) {
  std::mutex mutex;
  std::condition_variable condition;
  bool released = false;
  auto server = ControlServer::listen(path_, [&](const Request& request) -> Result<Json> {
    if (request.command == "slow") {
      std::unique_lock lock(mutex);
      condition.wait(lock, [&] { return released; });
    }
    return Json(request.command);
  });
  ASSERT_TRUE(server);
  std::thread slow([] { EXPECT_TRUE(zinject::ask("tank", "slow", Json::object())); });
  EXPECT_TRUE(zinject::ask("tank", "fast", Json::object()));
  {
    const std::lock_guard lock(mutex);
    released = true;
  }
  condition.notify_all();
  slow.join();
}

TEST_F(ControlSocketTest, ACommandInProgressIsAnsweredBeforeTheEnd) {
  std::atomic<bool> entered{false};
  std::atomic<ControlServer*> raw{nullptr};
  auto server = ControlServer::listen(path_, [&](const Request&) -> Result<Json> {
    entered = true;
    return Json("done");
  });
  ASSERT_TRUE(server);
  const auto answer = zinject::ask("tank", "x", Json::object());
  (*server)->stop();
  ASSERT_TRUE(answer);
  EXPECT_TRUE(entered);
  EXPECT_FALSE(bfs::exists(path_));
  EXPECT_FALSE(zinject::ask("tank", "x", Json::object()));
}

TEST_F(ControlSocketTest, NonsenseIsAnsweredAndTheConnectionLivesOn) {
  auto server = ControlServer::listen(path_, echo);
  ASSERT_TRUE(server);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path_.c_str(), sizeof address.sun_path - 1);
  ASSERT_EQ(::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  std::string pending;
  ASSERT_TRUE(write_all(fd, "nonsense\n"));
  auto line = read_line(fd, pending, 10000);
  ASSERT_TRUE(line && *line);
  EXPECT_FALSE(zinject::parse_reply(**line));
  ASSERT_TRUE(write_all(fd, "{\"command\":\"hello\"}\n"));
  line = read_line(fd, pending, 10000);
  ASSERT_TRUE(line && *line);
  EXPECT_TRUE(zinject::parse_reply(**line));
  ::close(fd);
}

}  // namespace
}  // namespace zuse::control
