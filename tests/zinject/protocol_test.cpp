// The daemon's side of the protocol, and the command itself against a socket that the test serves.
#include "zinject/protocol.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <random>
#include <thread>

#include "tests/support/seed.h"
#include "zinject/control_client.h"

namespace zuse::zinject {
namespace {

using nlohmann::json;

class ProtocolTest : public testing::Test {
 protected:
  ProtocolTest() {
    hooks_.pool = "tank";
    hooks_.leaves = [] {
      return std::vector<LeafName>{
          {11, "/disks/a/d0.img"}, {22, "/disks/a/d1.img"}, {33, "/disks/b/d1.img"}};
    };
    hooks_.drop_cache = [this]() -> Result<void> {
      ++drops_;
      return {};
    };
    hooks_.set_leaf_state = [this](std::uint64_t guid, vdev::VdevState state) -> Result<void> {
      if (guid == 33) {
        return fail(Errc::busy, "the last copy");
      }
      states_.emplace_back(guid, state);
      return {};
    };
  }
  json done(const json& args) {
    auto result = handle(engine_, args, hooks_);
    EXPECT_TRUE(result) << args << result.error().what();
    return result ? *result : json();
  }
  Errc refused(const json& args) {
    const auto result = handle(engine_, args, hooks_);
    EXPECT_FALSE(result) << args;
    return result ? Errc::io : result.error().code();
  }

