// The program's manners: exit codes, one line an error, what the links do.
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/filesystem.hpp>
#include <cstdlib>
#include <sstream>

#include "fs/cli/app.h"

namespace zuse::cli {
namespace {

namespace bfs = boost::filesystem;

struct Outcome {
  int code = 0;
  std::string out, err;
};

class CommandLineTest : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = bfs::temp_directory_path() / bfs::unique_path("zuse-%%%%%%%%");
    bfs::create_directory(directory_);
    ASSERT_EQ(::setenv("ZUSE_RUN_DIR", directory_.c_str(), 1), 0);
  }
  void TearDown() override {
    ::unsetenv("ZUSE_RUN_DIR");
    bfs::remove_all(directory_);
  }
  static Outcome call(std::vector<const char*> words) {
    std::ostringstream out, err;
    const int code = run(static_cast<int>(words.size()), words.data(), out, err);
    return {code, out.str(), err.str()};
  }
  static bool is_one_line(const std::string& text) {
    return std::ranges::count(text, '\n') == 1 && text.back() == '\n';
  }
  bfs::path directory_;
};

TEST_F(CommandLineTest, UnknownOptionsAndCommandsAreOneLineAndExitTwo) {
  const std::vector<std::vector<const char*>> wrong{
      {"zuse"},
      {"zuse", "pool"},
      {"zuse", "pool", "frobnicate"},
      {"zuse", "pool", "list", "--frob"},
      {"zuse", "fs", "get"},
      {"zuse", "pool", "create", "tank"},
      {"zpool", "scrub", "-p", "-s", "tank"},
      {"zfs", "list", "-o", "nonsense"},
      {"zfs", "get", "nonsense", "tank"},
      {"zfs", "list", "-t", "nonsense"},
      {"zuse", "pool", "export"},
      {"zuse", "fs", "unmount"},
      {"zuse", "fs", "set", "tank"},
  };
  for (const auto& words : wrong) {
    const Outcome outcome = call(words);
    EXPECT_EQ(outcome.code, kExitUsage) << words.back();
    EXPECT_TRUE(is_one_line(outcome.err)) << outcome.err;
    EXPECT_EQ(outcome.out, "") << words.back();
  }
}

TEST_F(CommandLineTest, HelpIsNoErrorAndShowsExamples) {
  for (const auto& words :
       std::vector<std::vector<const char*>>{{"zuse", "--help"},
                                             {"zuse", "pool", "create", "--help"},
                                             {"zpool", "import", "--help"},
                                             {"zfs", "list", "--help"}}) {
    const Outcome outcome = call(words);
    EXPECT_EQ(outcome.code, 0);
    EXPECT_NE(outcome.out.find("Example"), std::string::npos) << outcome.out;
    EXPECT_EQ(outcome.err, "");
  }
}

TEST_F(CommandLineTest, EveryCommandHasHelp) {
  for (const char* const command :
       {"create", "destroy", "import", "export", "status", "list", "get", "set", "scrub", "clear",
        "sync", "history", "labelclear", "check"}) {
    EXPECT_EQ(call({"zpool", command, "--help"}).code, 0) << command;
  }
  for (const char* const command : {"list", "get", "set", "mount", "unmount", "umount"}) {
    EXPECT_EQ(call({"zfs", command, "--help"}).code, 0) << command;
  }
}

TEST_F(CommandLineTest, APoolThatNobodyServesIsNamed) {
  for (const auto& words :
       std::vector<std::vector<const char*>>{{"zpool", "status", "tank"},
                                             {"zpool", "list", "tank"},
                                             {"zpool", "get", "all", "tank"},
                                             {"zpool", "scrub", "tank"},
                                             {"zpool", "export", "tank"},
                                             {"zpool", "destroy", "tank"},
                                             {"zpool", "history", "tank"},
                                             {"zfs", "list", "tank/a"},
                                             {"zfs", "set", "atime=off", "tank/a"},
                                             {"zfs", "mount", "tank/a"}}) {
    const Outcome outcome = call(words);
    EXPECT_EQ(outcome.code, kExitFailed) << words[1];
    EXPECT_TRUE(is_one_line(outcome.err)) << outcome.err;
    EXPECT_TRUE(outcome.err.starts_with("cannot ")) << outcome.err;
    EXPECT_NE(outcome.err.find("'tank"), std::string::npos) << outcome.err;
  }
}

