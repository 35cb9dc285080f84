// Many threads at work on one object set while its groups go to disk.
#include <atomic>
#include <cstring>
#include <thread>

#include "fs/pool/txg.h"
#include "tests/object/fixture.h"

namespace zuse::test {
namespace {

using object::DnodeRef;
using object::Objset;
using object::Tx;

class ObjsetThreadsTest : public ObjsetTest {};

TEST_F(ObjsetThreadsTest, WritersReadersAndTheSyncGetAlong) {
  constexpr unsigned kWriters = 4;
  constexpr std::uint64_t kRegion = 40'000;  // bytes of the shared file a writer, odd on purpose
  std::unique_ptr<Objset> objset = create();
  pool::TxgManager txgs(3, {.interval = std::chrono::milliseconds(3)},
                        [&](std::uint64_t txg) -> Result<void> {
                          auto root = objset->sync(txg, 1);
                          if (!root) {
                            return std::unexpected(root.error());
                          }
                          store_.release(txg - std::min<std::uint64_t>(txg, 2));
                          return {};
                        });
  DnodeRef shared;
  {
    auto hold = txgs.hold();
    ASSERT_OK(hold);
    Tx tx(std::move(*hold));
    auto made = objset->allocate(tx, kFile);
    ASSERT_OK(made);
    shared = *made;
  }
  std::vector<std::vector<std::byte>> regions(kWriters, std::vector<std::byte>(kRegion));
  std::vector<std::map<std::uint64_t, std::vector<std::byte>>> files(kWriters);
  std::atomic<bool> stop{false};
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (unsigned w = 0; w < kWriters; ++w) {
    threads.emplace_back([&, w] {
      std::mt19937_64 rng(seed_ + w);
      const auto check = [&](bool ok) {
        if (!ok) {
          ++failures;
        }
        return ok;
      };
      for (int step = 0; step < 400 && failures == 0; ++step) {
        auto hold = txgs.hold();
        if (!check(hold.has_value())) {
          return;
        }
        Tx tx(std::move(*hold));
        // A piece of this writer's own region of the shared file.
        const std::uint64_t at = rng() % (kRegion - 1);
        const auto bytes = pattern(rng, 1 + rng() % std::min<std::uint64_t>(9000, kRegion - at));
        check(shared->write(tx, w * kRegion + at, bytes).has_value());
        std::memcpy(regions[w].data() + at, bytes.data(), bytes.size());
        // A file of its own.
        const auto contents = pattern(rng, 1 + rng() % 20'000);
        if (files[w].size() < 20 || rng() % 2 == 0) {
          auto file = objset->allocate(tx, kFile);
          if (!check(file.has_value())) {
            return;
          }
          check((*file)->write(tx, 0, contents).has_value());
          check(files[w].emplace((*file)->object(), contents).second);
        } else {
          auto it = files[w].begin();
          std::advance(it, static_cast<std::ptrdiff_t>(rng() % files[w].size()));
          auto file = objset->hold(it->first);
          if (!check(file.has_value())) {
            return;
          }
          std::vector<std::byte> read(it->second.size());
          check((*file)->read(0, read).has_value());
          check(read == it->second);
          if (rng() % 3 == 0) {
            check(objset->free_object(tx, it->first).has_value());
            files[w].erase(it);
          } else {
            check((*file)->free_range(tx, 0, object::kToEnd).has_value());
            check((*file)->write(tx, 0, contents).has_value());
            it->second = contents;
          }
        }
        std::vector<std::byte> read(kRegion);
        check(shared->read(w * kRegion, read).has_value());
        check(read == regions[w]);
      }
    });
  }
  std::thread walker([&] {
    while (!stop) {
      for (auto next = objset->next_object(0); next && !stop; next = objset->next_object(*next)) {
        auto dnode = objset->hold(*next);
        if (!dnode && dnode.error().code() != Errc::not_found) {
          ++failures;
        }
      }
    }
  });
  for (std::thread& thread : threads) {
    thread.join();
  }
  stop = true;
  walker.join();
  ASSERT_OK(txgs.stop());
  EXPECT_EQ(failures, 0);

  const Walked walked = check(objset->root());
  auto again = Objset::open(context(true), objset->root());
  ASSERT_OK(again);
  auto held = (*again)->hold(shared->object());
  ASSERT_OK(held);
  std::size_t count = 1;
  for (unsigned w = 0; w < kWriters; ++w) {
    std::vector<std::byte> read(kRegion);
    ASSERT_OK((*held)->read(w * kRegion, read));
    EXPECT_EQ(read, regions[w]) << "writer " << w;
    for (const auto& [number, contents] : files[w]) {
      auto file = (*again)->hold(number);
      ASSERT_OK(file);
      std::vector<std::byte> bytes(contents.size());
      ASSERT_OK((*file)->read(0, bytes));
      EXPECT_EQ(bytes, contents);
    }
    count += files[w].size();
  }
  EXPECT_EQ(walked.dnodes.size(), count);
}

}  // namespace
}  // namespace zuse::test
