// What stands behind a device: the physical one, or a part of it (configure_devices), or nothing
// yet (DescribedDevice). For context.cc and for floors that hold memory of devices in reserve.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "tessera/runtime/device.h"

namespace tessera {

class Context;
class RawMemory;
struct DeviceProperties;  // cuda/device_properties.h

struct LogicalDevice {
  Device device, physical;
  size_t limit = SIZE_MAX;
  int part = 0, parts = 1;
};
// The part that the device is; none where devices are whole.
std::optional<LogicalDevice> logical_device(Device device);
// Memory of a part, over that of the physical device; made at first use and never destroyed, as
// tensors may outlive main.
RawMemory& part_memory(const LogicalDevice& part, RawMemory& whole);

// Memory of a whole device that was handed out, the host's aside, which is known.
void note_whole_memory(const RawMemory& memory);
// `trim` gives back what an allocator keeps of the device's memory for later.
void give_back_with(std::function<void()> trim);

// While it lives, the device can be planned for, whether it is there or not: specs, alignment and
// scratch are those of such a device, and asking for memory or a kernel is an error. One at a time.
class DescribedDevice {
 public:
  // `facts`, which must outlive everything, of a GPU where they are known: its kernels' scratch is
  // that of such a GPU.
  explicit DescribedDevice(Device device, const DeviceProperties* properties = nullptr);
  ~DescribedDevice();
  DescribedDevice(const DescribedDevice&) = delete;
  DescribedDevice& operator=(const DescribedDevice&) = delete;
};
bool is_described(Device device);
// The context of a described device.
Context& planning_context(Device device);

// "DeviceScope("cpu:1")", or that it is another thread's, while one is open; else empty
// (device.cc).
std::string open_device_scope();

}  // namespace tessera
