// Pools made by OpenZFS are the judges: each is imported, walked and compared with its manifest to
// the last attribute, whole and with every allowed set of missing images; the damaged one heals.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "fs/dataset/check.h"
#include "tests/support/manifest.h"
#include "tests/support/pool_fixture.h"
#include "vdev/file_device.h"

namespace zuse {
namespace {

namespace fs = std::filesystem;

// Datasets whose checksum algorithm zuse lacks.
const std::set<std::string> kNotReadable = {"default-raidz1/k-skein", "default-raidz1/k-edonr",
                                            "default-raidz1/k-blake3"};

dataset::DeviceFactory file_factory() {
  return [](const std::string& path, bool read_only) -> Result<std::unique_ptr<vdev::BlockDevice>> {
    ZUSE_TRY(auto device, vdev::FileDevice::open(path, {.read_only = read_only}));
    return device;
  };
}

// A fixture, unpacked into a directory of its own.
class Unpacked {
 public:
  explicit Unpacked(std::string name) : name_(std::move(name)) {
    std::string pattern = fs::temp_directory_path() / "zuse-golden.XXXXXX";
    directory_ = mkdtemp(pattern.data());
    const fs::path base = fs::path(ZUSE_FIXTURES) / "openzfs" / name_;
    run("zstd -dcq '" + base.string() + ".tar.zst' | tar -S -x -C '" + directory_.string() + "'");
    run("zstd -dcq '" + base.string() + ".manifest.tsv.zst' > '" +
        (directory_ / "manifest.tsv").string() + "'");
    std::ifstream file(directory_ / "manifest.tsv");
    for (std::string line; std::getline(file, line);) {
      if (!line.starts_with('#')) {
        manifest_.insert(line);
      }
    }
    fs::remove(directory_ / "manifest.tsv");
  }
  ~Unpacked() { fs::remove_all(directory_); }
  Unpacked(const Unpacked&) = delete;
  Unpacked& operator=(const Unpacked&) = delete;

  const std::string& name() const { return name_; }
  const fs::path& directory() const { return directory_; }
  const std::set<std::string>& manifest() const { return manifest_; }
  std::vector<fs::path> images() const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(directory_)) {
      if (entry.path().extension() == ".img") {
        found.push_back(entry.path());
      }
    }
    std::ranges::sort(found);
    return found;
  }

 private:
  static void run(const std::string& command) {
    const int status = std::system(command.c_str());
    if (status != 0) {
      ADD_FAILURE() << command << " ended with " << WEXITSTATUS(status);
    }
  }

  std::string name_;
  fs::path directory_;
  std::set<std::string> manifest_;
};

Result<std::unique_ptr<dataset::Pool>> import(const Unpacked& fixture, bool read_only) {
  dataset::ImportOptions options;
  options.directories = {fixture.directory().string()};
  options.pool = fixture.name();
  options.read_only = read_only;
  options.force = true;
  return dataset::Pool::import(options, file_factory());
}

// The row of a directory on which a child dataset was mounted when the manifest was made: the
// child's root.
struct MountedOver {
  std::string parent, path;  // where the row stands
  std::string columns;       // after the path; empty: the child cannot be read
};

std::string after_path(const std::string& row) {
  return row.substr(row.find('\t', row.find('\t') + 1));
}

// Every row of every dataset and snapshot that can be read, as they stood with all of them mounted.
void collect(dataset::Pool& pool, std::set<std::string>& all) {
  std::map<std::pair<std::string, std::string>, std::string> rows;  // dataset, path
  std::vector<MountedOver> mounted;
  const auto list = pool.list();
  ASSERT_TRUE(list) << list.error().what();
  for (const dataset::DatasetEntry& entry : *list) {
    const std::string head = entry.name.substr(0, entry.name.find('@'));
    const std::size_t slash = entry.name.rfind('/');
    const std::string parent = slash == std::string::npos ? "" : entry.name.substr(0, slash);
    const std::string last = entry.name.substr(slash + 1);
    const auto above = std::ranges::find(*list, parent, &dataset::DatasetEntry::name);
    const bool below =
        above != list->end() && entry.type == "filesystem" &&
        entry.properties.text("mountpoint") == above->properties.text("mountpoint") + "/" + last;
    if (below && kNotReadable.contains(head)) {
      mounted.push_back({parent, last, ""});
    }
    if (kNotReadable.contains(head)) {
      EXPECT_FALSE(entry.mountable) << entry.name;
      EXPECT_NE(entry.why_not, "") << entry.name;
      continue;
    }
    auto dataset = pool.open_dataset(entry.name);
    ASSERT_TRUE(dataset) << entry.name << ": " << dataset.error().what();
    if (entry.type == "volume" || (*dataset)->objset().type() == format::ObjsetType::zvol) {
      const auto row = test::volume_row(**dataset, entry.name);
      ASSERT_TRUE(row) << entry.name << ": " << row.error().what();
      rows[{entry.name, "-"}] = *row;
      continue;
    }
    auto files = posix::FileSystem::mount(*dataset, {.read_only = true});
    ASSERT_TRUE(files) << entry.name << ": " << files.error().what();
    const auto manifest = test::manifest_of(**files, entry.name);
    ASSERT_TRUE(manifest) << manifest.error().what();
    for (const auto& [path, row] : *manifest) {
      rows[{entry.name, path}] = row;
    }
    if (below) {
      mounted.push_back({parent, last, after_path(manifest->at("."))});
    }
    ASSERT_TRUE((*files)->unmount());
  }
  for (const MountedOver& over : mounted) {
    std::string& row = rows.at({over.parent, over.path});
    row = over.columns.empty() ? "" : over.parent + "\t" + over.path + over.columns;
  }
  for (const auto& [where, row] : rows) {
    if (!row.empty()) {
      all.insert(row);
    }
  }
}

