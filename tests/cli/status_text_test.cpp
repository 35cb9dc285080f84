// The texts of status and import.
#include "fs/cli/status_text.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>
#include <sstream>

namespace zuse::cli {
namespace {

Json vdev(const std::string& name, const std::string& state, std::vector<Json> children = {}) {
  return {{"type", "file"}, {"guid", "1"}, {"name", name}, {"state", state},
          {"aux", ""},      {"read", 0},   {"write", 0},   {"checksum", 0},
          {"repaired", 0},  {"size", 0},   {"ashift", 12}, {"children", children}};
}

Json scan(const std::string& state) {
  return {{"function", state == "none" ? "none" : "scrub"},
          {"state", state},
          {"start", 1000},
          {"end", 1061},
          {"to_examine", 4096},
          {"examined", 1024},
          {"repaired", 512},
          {"errors", 2},
          {"rate", 1024.0}};
}

Json healthy() {
  return {{"name", "tank"},
          {"guid", "7"},
          {"read_only", false},
          {"state", "ONLINE"},
          {"scan", scan("none")},
          {"config", vdev("root", "ONLINE",
                          {vdev("raidz1-0", "ONLINE",
                                {vdev("/images/d0", "ONLINE"), vdev("/images/d1", "ONLINE")})})},
          {"errors", Json::array()}};
}

std::string printed(const Json& status, bool verbose = false) {
  std::ostringstream out;
  print_status(out, status, {verbose, false});
  return out.str();
}

class StatusTest : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("TZ", "UTC", 1);
    ::tzset();
  }
};

TEST_F(StatusTest, AHealthyPoolHasNoAdvice) {
  EXPECT_TRUE(is_healthy(healthy()));
  EXPECT_EQ(printed(healthy()),
            "  pool: tank\n"
            " state: ONLINE\n"
            "  scan: none requested\n"
            "config:\n"
            "\n"
            "\tNAME            STATE     READ WRITE CKSUM\n"
            "\ttank            ONLINE       0     0     0\n"
            "\t  raidz1-0      ONLINE       0     0     0\n"
            "\t    /images/d0  ONLINE       0     0     0\n"
            "\t    /images/d1  ONLINE       0     0     0\n"
            "\n"
            "errors: No known data errors\n");
}

TEST_F(StatusTest, ErrorsThatWereCountedAreNotHealthy) {
  Json status = healthy();
  status["config"]["children"][0]["children"][1]["checksum"] = 3;
  EXPECT_FALSE(is_healthy(status));
  const std::string text = printed(status);
  EXPECT_NE(text.find("\nstatus: "), std::string::npos);
  EXPECT_NE(text.find("\naction: "), std::string::npos);
  EXPECT_NE(text.find("/images/d1  ONLINE       0     0     3"), std::string::npos) << text;
}

TEST_F(StatusTest, AMissingDeviceDegradesThePool) {
  Json status = healthy();
  status["state"] = "DEGRADED";
  status["config"]["children"][0]["children"][0]["state"] = "UNAVAIL";
  status["config"]["children"][0]["children"][0]["aux"] = "cannot open";
  EXPECT_FALSE(is_healthy(status));
  const std::string text = printed(status);
  EXPECT_NE(text.find("UNAVAIL      0     0     0  cannot open"), std::string::npos) << text;
}

TEST_F(StatusTest, DamagedFilesAreCountedAndNamedOnRequest) {
  Json status = healthy();
  status["errors"] = Json::array(
      {{{"dataset", "tank"}, {"path", "/a/b"}}, {{"dataset", "tank/x"}, {"path", "<0x7>"}}});
  EXPECT_NE(printed(status).find("errors: 2 data errors, use '-v' for a list"), std::string::npos);
  const std::string text = printed(status, true);
  EXPECT_NE(text.find("tank/a/b\n"), std::string::npos) << text;
  EXPECT_NE(text.find("tank/x:<0x7>\n"), std::string::npos) << text;
}

TEST_F(StatusTest, AScanIsToldByItsState) {
  EXPECT_EQ(scan_text(scan("none"), 0), "none requested");
  EXPECT_EQ(scan_text(scan("finished"), 0),
            "scrub repaired 512B in 00:01:01 with 2 errors on Thu Jan  1 00:17:41 1970");
  EXPECT_EQ(scan_text(scan("canceled"), 0), "scrub canceled on Thu Jan  1 00:17:41 1970");
  const std::string running = scan_text(scan("scanning"), 1010);
  EXPECT_TRUE(running.starts_with("scrub in progress since Thu Jan  1 00:16:40 1970\n\t"));
  EXPECT_NE(running.find("25.00% done"), std::string::npos) << running;
  EXPECT_NE(running.find("00:00:03 to go"), std::string::npos) << running;
  EXPECT_TRUE(scan_text(scan("paused"), 1010).starts_with("scrub paused"));
}

TEST_F(StatusTest, AScanOfNothingIsDone) {
  Json nothing = scan("scanning");
  nothing["to_examine"] = 0;
  EXPECT_NE(scan_text(nothing, 1010).find("100.00% done"), std::string::npos);
}

TEST_F(StatusTest, PoolsOnOfferComeWithTheirProblem) {
  const Json candidates = Json::array({{{"name", "tank"},
                                        {"guid", "99"},
                                        {"config", vdev("root", "ONLINE")},
                                        {"status", ""},
                                        {"action", ""},
                                        {"problem", ""}},
                                       {{"name", "lost"},
                                        {"guid", "98"},
                                        {"config", vdev("root", "UNAVAIL")},
                                        {"status", ""},
                                        {"action", ""},
                                        {"problem", "two images are missing"}}});
  std::ostringstream out;
  print_candidates(out, candidates);
  EXPECT_NE(out.str().find("   pool: tank\n     id: 99\n  state: ONLINE\n action: "),
            std::string::npos)
      << out.str();
  EXPECT_NE(out.str().find(" status: two images are missing\n"), std::string::npos) << out.str();
}

}  // namespace
}  // namespace zuse::cli
