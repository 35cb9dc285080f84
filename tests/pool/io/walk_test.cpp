#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "fs/pool/check.h"
#include "fs/pool/label.h"
#include "fs/pool/scan.h"
#include "fs/pool/traverse.h"
#include "tests/pool/io/rig.h"
#include "tests/support/seed.h"

namespace zuse::pool {
namespace {

using vdev::VdevType;

const std::vector<TopSpec> kMirror{{VdevType::mirror, 2, 0, 9}};
const std::vector<TopSpec> kRaidz{{VdevType::raidz, 4, 1, 9}};

class WalkTest : public testing::Test {
 protected:
  std::mt19937_64 rng_{test::seed()};
  const testing::ScopedTrace trace_{__FILE__, __LINE__, test::rerun()};
};

std::vector<Bookmark> walk(Rig& rig, const BuiltObjset& built, const TraverseOptions& options,
                           std::vector<std::string>* errors = nullptr) {
  std::vector<Bookmark> seen;
  TraverseCalls calls;
  calls.visit = [&](const format::Blkptr&, const Bookmark& at, BlockKind) -> Result<void> {
    seen.push_back(at);
    return {};
  };
  calls.error = [&](const Bookmark& at, const Error& error) {
    if (errors != nullptr) {
      errors->push_back(std::to_string(at.object) + ": " + error.what());
    } else {
      ADD_FAILURE() << error.what();
    }
  };
  EXPECT_TRUE(
      traverse(rig.pipeline(), built.blocks[0].bookmark.objset, built.root, options, calls));
  return seen;
}

TraverseOptions with_births(std::uint64_t min, std::uint64_t max) {
  TraverseOptions options;
  options.min_birth = min;
  options.max_birth = max;
  return options;
}

std::vector<Bookmark> bookmarks_of(const BuiltObjset& built) {
  std::vector<Bookmark> all;
  for (const PlacedBlock& block : built.blocks) {
    all.push_back(block.bookmark);
  }
  return all;
}

TEST_F(WalkTest, VisitsEveryBlockOnceParentsFirst) {
  Rig rig(kMirror);
  rig.pipeline().set_features({.embedded_data = true});
  const BuiltObjset built = build_objset(rig, rng_, 21, 4);
  ASSERT_GT(built.blocks.size(), 500U);
  const std::vector<Bookmark> seen = walk(rig, built, {});
  const std::vector<Bookmark> expected = bookmarks_of(built);
  ASSERT_EQ(seen.size(), expected.size());
  for (std::size_t i = 0; i < seen.size(); ++i) {
    ASSERT_EQ(seen[i], expected[i])
        << i << ": " << seen[i].object << "/" << seen[i].level << "/" << seen[i].block;
  }
}

TEST_F(WalkTest, GoesOnFromAnyBlock) {
  Rig rig(kMirror);
  const BuiltObjset built = build_objset(rig, rng_, 21, 4);
  const std::vector<Bookmark> all = bookmarks_of(built);
  for (std::size_t from = 0; from < all.size(); from += 1 + rng_() % 20) {
    TraverseOptions options;
    options.resume = all[from];
    const std::vector<Bookmark> seen = walk(rig, built, options);
    const std::vector<Bookmark> rest(all.begin() + static_cast<std::ptrdiff_t>(from), all.end());
    ASSERT_EQ(seen, rest) << "from " << all[from].object << "/" << all[from].level << "/"
                          << all[from].block;
  }
}

TEST_F(WalkTest, PassesByWhatIsTooOldOrTooYoung) {
  Rig rig(kMirror);
  const BuiltObjset built = build_objset(rig, rng_, 21, 6);
  EXPECT_TRUE(walk(rig, built, with_births(6, ~std::uint64_t{0})).empty());
  EXPECT_EQ(walk(rig, built, with_births(5, ~std::uint64_t{0})).size(), built.blocks.size());
  EXPECT_TRUE(walk(rig, built, with_births(0, 5)).empty());
}

TEST_F(WalkTest, ReportsALostBlockAndWalksAllTheRest) {
  Rig rig(kPlain);
  const BuiltObjset built = build_objset(rig, rng_, 21, 4);
  rig.storage().cache().drop();
  // An L1 block of the dnodes: all objects below it are out of reach, no others.
  const auto lost = std::ranges::find_if(built.blocks, [](const PlacedBlock& block) {
    return block.bookmark.object == 0 && block.bookmark.level == 1 && block.bookmark.block == 0;
  });
  ASSERT_NE(lost, built.blocks.end());
  const std::vector<std::byte> noise(512, std::byte{0x5a});
  for (unsigned d = 0; d < lost->blkptr.copies(); ++d) {
    ASSERT_TRUE(rig.leaf(0, 0).write(kLeafDataOffset + lost->blkptr.dva[d].offset, noise));
  }
  std::vector<std::string> errors;
  const std::vector<Bookmark> seen = walk(rig, built, {}, &errors);
  EXPECT_EQ(errors.size(), 1U);
  std::vector<Bookmark> expected;
  for (const Bookmark& at : bookmarks_of(built)) {
    const bool special = at.object > (std::uint64_t{1} << 60);
    const bool below =
        at.object == 0 ? at.level == 0 && at.block < 8 : at.object < 8 * 32 && !special;
    if (!below) {
      expected.push_back(at);
    }
  }
  EXPECT_EQ(seen, expected);
}

ScanHooks hooks_for(const std::vector<ScanRoot>& roots) {
  ScanHooks hooks;
  hooks.roots = [roots]() -> Result<std::vector<ScanRoot>> { return roots; };
  hooks.now = [] { return std::uint64_t{1700000000}; };
  return hooks;
}

TEST_F(WalkTest, AScrubRepairsEverythingThatOneLostLeafHeld) {
  for (const auto& shape : {kMirror, kRaidz}) {
    Rig rig(shape);
    const BuiltObjset one = build_objset(rig, rng_, 0, 4);
    const BuiltObjset two = build_objset(rig, rng_, 21, 5);
    rig.storage().cache().drop();
    rig.scribble(0, 1, rng_());
    Scan scan(rig.pipeline(), hooks_for({{21, two.root, 0}, {0, one.root, 0}}));
    ASSERT_TRUE(scan.start(format::ScanFunction::scrub, 6, 1000));
    EXPECT_EQ(scan.start(format::ScanFunction::scrub, 6, 1000).error().code(), Errc::busy);
    ASSERT_TRUE(scan.wait());
    const format::ScanPhys state = scan.state();
    EXPECT_EQ(state.state, format::ScanState::finished);
    EXPECT_EQ(state.errors, 0U);
    EXPECT_GT(state.processed, 0U);
    EXPECT_EQ(state.to_examine, state.examined);
    std::uint64_t asize = 0;
    for (const BuiltObjset* built : {&one, &two}) {
      for (const PlacedBlock& block : built->blocks) {
        for (const format::Dva& dva : block.blkptr.dva) {
          asize += dva.asize;
        }
      }
    }
    EXPECT_EQ(state.examined, asize);
    // Now the other leaf may go.
    rig.scribble(0, 0, rng_());
    rig.storage().cache().drop();
    EXPECT_EQ(walk(rig, two, {}).size(), two.blocks.size());
    EXPECT_EQ(walk(rig, one, {}).size(), one.blocks.size());
  }
}

TEST_F(WalkTest, AScrubOfAHealthyPoolFindsNothing) {
  Rig rig(kRaidz);
  const BuiltObjset built = build_objset(rig, rng_, 0, 4);
  Scan scan(rig.pipeline(), hooks_for({{0, built.root, 0}}));
  ASSERT_TRUE(scan.start(format::ScanFunction::scrub, 5, 0));
  ASSERT_TRUE(scan.wait());
  EXPECT_EQ(scan.state().processed, 0U);
  EXPECT_EQ(scan.state().errors, 0U);
  EXPECT_EQ(rig.stats().checksum_errors, 0U);
}

TEST_F(WalkTest, AScrubCutIntoSlicesAndImportsSeesEveryBlockOnce) {
  Rig rig(kMirror);
  const BuiltObjset one = build_objset(rig, rng_, 0, 4);
  const BuiltObjset two = build_objset(rig, rng_, 21, 4);
  std::uint64_t asize = 0;
  for (const BuiltObjset* built : {&one, &two}) {
    for (const PlacedBlock& block : built->blocks) {
      for (const format::Dva& dva : block.blkptr.dva) {
        asize += dva.asize;
      }
    }
  }
  ScanOptions options;
  options.slice = std::chrono::milliseconds(0);  // one block a slice
  options.batch_bytes = 1;
  format::ScanPhys state;
  unsigned lives = 0;
  while (state.state != format::ScanState::finished) {
    ASSERT_LT(++lives, 10000U);
    Scan scan(rig.pipeline(), hooks_for({{0, one.root, 0}, {21, two.root, 0}}), options);
    if (lives == 1) {
      ASSERT_TRUE(scan.start(format::ScanFunction::scrub, 5, 0));
    } else {
      scan.load(state);
    }
    const std::uint64_t target = scan.generation() + rng_() % 200;
    while (scan.generation() < target && scan.running()) {
      std::this_thread::yield();
    }
    if (rng_() % 2 == 0 && scan.pause()) {
      ASSERT_TRUE(scan.wait());
      EXPECT_FALSE(scan.running());
      ASSERT_TRUE(scan.start(format::ScanFunction::scrub, 5, 0));
    }
    scan.shut_down();
    state = scan.state();
  }
  EXPECT_EQ(state.examined, asize);
  EXPECT_EQ(state.errors, 0U);
}

TEST_F(WalkTest, AScrubListsWhatIsLostAndTheNextForgetsWhatIsWellAgain) {
  Rig rig(kPlain);
  const BuiltObjset built = build_objset(rig, rng_, 33, 4);
  std::vector<PlacedBlock> data;
  for (const PlacedBlock& block : built.blocks) {
    if (block.bookmark.level == 0 && !block.blkptr.embedded && block.blkptr.copies() == 1) {
      data.push_back(block);
    }
  }
  const PlacedBlock& lost = data[rng_() % data.size()];
  const std::uint64_t at = kLeafDataOffset + lost.blkptr.dva[0].offset;
  std::vector<std::byte> good(512);
  ASSERT_TRUE(rig.leaf(0, 0).read(at, good));
  ASSERT_TRUE(rig.leaf(0, 0).write(at, std::vector<std::byte>(512, std::byte{0x11})));
  Scan scan(rig.pipeline(), hooks_for({{33, built.root, 0}}));
  ASSERT_TRUE(scan.start(format::ScanFunction::scrub, 5, 0));
  ASSERT_TRUE(scan.wait());
  EXPECT_EQ(scan.state().errors, 1U);
  EXPECT_EQ(rig.pipeline().error_log().list(), (std::vector<BlockError>{{lost.bookmark, 4}}));
  ASSERT_TRUE(rig.leaf(0, 0).write(at, good));
  ASSERT_TRUE(scan.start(format::ScanFunction::scrub, 5, 0));
  ASSERT_TRUE(scan.wait());
  EXPECT_EQ(scan.state().errors, 0U);
  EXPECT_TRUE(rig.pipeline().error_log().list().empty());
}

TEST_F(WalkTest, AStoppedScrubIsCanceled) {
  Rig rig(kMirror);
  const BuiltObjset built = build_objset(rig, rng_, 0, 4);
  ScanOptions options;
  options.slice = std::chrono::milliseconds(0);
  Scan scan(rig.pipeline(), hooks_for({{0, built.root, 0}}), options);
  EXPECT_EQ(scan.stop().error().code(), Errc::not_found);
  ASSERT_TRUE(scan.start(format::ScanFunction::scrub, 5, 0));
  ASSERT_TRUE(scan.stop());
  ASSERT_TRUE(scan.wait());
  EXPECT_EQ(scan.state().state, format::ScanState::canceled);
}

std::vector<RangeSet> maps_of(Rig& rig) {
  Allocator& allocator = rig.storage().allocator();
  (void)allocator.take_changes(4);
  std::vector<RangeSet> maps(allocator.top_count());
  for (unsigned t = 0; t < allocator.top_count(); ++t) {
    for (std::uint64_t m = 0; m < allocator.metaslab_count(t); ++m) {
      for (const Range& range : allocator.map_contents(t, m)) {
        maps[t].add(range);
      }
    }
  }
  return maps;
}

TEST_F(WalkTest, TheCheckerAgreesWithASoundPool) {
  Rig rig(kRaidz);
  rig.pipeline().set_features({.embedded_data = true});
  const BuiltObjset one = build_objset(rig, rng_, 0, 4);
  const BuiltObjset two = build_objset(rig, rng_, 21, 4);
  const auto report =
      check_pool(rig.pipeline(), {{{0, one.root, 0}}, {{21, two.root, 0}}}, {}, maps_of(rig), {});
  ASSERT_TRUE(report);
  for (const CheckFinding& finding : report->findings) {
    ADD_FAILURE() << to_string(finding.problem) << ": " << finding.what;
  }
  EXPECT_TRUE(report->clean());
  EXPECT_EQ(report->allocated, report->claimed);
  EXPECT_EQ(report->all.asize, report->claimed);
  EXPECT_EQ(report->all.blocks, one.blocks.size() + two.blocks.size());
  EXPECT_EQ(report->objects, one.objects + two.objects);
}

TEST_F(WalkTest, TheCheckerFindsEachKindOfDamage) {
  Rig rig(kMirror);
  const BuiltObjset built = build_objset(rig, rng_, 21, 4);
  const std::vector<std::byte> data = some_data(rng_, 4096);
  WriteProperties properties;
  properties.type = format::ObjectType::plain_file;
  const format::Blkptr stray = rig.write(data, properties);
  std::vector<RangeSet> maps = maps_of(rig);
  const std::vector<CheckRoot> roots{{{21, built.root, 0}}};

  const auto leak = check_pool(rig.pipeline(), roots, {}, maps, {});
  ASSERT_TRUE(leak);
  EXPECT_EQ(leak->counts, (std::map<CheckProblem, std::uint64_t>{{CheckProblem::leaked, 1}}));
  EXPECT_EQ(leak->allocated - leak->claimed, 4096U);

  const auto twice = check_pool(rig.pipeline(), roots, {{stray, {}}, {stray, {}}}, maps, {});
  ASSERT_TRUE(twice);
  EXPECT_EQ(twice->counts,
            (std::map<CheckProblem, std::uint64_t>{{CheckProblem::claimed_twice, 1}}));

  maps[0].remove({stray.dva[0].offset, 512});
  const auto unallocated = check_pool(rig.pipeline(), roots, {{stray, {}}}, maps, {});
  ASSERT_TRUE(unallocated);
  EXPECT_EQ(unallocated->counts,
            (std::map<CheckProblem, std::uint64_t>{{CheckProblem::not_allocated, 1}}));
  maps[0].add({stray.dva[0].offset, 512});

  // What waits to be freed is nobody's data: its contents are not looked at.
  const std::uint64_t at = kLeafDataOffset + stray.dva[0].offset;
  ASSERT_TRUE(rig.leaf(0, 1).write(at, std::vector<std::byte>(512, std::byte{1})));
  ASSERT_TRUE(rig.leaf(0, 0).write(at, std::vector<std::byte>(512, std::byte{2})));
  const auto waiting = check_pool(rig.pipeline(), roots, {{stray, {}}}, maps, {});
  ASSERT_TRUE(waiting);
  EXPECT_TRUE(waiting->counts.empty());
  std::vector<std::byte> after(512);
  ASSERT_TRUE(rig.leaf(0, 1).read(at, after));
  EXPECT_EQ(after[0], std::byte{1}) << "a check changes nothing";

  format::Blkptr nonsense = stray;
  nonsense.dva[0].vdev = 77;
  const auto bad = check_pool(rig.pipeline(), roots, {{nonsense, {}}}, maps, {});
  ASSERT_TRUE(bad);
  EXPECT_EQ(bad->count(CheckProblem::bad_pointer), 1U);
}

}  // namespace
}  // namespace zuse::pool