  Engine engine_;
  Hooks hooks_;
  int drops_ = 0;
  std::vector<std::pair<std::uint64_t, vdev::VdevState>> states_;
};

TEST_F(ProtocolTest, AddListCancel) {
  Rule rule;
  rule.error = FaultError::io;
  rule.percent = 12.5;
  const json added = done(
      {{"action", "add"}, {"device", "d0.img"}, {"rule", to_json(rule)}, {"cache_drop", true}});
  EXPECT_EQ(added["id"], 1);
  EXPECT_EQ(added["guid"], 11);
  EXPECT_EQ(added["device"], "/disks/a/d0.img");
  EXPECT_EQ(drops_, 1);
  const json listed = done({{"action", "list"}});
  EXPECT_EQ(listed["pool"], "tank");
  ASSERT_EQ(listed["handlers"].size(), 1U);
  const auto handler = handler_from_json(listed["handlers"][0]);
  ASSERT_TRUE(handler);
  EXPECT_EQ(handler->handler.rule.percent, 12.5);
  EXPECT_EQ(handler->pool, "tank");
  EXPECT_EQ(done({{"action", "cancel"}, {"id", 1}})["cancelled"], json::array({1}));
  EXPECT_EQ(refused({{"action", "cancel"}, {"id", 1}}), Errc::not_found);
  EXPECT_EQ(done({{"action", "cancel"}})["cancelled"], json::array());
}

TEST_F(ProtocolTest, LeavesGoByGuidPathOrUnambiguousFileName) {
  const auto leaves = hooks_.leaves();
  EXPECT_EQ(find_leaf(leaves, "22", "")->guid, 22U);
  EXPECT_EQ(find_leaf(leaves, "0x16", "")->guid, 22U);
  EXPECT_EQ(find_leaf(leaves, "/disks/b/d1.img", "")->guid, 33U);
  EXPECT_EQ(find_leaf(leaves, "b/d1.img", "/disks/b/d1.img")->guid, 33U);
  EXPECT_EQ(find_leaf(leaves, "d0.img", "")->guid, 11U);
  EXPECT_EQ(find_leaf(leaves, "d1.img", "").error().code(), Errc::invalid);
  EXPECT_EQ(find_leaf(leaves, "d9.img", "").error().code(), Errc::not_found);
  EXPECT_EQ(find_leaf(leaves, "", "").error().code(), Errc::invalid);
}

TEST_F(ProtocolTest, StatesAreSetThroughTheDaemon) {
  done({{"action", "set_state"}, {"device", "11"}, {"state", "faulted"}});
  ASSERT_EQ(states_.size(), 1U);
  EXPECT_EQ(states_[0], std::pair(std::uint64_t{11}, vdev::VdevState::faulted));
  EXPECT_EQ(refused({{"action", "set_state"}, {"device", "33"}, {"state", "degraded"}}),
            Errc::busy);
  EXPECT_EQ(refused({{"action", "set_state"}, {"device", "11"}, {"state", "online"}}),
            Errc::invalid);
}

TEST_F(ProtocolTest, EveryRuleSurvivesJson) {
  std::mt19937_64 rng(test::seed());
  SCOPED_TRACE(test::rerun());
  for (int round = 0; round < 1000; ++round) {
    Rule rule;
    rule.kind = static_cast<RuleKind>(rng() % 3);
    rule.percent = std::uniform_real_distribution(kPercentMin, 100.0)(rng);
    rule.seed = rng();
    rule.error = rule.kind == RuleKind::device ? static_cast<FaultError>(rng() % 6) : rule.error;
    rule.type = static_cast<IoType>(rng() % 6);
    if (rule.kind == RuleKind::label) {
      rule.label = static_cast<LabelPart>(rng() % 4);
    }
    if (rule.kind == RuleKind::delay) {
      rule.delay_ms = 1 + rng() % kDelayMaxMs;
      rule.lanes = static_cast<unsigned>(1 + rng() % kLanesMax);
    }
    if (!check(rule)) {
      continue;
    }
    const auto back = rule_from_json(json::parse(to_json(rule).dump()));
    ASSERT_TRUE(back) << back.error().what();
    EXPECT_EQ(*back, rule);
  }
}

TEST_F(ProtocolTest, MalformedRequestsAreRefusedWithoutThrowing) {
  for (const char* const text :
       {"null", "[]", "3", "{}", R"({"action":7})", R"({"action":"frob"})",
        R"({"action":"add","device":"11"})", R"({"action":"add","device":"11","rule":[]})",
        R"({"action":"add","device":"11","rule":{"kind":"device"}})",
        R"({"action":"add","device":"11","rule":{"kind":"device","error":"io","percent":"x"}})",
        R"({"action":"add","device":"11","rule":{"kind":"device","error":"io","percent":1e999}})",
        R"({"action":"add","device":"11","rule":{"kind":"device","error":"io","seed":-1}})",
        R"({"action":"add","device":"11","rule":{"kind":"device","error":"io","type":3}})",
        R"({"action":"add","device":"11","rule":{"kind":"device","error":"io","fail_fast":1}})",
        R"({"action":"add","device":"11","rule":{"kind":"delay","delay_ms":1,"lanes":4294967297}})",
        R"({"action":"add","device":["11"],"rule":{"kind":"device","error":"io"}})",
        R"({"action":"cancel","id":"1"})", R"({"action":"cancel","id":-1})",
        R"({"action":"cancel","id":1.5})"}) {
    EXPECT_EQ(refused(json::parse(text, nullptr, false)), Errc::invalid) << text;
  }
  EXPECT_TRUE(engine_.list().empty());
}

TEST(Reply, ErrorsKeepTheirKindAndSentence) {
  const auto error = parse_reply(reply_line(fail(Errc::no_space, "the pool is full")));
  ASSERT_FALSE(error);
  EXPECT_EQ(error.error().code(), Errc::no_space);
  EXPECT_EQ(error.error().what(), "the pool is full");
  EXPECT_EQ(parse_reply(reply_line(json{{"a", 1}}))->at("a"), 1);
  for (const char* const line : {"", "null", "{}", "{\"ok\":1}", "{"}) {
    EXPECT_EQ(parse_reply(line).error().code(), Errc::io);
  }
}

// One pool's control socket, answering "zinject" as a daemon does.
class Daemon {
 public:
  Daemon(const std::string& folder, const std::string& pool) {
    hooks.pool = pool;
    hooks.leaves = [] { return std::vector<LeafName>{{11, "/disks/d0.img"}}; };
    hooks.drop_cache = []() -> Result<void> { return {}; };
    hooks.set_leaf_state = [](std::uint64_t, vdev::VdevState) -> Result<void> { return {}; };
    path_ = folder + "/" + pool + ".sock";
    socket_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path_.c_str(), sizeof address.sun_path - 1);
    EXPECT_EQ(bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(listen(socket_, 8), 0);
    thread_ = std::thread([this] { serve(); });
  }
  ~Daemon() {
    shutdown(socket_, SHUT_RDWR);
    thread_.join();
    close(socket_);
  }
  Hooks hooks;
  Engine engine;

