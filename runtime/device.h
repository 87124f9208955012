// Devices and the scope that chooses one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera {

enum class DeviceKind : unsigned char { cpu, gpu };

// A place where ops run and tensors live. A small value, compared by value.
struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;
  bool operator==(const Device&) const = default;
  bool is_cpu() const { return kind == DeviceKind::cpu; }
  std::string name() const;  // "cpu:0", "gpu:1"
};

// Understands "cpu", "gpu:1", "cuda:1", "/CPU:0", "/GPU:0", in either case. Throws DeviceError on
// any other text.
Device parse_device(std::string_view text);

struct DeviceInfo {
  Device device;
  std::string description;     // model name, or the reason why a GPU cannot be used
  long long memory_bytes = 0;  // total
};

// The devices this process can use: cpu:0 always, GPUs where the build has CUDA and a driver.
std::vector<DeviceInfo> physical_devices();
// Why there is no GPU in physical_devices(), in a sentence; empty when there is one.
std::string why_no_gpu();
// Whether that is because of a driver that does not fit the CUDA toolkit of this build.
bool driver_mismatch();

// Throws DeviceError, listing the devices there are, unless `device` is one of them;
// VersionMismatch for a GPU where driver_mismatch().
void require_device(Device device);

// Ops called while a scope lives run on its device. Scopes nest; the innermost counts; one stack
// for each thread. Without a scope the device is cpu:0.
class DeviceScope {
 public:
  explicit DeviceScope(Device device);  // throws DeviceError when there is no such device
  explicit DeviceScope(std::string_view name) : DeviceScope(parse_device(name)) {}
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  Device outer_;
};

Device current_device();

}  // namespace tessera
