// Power cuts. A workload runs on recording leaves; then, for many moments and for many choices of
// which unflushed writes reached the medium - whole, torn at sectors, or not at all - the leaves
// are put together as the cut left them, the pool is imported, and must be the state at one
// transaction group: nothing that was synced before the cut is missing, every file is what it was
// at some moment of its life, checksums and space maps are exact.
//
// ZUSE_SIM_STATES sets how many states each layout tries (default 400).
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <random>
#include <set>

#include "fs/posix/format.h"
#include "tests/support/pool_fixture.h"
#include "tests/support/seed.h"
#include "vdev/recording_device.h"

namespace zuse {
namespace {

struct Layout {
  const char* name;
  vdev::VdevType type;
  unsigned parity, leaves, ashift;
};
void PrintTo(const Layout& layout, std::ostream* out) {
  *out << layout.name;
}

unsigned states_to_try() {
  const char* const given = std::getenv("ZUSE_SIM_STATES");
  return given != nullptr ? static_cast<unsigned>(std::strtoul(given, nullptr, 0)) : 400;
}

// Hands a memory device's requests on; the image stays with the test.
class Borrowed final : public vdev::BlockDevice {
 public:
  explicit Borrowed(vdev::MemoryDevice& device) : device_(device) {}
  const std::string& name() const override { return device_.name(); }
  std::uint64_t size() const override { return device_.size(); }
  unsigned sector_shift() const override { return device_.sector_shift(); }
  bool read_only() const override { return device_.read_only(); }
  void start(vdev::IoRequest& request, vdev::IoBatch& batch) override {
    device_.start(request, batch);
  }

 private:
  vdev::MemoryDevice& device_;
};

// What the workload promised, and when: `event` is the log's length when the sync returned.
struct Promise {
  std::size_t event = 0;
  std::map<std::string, std::vector<std::byte>> files;
};

class PowerCut : public testing::TestWithParam<Layout> {
 protected:
  static constexpr std::uint64_t kLeafSize = std::uint64_t{64} << 20;

  // Makes a pool, then records a workload on it.
  void record() {
    test::MemoryLeaves made(GetParam().leaves, kLeafSize);
    const auto created =
        test::create_pool(made, "sim", GetParam().type, GetParam().parity, GetParam().ashift);
    ASSERT_TRUE(created) << created.error().what();
    names_ = made.names();
    std::vector<std::unique_ptr<vdev::MemoryDevice>> devices;
    for (const std::string& name : names_) {
      before_.push_back(made.image(name));
      devices.push_back(std::make_unique<vdev::MemoryDevice>(before_.back(), name));
    }
    vdev::EventLog log;
    dataset::ImportOptions options;
    options.directories = names_;
    options.pool = "sim";
    options.force = true;
    const auto factory = [&](const std::string& path,
                             bool) -> Result<std::unique_ptr<vdev::BlockDevice>> {
      const auto index = static_cast<unsigned>(std::ranges::find(names_, path) - names_.begin());
      return std::make_unique<vdev::RecordingDevice>(std::make_unique<Borrowed>(*devices[index]),
                                                     log, index);
    };
    auto pool = dataset::Pool::import(options, factory);
    ASSERT_TRUE(pool) << pool.error().what();
    auto files = test::mount_root(**pool, "sim");
    ASSERT_TRUE(files) << files.error().what();
    workload(**pool, **files, log);
    ASSERT_TRUE((*files)->unmount());
    files->reset();
    ASSERT_TRUE((*pool)->close(true));
    events_ = log.events();
  }

  void workload(dataset::Pool& pool, posix::FileSystem& files, const vdev::EventLog& log) {
    const posix::Caller caller;
    std::map<std::string, std::vector<std::byte>> now;
    for (unsigned step = 0; step < 60; ++step) {
      const std::string name = "f" + std::to_string(random_() % 12);
      const auto action = static_cast<unsigned>(random_() % 10);
      if (action < 7) {
        auto found = files.lookup(files.root(), name);
        if (!found) {
          found = files.create(files.root(), name, S_IFREG | 0644, 0, 0, caller);
        }
        ASSERT_TRUE(found) << found.error().what();
        std::vector<std::byte>& contents = now[name];
        const std::size_t at = contents.empty() ? 0 : random_() % contents.size();
        std::vector<std::byte> data(1 + random_() % 40000);
        for (std::byte& byte : data) {
          byte = static_cast<std::byte>(random_());
        }
        ASSERT_TRUE(files.write(found->inode, at, data, caller));
        contents.resize(std::max(contents.size(), at + data.size()));
        std::ranges::copy(data, contents.begin() + static_cast<std::ptrdiff_t>(at));
        lives_[name].insert(contents);
        files.forget(found->inode, 1);
      } else if (action == 7 && now.contains(name)) {
        ASSERT_TRUE(files.unlink(files.root(), name, caller));
        now.erase(name);
      }
      if (step % 5 == 4) {
        ASSERT_TRUE(pool.sync());
        promises_.push_back({log.size(), now});
      }
    }
  }

