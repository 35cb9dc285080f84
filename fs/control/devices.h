// The devices under a pool that this process opens: image files and disks, each behind a fault
// decorator that asks the pool's injection engine.
#pragma once

#include <memory>

#include "fs/dataset/pool.h"
#include "vdev/fault_device.h"

namespace zuse::control {

// Plain devices, for looking at pools from outside (import lists, check, labelclear).
dataset::DeviceFactory plain_devices();

// Devices whose faults `injector` decides. A device is known to it by the guid in its label.
// `injector` outlives the devices.
dataset::DeviceFactory injected_devices(vdev::FaultInjector& injector);

}  // namespace zuse::control
