// A pool in memory, for tests of whole pools: devices whose images outlive the pools that use them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fs/dataset/check.h"
#include "fs/dataset/pool.h"
#include "fs/posix/file_system.h"
#include "vdev/memory_device.h"

namespace zuse::test {

// Leaves by name: "d0", "d1" ... A device that is opened for writing keeps its bytes here when it
// closes.
class MemoryLeaves {
 public:
  MemoryLeaves(unsigned count, std::uint64_t size);

  std::vector<std::string> names() const;
  // Names are places: each must be given. A missing leaf answers not_found.
  dataset::DeviceFactory factory();
  void remove(const std::string& name) {
    missing_[name] = std::move(images_[name]);
    images_.erase(name);
  }
  void restore(const std::string& name) {
    images_[name] = std::move(missing_[name]);
    missing_.erase(name);
  }
  vdev::MemoryImage image(const std::string& name) const { return *images_.at(name); }
  void set_image(const std::string& name, const vdev::MemoryImage& image) {
    *images_.at(name) = image;
  }

 private:
  std::map<std::string, std::shared_ptr<vdev::MemoryImage>> images_, missing_;
};

// "raidz2" over all leaves, mirror, or single ones. `pool` is left exported.
Result<void> create_pool(MemoryLeaves& leaves, const std::string& name, vdev::VdevType type,
                         unsigned parity, unsigned ashift = 12,
                         const std::map<std::string, std::string>& properties = {});
Result<std::unique_ptr<dataset::Pool>> import_pool(MemoryLeaves& leaves, const std::string& name,
                                                   bool read_only = false);
Result<std::unique_ptr<posix::FileSystem>> mount_root(dataset::Pool& pool, const std::string& name,
                                                      bool read_only = false);
// Empty: the pool is exact. Otherwise every finding, a line each.
std::string check_findings(MemoryLeaves& leaves, const std::string& name);
std::string describe(const dataset::CheckedPool& checked);

}  // namespace zuse::test