 private:
  void serve() {
    for (;;) {
      const int connection = accept(socket_, nullptr, nullptr);
      if (connection < 0) {
        return;
      }
      std::string line;
      for (char letter = 0; read(connection, &letter, 1) == 1 && letter != '\n';) {
        line += letter;
      }
      const json request = json::parse(line, nullptr, false);
      const std::string reply = request.value("command", "") == "zinject"
                                    ? reply_line(handle(engine, request["args"], hooks))
                                    : reply_line(fail(Errc::invalid, "unknown command"));
      // In two pieces, as a busy socket may deliver it.
      const std::size_t half = reply.size() / 2;
      EXPECT_EQ(write(connection, reply.data(), half), static_cast<ssize_t>(half));
      EXPECT_EQ(write(connection, reply.data() + half, reply.size() - half),
                static_cast<ssize_t>(reply.size() - half));
      close(connection);
    }
  }
  std::string path_;
  int socket_ = -1;
  std::thread thread_;
};

class CommandTest : public testing::Test {
 protected:
  CommandTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "zuse-zinject-XXXXXX").string();
    EXPECT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    setenv("ZUSE_RUN_DIR", folder_.c_str(), 1);
  }
  ~CommandTest() override {
    unsetenv("ZUSE_RUN_DIR");
    std::filesystem::remove_all(folder_);
  }
  // Runs the command; answers its exit code and leaves its output in out_.
  int run(const std::string& arguments) {
    const std::string command = std::string(ZUSE_ZINJECT_PROGRAM) + " " + arguments + " 2>&1";
    FILE* const pipe = popen(command.c_str(), "re");
    out_.clear();
    std::array<char, 4096> piece{};
    for (std::size_t got = 0; (got = fread(piece.data(), 1, piece.size(), pipe)) > 0;) {
      out_.append(piece.data(), got);
    }
    return WEXITSTATUS(pclose(pipe));
  }
  std::string folder_;
  std::string out_;
};

TEST_F(CommandTest, AddsListsAndCancelsOverTheSocket) {
  Daemon daemon(folder_, "tank");
  EXPECT_EQ(run(""), 0);
  EXPECT_EQ(run("-q -d d0.img -e io -T read -f 50 --seed 9 tank"), 0);
  EXPECT_EQ(out_, "1\n");
  EXPECT_EQ(run("-q -d 11 -D 25:2 tank"), 0);
  EXPECT_EQ(out_, "2\n");
  EXPECT_EQ(run("-d 11 -L uber tank"), 0);
  EXPECT_NE(out_.find("handler 3"), std::string::npos);
  EXPECT_EQ(run(""), 0);
  EXPECT_EQ(out_,
            "ID  POOL  GUID  TYPE  ERROR  FREQ      MATCH  INJECT\n"
            "1   tank  b     read  io     50.0000%  0      0\n"
            "\n"
            "ID  POOL  GUID  DELAY(ms)  LANES  FREQ       MATCH  INJECT\n"
            "2   tank  b     25         2      100.0000%  0      0\n"
            "\n"
            "ID  POOL  GUID  LABEL  MATCH  INJECT\n"
            "3   tank  b     uber   0      0\n");
  EXPECT_EQ(run("--json"), 0);
  EXPECT_EQ(json::parse(out_)["handlers"].size(), 3U);
  EXPECT_EQ(json::parse(out_)["handlers"][0]["seed"], 9);
  EXPECT_EQ(run("-c 2"), 0);
  EXPECT_EQ(run("-c 2"), 1);
  EXPECT_EQ(daemon.engine.list().size(), 2U);
  EXPECT_EQ(run("-c all"), 0);
  EXPECT_TRUE(daemon.engine.list().empty());
  EXPECT_EQ(run("-a"), 0);
  EXPECT_EQ(run("-d d0.img -A fault tank"), 0);
  EXPECT_EQ(run("-d d7.img tank"), 1);
  EXPECT_NE(out_.find("d7.img"), std::string::npos);
}

TEST_F(CommandTest, AnIdThatSeveralPoolsHaveNeedsThePoolsName) {
  Daemon tank(folder_, "tank");
  Daemon pond(folder_, "pond");
  EXPECT_EQ(run("-d 11 tank"), 0);
  EXPECT_EQ(run("-d 11 pond"), 0);
  EXPECT_EQ(run("-c 1"), 1);
  EXPECT_NE(out_.find("pond, tank"), std::string::npos);
  EXPECT_EQ(run("-c 1 pond"), 0);
  EXPECT_TRUE(pond.engine.list().empty());
  EXPECT_EQ(run("-c 1"), 0);
  EXPECT_TRUE(tank.engine.list().empty());
}

TEST_F(CommandTest, ExitCodesTellRefusedFromMisused) {
  EXPECT_EQ(run("-d 11 tank"), 1) << "no daemon";
  EXPECT_NE(out_.find("tank"), std::string::npos);
  EXPECT_EQ(run("-d 11 ../tank"), 1);
  EXPECT_EQ(run("-d 11 -f 0 tank"), 1);
  EXPECT_EQ(run("-e io tank"), 2);
  EXPECT_EQ(run("-t data /x"), 2);
  EXPECT_EQ(run("--help"), 0);
  EXPECT_EQ(run("-a"), 0) << "no pool is no error";
  std::ofstream(folder_ + "/file.sock") << "not a socket";
  EXPECT_EQ(run(""), 0);
}

}  // namespace
}  // namespace zuse::zinject