TEST_F(CommandLineTest, WithoutPoolsListsSaySo) {
  EXPECT_EQ(call({"zpool", "list"}).out, "no pools available\n");
  EXPECT_EQ(call({"zpool", "status"}).out, "no pools available\n");
  EXPECT_EQ(call({"zfs", "list"}).out, "no datasets available\n");
  EXPECT_EQ(call({"zpool", "list", "-H"}).out, "");
  EXPECT_EQ(call({"zpool", "list", "--json"}).code, 0);
}

TEST_F(CommandLineTest, AnEmptyDirectoryOffersNothingToImport) {
  const Outcome outcome = call({"zpool", "import", "-d", directory_.c_str()});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "no pools available to import\n");
}

TEST_F(CommandLineTest, ADryRunShowsTheLayoutAndLeavesNoDaemon) {
  const std::string a = (directory_ / "a").string(), b = (directory_ / "b").string();
  for (const std::string& path : {a, b}) {
    std::fclose(std::fopen(path.c_str(), "w"));
  }
  const Outcome outcome = call({"zpool", "create", "-n", "tank", "mirror", a.c_str(), b.c_str()});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("  mirror"), std::string::npos);
  EXPECT_NE(outcome.out.find(b), std::string::npos);
  EXPECT_EQ(call({"zpool", "list"}).out, "no pools available\n");
}

TEST_F(CommandLineTest, BadCreateOptionsAreRefusedByName) {
  const std::string a = (directory_ / "a").string();
  std::fclose(std::fopen(a.c_str(), "w"));
  for (const char* const option : {"ashift=99", "ashift=x", "nonsense", "cachefile=/etc/x"}) {
    const Outcome outcome = call({"zpool", "create", "-N", "-o", option, "tank", a.c_str()});
    EXPECT_EQ(outcome.code, kExitFailed) << option;
    EXPECT_TRUE(outcome.err.starts_with("cannot create 'tank': ")) << outcome.err;
    EXPECT_TRUE(is_one_line(outcome.err)) << outcome.err;
  }
}

TEST_F(CommandLineTest, AMountPointWithFilesIsRefusedBeforeThePoolIsMade) {
  const std::string a = (directory_ / "a").string();
  std::fclose(std::fopen(a.c_str(), "w"));
  const Outcome outcome = call({"zpool", "create", "-m", directory_.c_str(), "tank", a.c_str()});
  EXPECT_EQ(outcome.code, kExitFailed);
  EXPECT_NE(outcome.err.find("not empty"), std::string::npos) << outcome.err;
  EXPECT_EQ(bfs::file_size(a), 0U);
}

TEST_F(CommandLineTest, AFileWithoutLabelHasNoneToClear) {
  const std::string a = (directory_ / "a").string();
  std::fclose(std::fopen(a.c_str(), "w"));
  bfs::resize_file(a, 64 << 20);
  const Outcome outcome = call({"zpool", "labelclear", "-f", a.c_str()});
  EXPECT_EQ(outcome.code, kExitFailed);
  EXPECT_NE(outcome.err.find("no label"), std::string::npos) << outcome.err;
}

TEST(Assignment, OnlyTheFirstEqualsSignCounts) {
  const auto assignment = parse_assignment("comment=a=b");
  ASSERT_TRUE(assignment);
  EXPECT_EQ(assignment->first, "comment");
  EXPECT_EQ(assignment->second, "a=b");
  EXPECT_TRUE(parse_assignment("comment="));
  EXPECT_FALSE(parse_assignment("=b"));
  EXPECT_FALSE(parse_assignment("comment"));
}

}  // namespace
}  // namespace zuse::cli
