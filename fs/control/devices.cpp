// Opening the devices of a pool.
#include "fs/control/devices.h"

#include "fs/pool/config.h"
#include "fs/pool/label.h"
#include "vdev/file_device.h"

namespace zuse::control {
namespace {

// The guid that the label gives its leaf; 0 where there is no label yet.
std::uint64_t leaf_guid(vdev::BlockDevice& device) {
  const auto labels = pool::read_labels(device);
  if (!labels) {
    return 0;
  }
  const auto config = pool::decode_label_config(labels->config());
  return config ? config->guid : 0;
}

}  // namespace

dataset::DeviceFactory plain_devices() {
  return [](const std::string& path, bool read_only) -> Result<std::unique_ptr<vdev::BlockDevice>> {
    vdev::FileDeviceOptions options;
    options.read_only = read_only;
    ZUSE_TRY(auto file, vdev::FileDevice::open(path, options));
    return std::unique_ptr<vdev::BlockDevice>(std::move(file));
  };
}

dataset::DeviceFactory injected_devices(vdev::FaultInjector& injector) {
  return
      [&injector, plain = plain_devices()](
          const std::string& path, bool read_only) -> Result<std::unique_ptr<vdev::BlockDevice>> {
        ZUSE_TRY(auto device, plain(path, read_only));
        const std::uint64_t guid = leaf_guid(*device);
        if (injector.refuses_open(guid)) {
          return fail(Errc::gone, "'" + path + "' does not answer (a fault is injected there)");
        }
        return std::unique_ptr<vdev::BlockDevice>(
            std::make_unique<vdev::FaultDevice>(std::move(device), injector, guid));
      };
}

}  // namespace zuse::control