  // The pool as one cut left it.
  void examine(std::size_t cut, vdev::CrashState& state, std::uint64_t tearing) {
    test::MemoryLeaves after(GetParam().leaves, kLeafSize);
    for (unsigned d = 0; d < names_.size(); ++d) {
      after.set_image(names_[d], state.image(d, before_[d], tearing));
    }
    ASSERT_EQ(test::check_findings(after, "sim"), "");
    auto pool = test::import_pool(after, "sim", true);
    ASSERT_TRUE(pool) << pool.error().what();
    auto files = test::mount_root(**pool, "sim", true);
    ASSERT_TRUE(files) << files.error().what();
    std::map<std::string, std::vector<std::byte>> found;
    const auto entries = (*files)->read_directory((*files)->root(), 0, 1000);
    ASSERT_TRUE(entries);
    for (const posix::DirectoryEntry& entry : *entries) {
      if (entry.name == "." || entry.name == "..") {
        continue;
      }
      const auto attributes = (*files)->lookup((*files)->root(), entry.name);
      ASSERT_TRUE(attributes) << entry.name << ": " << attributes.error().what();
      std::vector<std::byte> contents(attributes->size);
      if (!contents.empty()) {
        const auto got = (*files)->read(attributes->inode, 0, contents.size());
        ASSERT_TRUE(got) << entry.name << ": " << got.error().what();
        ASSERT_EQ(object::copy_pieces(*got, contents), contents.size());
      }
      (*files)->forget(attributes->inode, 1);
      found[entry.name] = std::move(contents);
    }
    ASSERT_TRUE((*files)->unmount());
    // Each file is as it was at some moment ...
    for (const auto& [name, contents] : found) {
      ASSERT_TRUE(contents.empty() || lives_[name].contains(contents))
          << name << " never was like this";
    }
    // ... and the whole is at or after the last promise. Between two promises the pool may be at
    // any group, so it is compared exactly only where no later promise could have begun.
    const Promise* kept = nullptr;
    for (const Promise& promise : promises_) {
      if (promise.event <= cut) {
        kept = &promise;
      }
    }
    if (kept != nullptr) {
      unsigned changed = 0;
      for (const auto& [name, contents] : kept->files) {
        const auto it = found.find(name);
        changed += it == found.end() || it->second != contents ? 1 : 0;
      }
      // Five steps at most lie between two promises.
      ASSERT_LE(changed, 5U) << "what was fsynced is missing";
    }
  }

  std::mt19937_64 random_{test::seed()};
  const testing::ScopedTrace trace_{__FILE__, __LINE__, test::rerun()};
  std::vector<std::string> names_;
  std::vector<vdev::MemoryImage> before_;
  std::vector<vdev::Event> events_;
  std::vector<Promise> promises_;
  std::map<std::string, std::set<std::vector<std::byte>>> lives_;
};

TEST_P(PowerCut, LeavesAPoolThatIsOneGroupWhole) {
  ASSERT_NO_FATAL_FAILURE(record());
  ASSERT_GT(events_.size(), 100U);
  Xorshift128Plus draw(test::seed());
  const unsigned states = states_to_try();
  for (unsigned i = 0; i < states; ++i) {
    const std::size_t cut = draw.bounded(events_.size() + 1);
    vdev::CrashState state(events_, cut);
    state.choose(draw);
    ASSERT_NO_FATAL_FAILURE(examine(cut, state, draw()))
        << "state " << i << ", cut at event " << cut;
    if (i % 1000 == 999) {
      std::cout << "  " << i + 1 << " states of " << GetParam().name << "\n";
    }
  }
  std::cout << "  " << states << " crash states, " << events_.size() << " events\n";
}

INSTANTIATE_TEST_SUITE_P(All, PowerCut,
                         testing::Values(Layout{"single", vdev::VdevType::file, 0, 1, 9},
                                         Layout{"mirror", vdev::VdevType::mirror, 0, 2, 12},
                                         Layout{"raidz1", vdev::VdevType::raidz, 1, 3, 9},
                                         Layout{"raidz2", vdev::VdevType::raidz, 2, 4, 12}),
                         [](const testing::TestParamInfo<Layout>& tested) {
                           return std::string(tested.param.name);
                         });

}  // namespace
}  // namespace zuse
