// Files and folders that tests make and leave no trace of.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace zuse::test {

// A new folder under the system's temporary one, removed with its contents at the end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "zuse-test-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) {
      throw std::runtime_error("cannot make " + pattern);
    }
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string path(const std::string& name) const { return (path_ / name).string(); }
  // A sparse file of `size` bytes; answers its path.
  std::string image(const std::string& name, std::uint64_t size) const {
    const std::string file = path(name);
    const int fd = ::open(file.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    const bool made = fd >= 0 && ftruncate(fd, static_cast<off_t>(size)) == 0;
    if (fd >= 0) {
      close(fd);
    }
    if (!made) {
      throw std::runtime_error("cannot make " + file);
    }
    return file;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace zuse::test
