#include "tests/support/pool_fixture.h"

#include "fs/posix/format.h"

namespace zuse::test {
namespace {

// A memory device whose image goes back to its place when it is closed.
class KeptDevice final : public vdev::BlockDevice {
 public:
  KeptDevice(std::shared_ptr<vdev::MemoryImage> place, const std::string& name, bool read_only)
      : place_(std::move(place)), device_(*place_, name, 9, read_only) {}
  ~KeptDevice() override {
    if (!device_.read_only()) {
      *place_ = device_.image();
    }
  }
  const std::string& name() const override { return device_.name(); }
  std::uint64_t size() const override { return device_.size(); }
  unsigned sector_shift() const override { return device_.sector_shift(); }
  bool read_only() const override { return device_.read_only(); }
  void start(vdev::IoRequest& request, vdev::IoBatch& batch) override {
    device_.start(request, batch);
  }

 private:
  std::shared_ptr<vdev::MemoryImage> place_;
  vdev::MemoryDevice device_;
};

}  // namespace

MemoryLeaves::MemoryLeaves(unsigned count, std::uint64_t size) {
  for (unsigned i = 0; i < count; ++i) {
    images_["d" + std::to_string(i)] = std::make_shared<vdev::MemoryImage>(size);
  }
}

std::vector<std::string> MemoryLeaves::names() const {
  std::vector<std::string> names;
  for (const auto& [name, image] : images_) {
    names.push_back(name);
  }
  return names;
}

dataset::DeviceFactory MemoryLeaves::factory() {
  return [this](const std::string& path,
                bool read_only) -> Result<std::unique_ptr<vdev::BlockDevice>> {
    const auto it = images_.find(path);
    if (it == images_.end()) {
      return fail(Errc::not_found, path + " does not exist");
    }
    return std::make_unique<KeptDevice>(it->second, path, read_only);
  };
}

Result<void> create_pool(MemoryLeaves& leaves, const std::string& name, vdev::VdevType type,
                         unsigned parity, unsigned ashift,
                         const std::map<std::string, std::string>& properties) {
  dataset::CreateOptions options;
  options.name = name;
  options.ashift = ashift;
  options.properties = properties;
  options.vdevs.push_back({type, parity, leaves.names()});
  options.format_root = [](object::Objset& objset, object::Tx& tx) {
    return posix::format_file_system(objset, tx);
  };
  return dataset::Pool::create(options, leaves.factory());
}

Result<std::unique_ptr<dataset::Pool>> import_pool(MemoryLeaves& leaves, const std::string& name,
                                                   bool read_only) {
  dataset::ImportOptions options;
  options.directories = leaves.names();
  options.pool = name;
  options.read_only = read_only;
  options.force = true;
  return dataset::Pool::import(options, leaves.factory());
}

Result<std::unique_ptr<posix::FileSystem>> mount_root(dataset::Pool& pool, const std::string& name,
                                                      bool read_only) {
  ZUSE_TRY(auto dataset, pool.open_dataset(name));
  posix::MountOptions options;
  options.read_only = read_only;
  return posix::FileSystem::mount(std::move(dataset), options);
}

std::string describe(const dataset::CheckedPool& checked) {
  std::string text;
  for (const pool::CheckFinding& finding : checked.report.findings) {
    text += std::string(to_string(finding.problem)) + ": " + finding.what + "\n";
  }
  for (const std::string& sentence : checked.accounting) {
    text += sentence + "\n";
  }
  return text;
}

std::string check_findings(MemoryLeaves& leaves, const std::string& name) {
  dataset::ImportOptions options;
  options.directories = leaves.names();
  options.pool = name;
  options.force = true;
  const auto checked = dataset::check_pool(options, leaves.factory());
  return checked ? describe(*checked) : checked.error().what();
}

}  // namespace zuse::test
