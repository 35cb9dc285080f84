// Pools made by OpenZFS, packed under tests/fixtures/openzfs: unpacked for one test, gone after it.
// Unpacking needs tar and zstd on the path.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace zuse::test {

// Every fixture there is, by name ("v28-raidz2"), sorted.
std::vector<std::string> fixture_names();

// The images of one fixture in a temporary directory.
class Fixture {
 public:
  explicit Fixture(const std::string& name);
  ~Fixture();
  Fixture(const Fixture&) = delete;
  Fixture& operator=(const Fixture&) = delete;

  const std::filesystem::path& directory() const noexcept { return directory_; }
  // d0.img, d1.img, ... as far as they are there; sorted. Empty: unpacking failed.
  std::vector<std::filesystem::path> images() const;

 private:
  std::filesystem::path directory_;
};

}  // namespace zuse::test