// Rows that cannot be compared: of datasets that cannot be read, and of the directories that they
// were mounted on.
bool not_comparable(const std::string& row) {
  const std::size_t tab = row.find('\t');
  const std::string dataset = row.substr(0, tab);
  const std::string path = row.substr(tab + 1, row.find('\t', tab + 1) - tab - 1);
  return kNotReadable.contains(dataset) || kNotReadable.contains(dataset + "/" + path);
}

void expect_manifest(const Unpacked& fixture, const std::set<std::string>& rows) {
  unsigned shown = 0, compared = 0;
  for (const std::string& row : fixture.manifest()) {
    if (not_comparable(row)) {
      continue;
    }
    ++compared;
    if (!rows.contains(row) && shown++ < 10) {
      ADD_FAILURE() << "missing or different: " << row.substr(0, 400);
    }
  }
  for (const std::string& row : rows) {
    if (!fixture.manifest().contains(row) && shown++ < 20) {
      ADD_FAILURE() << "not in the manifest: " << row.substr(0, 400);
    }
  }
  EXPECT_GT(compared, 100U);
}

struct Fixture {
  const char* name;
  unsigned parity;
};
void PrintTo(const Fixture& fixture, std::ostream* out) {
  *out << fixture.name;
}

class OpenzfsPool : public testing::TestWithParam<Fixture> {};

TEST_P(OpenzfsPool, EqualsItsManifest) {
  const Unpacked fixture(GetParam().name);
  auto pool = import(fixture, true);
  ASSERT_TRUE(pool) << pool.error().what();
  std::set<std::string> rows;
  ASSERT_NO_FATAL_FAILURE(collect(**pool, rows));
  expect_manifest(fixture, rows);
}

TEST_P(OpenzfsPool, ReadingWritesNoByte) {
  const Unpacked fixture(GetParam().name);
  std::map<std::string, fs::file_time_type> before;
  for (const fs::path& image : fixture.images()) {
    fs::permissions(image, fs::perms::owner_read);
    before[image] = fs::last_write_time(image);
  }
  {
    auto pool = import(fixture, true);
    ASSERT_TRUE(pool) << pool.error().what();
    std::set<std::string> rows;
    ASSERT_NO_FATAL_FAILURE(collect(**pool, rows));
  }
  for (const fs::path& image : fixture.images()) {
    EXPECT_EQ(fs::last_write_time(image), before[image]) << image;
  }
}

TEST_P(OpenzfsPool, EqualsItsManifestWithAnyAllowedImagesMissing) {
  const Unpacked fixture(GetParam().name);
  const std::vector<fs::path> images = fixture.images();
  const auto subsets = std::uint64_t{1} << images.size();
  for (std::uint64_t lost = 1; lost < subsets; ++lost) {
    if (static_cast<unsigned>(std::popcount(lost)) > GetParam().parity) {
      continue;
    }
    for (std::size_t i = 0; i < images.size(); ++i) {
      if ((lost >> i & 1) != 0) {
        fs::rename(images[i], images[i].string() + ".away");
      }
    }
    auto pool = import(fixture, true);
    ASSERT_TRUE(pool) << pool.error().what();
    std::set<std::string> rows;
    ASSERT_NO_FATAL_FAILURE(collect(**pool, rows));
    expect_manifest(fixture, rows);
    pool->reset();
    for (std::size_t i = 0; i < images.size(); ++i) {
      if ((lost >> i & 1) != 0) {
        fs::rename(images[i].string() + ".away", images[i]);
      }
    }
    ASSERT_FALSE(HasFailure()) << "images missing: mask " << lost;
  }
}

