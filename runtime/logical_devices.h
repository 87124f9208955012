// Logical devices: a device is a physical one, a part of one (configure_devices), or only described
// (DescribedDevice). For context.cc and for tiers that cache memory of devices.
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
// Returns the part that `device` is; nullopt if devices are whole.
std::optional<LogicalDevice> logical_device(Device device);
// Returns the memory of a part, taken from that of the physical device. Made at first use and never
// destroyed, as tensors may outlive main.
RawMemory& part_memory(const LogicalDevice& part, RawMemory& whole);

// Registers the memory of a whole device that is in use. The host's memory is registered already.
void note_whole_memory(const RawMemory& memory);
// Registers `trim`, which frees the device memory that an allocator caches.
void give_back_with(std::function<void()> trim);

// Describes a device for deviceless (ahead-of-time) planning: during its lifetime the device need
// not exist. Specs, alignment and scratch are those of such a device; allocating memory or running
// a kernel is an error. At most one exists at a time.
class DescribedDevice {
 public:
  // `properties`, if not null, are those of the GPU whose scratch sizes are used. They must exist
  // until the process ends.
  explicit DescribedDevice(Device device, const DeviceProperties* properties = nullptr);
  ~DescribedDevice();
  DescribedDevice(const DescribedDevice&) = delete;
  DescribedDevice& operator=(const DescribedDevice&) = delete;
};
bool is_described(Device device);
// Returns the context of a described device.
Context& planning_context(Device device);

// Returns "DeviceScope("cpu:1")" if a scope is open, or says that another thread has one open; else
// "" (device.cc).
std::string open_device_scope();

}  // namespace tessera
