#include "tests/support/fixtures.h"

#include <algorithm>
#include <cstdlib>

namespace zuse::test {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPacked = ".tar.zst";

fs::path fixtures() {
  return fs::path(ZUSE_FIXTURES) / "openzfs";
}

}  // namespace

std::vector<std::string> fixture_names() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(fixtures())) {
    std::string name = entry.path().filename().string();
    if (name.ends_with(kPacked)) {
      name.resize(name.size() - kPacked.size());
      names.push_back(std::move(name));
    }
  }
  std::ranges::sort(names);
  return names;
}

Fixture::Fixture(const std::string& name) {
  std::string pattern = (fs::temp_directory_path() / "zuse-fixture.XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) {
    return;
  }
  directory_ = pattern;
  const std::string command = "zstd -dcq '" + (fixtures() / name).string() + std::string(kPacked) +
                              "' | tar -S -x -C '" + directory_.string() + "'";
  if (std::system(command.c_str()) != 0) {
    fs::remove_all(directory_);
    directory_.clear();
  }
}

Fixture::~Fixture() {
  if (!directory_.empty()) {
    fs::remove_all(directory_);
  }
}

std::vector<fs::path> Fixture::images() const {
  std::vector<fs::path> found;
  if (!directory_.empty()) {
    for (const auto& entry : fs::directory_iterator(directory_)) {
      if (entry.path().extension() == ".img") {
        found.push_back(entry.path());
      }
    }
  }
  std::ranges::sort(found);
  return found;
}

}  // namespace zuse::test