TEST_P(OpenzfsPool, IsExactAccordingToTheChecker) {
  const Unpacked fixture(GetParam().name);
  dataset::ImportOptions options;
  options.directories = {fixture.directory().string()};
  options.pool = fixture.name();
  const auto checked = dataset::check_pool(options, file_factory());
  ASSERT_TRUE(checked) << checked.error().what();
  EXPECT_EQ(test::describe(*checked), "");
}

TEST_P(OpenzfsPool, StaysWholeWhenZuseWritesToIt) {
  const Unpacked fixture(GetParam().name);
  {
    auto pool = import(fixture, false);
    ASSERT_TRUE(pool) << pool.error().what();
    auto files = test::mount_root(**pool, fixture.name());
    ASSERT_TRUE(files) << files.error().what();
    const posix::Caller caller;
    const auto made = (*files)->make_directory((*files)->root(), "zuse was here", 0755, caller);
    ASSERT_TRUE(made) << made.error().what();
    for (int i = 0; i < 200; ++i) {
      const auto file =
          (*files)->create(made->inode, "f" + std::to_string(i), S_IFREG | 0600, 0, 0, caller);
      ASSERT_TRUE(file) << file.error().what();
      const std::vector<std::byte> data(static_cast<std::size_t>(i) * 997,
                                        static_cast<std::byte>(i));
      ASSERT_TRUE((*files)->write(file->inode, 0, data, caller));
      (*files)->forget(file->inode, 1);
    }
    ASSERT_TRUE((*pool)->sync());
    for (int i = 0; i < 200; ++i) {
      ASSERT_TRUE((*files)->unlink(made->inode, "f" + std::to_string(i), caller));
    }
    ASSERT_TRUE((*files)->remove_directory((*files)->root(), "zuse was here", caller));
    (*files)->forget(made->inode, 1);
    const auto unmounted = (*files)->unmount();
    ASSERT_TRUE(unmounted) << unmounted.error().what();
    files->reset();
    const auto closed = (*pool)->close(true);
    ASSERT_TRUE(closed) << closed.error().what();
  }
  dataset::ImportOptions options;
  options.directories = {fixture.directory().string()};
  options.pool = fixture.name();
  const auto checked = dataset::check_pool(options, file_factory());
  ASSERT_TRUE(checked) << checked.error().what();
  EXPECT_EQ(test::describe(*checked), "");
  // The root directory's own times changed; nothing else did.
  auto pool = import(fixture, true);
  ASSERT_TRUE(pool) << pool.error().what();
  std::set<std::string> rows;
  ASSERT_NO_FATAL_FAILURE(collect(**pool, rows));
  unsigned different = 0;
  for (const std::string& row : fixture.manifest()) {
    different += not_comparable(row) || rows.contains(row) ? 0 : 1;
  }
  EXPECT_LE(different, 1U);
}

INSTANTIATE_TEST_SUITE_P(All, OpenzfsPool,
                         testing::Values(Fixture{"default-raidz1", 1}, Fixture{"grub2-raidz2", 2},
                                         Fixture{"nofeat-raidz2", 2}, Fixture{"v28-raidz2", 2},
                                         Fixture{"v28-raidz3", 3}),
                         [](const testing::TestParamInfo<Fixture>& tested) {
                           std::string name = tested.param.name;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

// One image is left out and another has 64 KiB of random bytes in it.
TEST(DamagedOpenzfsPool, ReadsRightAndHealsByScrub) {
  const Unpacked fixture("heal-raidz2");
  {
    auto pool = import(fixture, false);
    ASSERT_TRUE(pool) << pool.error().what();
    EXPECT_EQ((*pool)->status().state, vdev::VdevState::degraded);
    std::set<std::string> rows;
    ASSERT_NO_FATAL_FAILURE(collect(**pool, rows));
    expect_manifest(fixture, rows);
    const auto started = (*pool)->scrub_start();
    ASSERT_TRUE(started) << started.error().what();
    ASSERT_TRUE((*pool)->scrub_wait());
    EXPECT_EQ((*pool)->scan_status().state, dataset::ScanStatus::State::finished);
    EXPECT_EQ((*pool)->scan_status().errors, 0U);
    EXPECT_TRUE((*pool)->data_errors().empty());
    ASSERT_TRUE((*pool)->scrub_start());
    ASSERT_TRUE((*pool)->scrub_wait());
    EXPECT_EQ((*pool)->scan_status().repaired, 0U) << "a second scrub finds nothing";
    ASSERT_TRUE((*pool)->close(true));
  }
  auto pool = import(fixture, true);
  ASSERT_TRUE(pool) << pool.error().what();
  std::set<std::string> rows;
  ASSERT_NO_FATAL_FAILURE(collect(**pool, rows));
  expect_manifest(fixture, rows);
}

}  // namespace
}  // namespace zuse
