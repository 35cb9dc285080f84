#include "zinject/command_line.h"

#include <gtest/gtest.h>

#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/seed.h"

namespace zuse::zinject {
namespace {

std::vector<std::string> words(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> result;
  for (std::string word; stream >> word;) {
    result.push_back(word);
  }
  return result;
}

Command parsed(const std::string& line) {
  const auto command = parse(words(line));
  EXPECT_TRUE(command) << line << ": " << (command ? "" : command.error().what);
  return command ? *command : Command{};
}

int exit_code(const std::string& line) {
  const auto command = parse(words(line));
  return command ? kExitDone : command.error().exit_code;
}

TEST(CommandLine, NothingListsAllPools) {
  EXPECT_EQ(parsed("").kind, Command::Kind::list);
  EXPECT_EQ(parsed("tank").pool, "tank");
  EXPECT_TRUE(parsed("--json").json);
  EXPECT_EQ(parsed("--log").kind, Command::Kind::injections);
}

TEST(CommandLine, ADeviceFaultIsNxioOnAllUnlessItSaysOtherwise) {
  const Command plain = parsed("-d d1.img tank");
  EXPECT_EQ(plain.kind, Command::Kind::add);
  EXPECT_EQ(plain.pool, "tank");
  EXPECT_EQ(plain.device, "d1.img");
  EXPECT_EQ(plain.rule, Rule{});
  EXPECT_EQ(plain.rule.error, FaultError::nxio);
  EXPECT_EQ(plain.rule.percent, 100);
  const Command full = parsed("-qa -d /dev/x -e corrupt -T read -f 2.5 --seed 7 -F tank");
  EXPECT_TRUE(full.quiet && full.cache_drop && full.rule.fail_fast);
  EXPECT_EQ(full.rule.error, FaultError::corrupt);
  EXPECT_EQ(full.rule.type, IoType::read);
  EXPECT_EQ(full.rule.percent, 2.5);
  EXPECT_EQ(full.rule.seed, 7U);
}

TEST(CommandLine, ThePoolMayStandAnywhere) {
  EXPECT_EQ(parsed("tank -d d1.img -e io").pool, "tank");
  EXPECT_EQ(parsed("-d d1.img tank -e io").rule.error, FaultError::io);
}

TEST(CommandLine, DelaysLabelsAndStates) {
  const Command delay = parsed("-d d1.img -D 25:2 -T write tank");
  EXPECT_EQ(delay.rule.kind, RuleKind::delay);
  EXPECT_EQ(delay.rule.delay_ms, 25U);
  EXPECT_EQ(delay.rule.lanes, 2U);
  EXPECT_EQ(parsed("-d d1.img -L uber tank").rule.label, LabelPart::uber);
  EXPECT_EQ(parsed("-d d1.img -A degrade tank").state, vdev::VdevState::degraded);
  EXPECT_EQ(parsed("-d d1.img -A fault tank").kind, Command::Kind::set_state);
}

TEST(CommandLine, CancelAndDrop) {
  EXPECT_EQ(parsed("-c all").kind, Command::Kind::cancel_all);
  EXPECT_EQ(parsed("-c 12 tank").id, 12U);
  EXPECT_EQ(parsed("-a").kind, Command::Kind::cache_drop);
  EXPECT_EQ(parsed("-a tank").pool, "tank");
}

TEST(CommandLine, BadValuesExitWithOne) {
  for (const char* const line :
       {"-c none", "-c 0", "-c -1", "-d d -e eperm tank", "-d d -T fsync tank", "-d d -T free tank",
        "-d d -f 0 tank", "-d d -f 100.1 tank", "-d d -f x tank", "-d d -f nan tank",
        "-d d -D 0:1 tank", "-d d -D 1:0 tank", "-d d -D 1:65535 tank", "-d d -D 5 tank",
        "-d d -D 5:x tank", "-d d -A offline tank", "-d d -L boot tank", "-d d --seed x tank"}) {
    EXPECT_EQ(exit_code(line), kExitRefused) << line;
  }
}

TEST(CommandLine, BadCombinationsExitWithTwo) {
  for (const char* const line : {"-d d",
                                 "-d d tank pond",
                                 "-e io tank",
                                 "-D 1:1 tank",
                                 "-A fault tank",
                                 "-f 5 tank",
                                 "-d d -e corrupt tank",
                                 "-d d -e corrupt -T read tank",
                                 "-d d -e corrupt -f 1 tank",
                                 "-d d -e corrupt -f 1 -T write tank",
                                 "-d d -e checksum tank",
                                 "-d d -e decrypt tank",
                                 "-d d -D 1:1 -e io tank",
                                 "-d d -D 1:1 -L uber tank",
                                 "-d d -L uber -f 5 tank",
                                 "-d d -A fault -e io tank",
                                 "-c all -d d tank",
                                 "-c 1 -a",
                                 "-c",
                                 "-d",
                                 "-a tank pond",
                                 "-d d -d e tank",
                                 "-x",
                                 "--frob",
                                 "-d d -D 1:1 -T flush tank",
                                 "--log -a",
                                 "-a -e io"}) {
    EXPECT_EQ(exit_code(line), kExitUsage) << line;
  }
}

TEST(CommandLine, FormsThatAreNotSupportedAreRefusedByName) {
  for (const char* const line :
       {"-t data /x", "-b 0:1:2:3:4 tank", "-I tank", "-g 3 tank", "-P import -s 3 tank",
        "-p spa_x tank", "-E 10 tank", "-u tank", "-m -d d tank", "-l 1 tank", "-r 0,1 tank",
        "-C 0 tank", "-s 3 tank", "-t"}) {
    const auto command = parse(words(line));
    ASSERT_FALSE(command) << line;
    EXPECT_EQ(command.error().exit_code, kExitUsage) << line;
    EXPECT_NE(command.error().what.find("not"), std::string::npos) << command.error().what;
    EXPECT_EQ(command.error().what.find('\n'), std::string::npos);
  }
}

TEST(CommandLine, EveryRuleSurvivesBeingWrittenAsOptions) {
  std::mt19937_64 rng(test::seed());
  SCOPED_TRACE(test::rerun());
  int checked = 0;
  for (int round = 0; round < 2000; ++round) {
    Rule rule;
    rule.kind = static_cast<RuleKind>(rng() % 3);
    rule.type = static_cast<IoType>(rng() % 6);
    if (rng() % 2 == 0) {
      rule.percent = std::uniform_real_distribution(kPercentMin, 100.0)(rng);
    }
    rule.fail_fast = rng() % 4 == 0;
    if (rng() % 2 == 0) {
      rule.seed = rng();
    }
    switch (rule.kind) {
      case RuleKind::device: rule.error = static_cast<FaultError>(rng() % 6); break;
      case RuleKind::label: rule.label = static_cast<LabelPart>(rng() % 4); break;
      case RuleKind::delay:
        rule.delay_ms = 1 + rng() % 1000;
        rule.lanes = static_cast<unsigned>(1 + rng() % kLanesMax);
        break;
    }
    if (!check(rule)) {
      continue;
    }
    std::vector<std::string> arguments{"-d", "disk"};
    const auto options = to_options(rule);
    arguments.insert(arguments.end(), options.begin(), options.end());
    arguments.emplace_back("tank");
    const auto command = parse(arguments);
    ASSERT_TRUE(command) << command.error().what;
    EXPECT_EQ(command->rule, rule);
    ++checked;
  }
  EXPECT_GT(checked, 500);
}

TEST(CommandLine, HelpShowsExamples) {
  EXPECT_EQ(parsed("--help").kind, Command::Kind::help);
  EXPECT_NE(help().find("Examples:"), std::string::npos);
}

}  // namespace
}  // namespace zuse::zinject
