// Device, the list of devices, and DeviceScope, which selects one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// Marks a function of a header that GPU kernels also call. Empty unless nvcc compiles.
#if defined(__CUDACC__)
#define TESSERA_HOST_DEVICE __host__ __device__
#else
#define TESSERA_HOST_DEVICE
#endif

namespace tessera {

enum class DeviceKind : unsigned char { cpu, gpu };

// A device on which ops run and tensors are stored. A small value, compared by value.
struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;
  bool operator==(const Device&) const = default;
  constexpr bool is_cpu() const { return kind == DeviceKind::cpu; }
  std::string name() const;  // "cpu:0", "gpu:1"
};

// Parses "cpu", "gpu:1", "cuda:1", "/CPU:0", "/GPU:0", in either case. Throws DeviceError for any
// other text.
Device parse_device(std::string_view text);

struct DeviceInfo {
  Device device;
  std::string description;     // model name, or the reason why a GPU cannot be used
  long long memory_bytes = 0;  // total
  std::string bus = {};        // PCI address of a GPU: "0000:3B:00.0"
};

std::string cpu_description();  // model of the processor, without a driver call
// Returns the devices that this process can use: cpu:0 always, GPUs if the build has CUDA and there
// is a driver.
std::vector<DeviceInfo> physical_devices();
// Returns a sentence that says why physical_devices() has no GPU; empty if it has one.
std::string why_no_gpu();
// Returns true if the reason is a driver that does not fit the CUDA toolkit of this build.
bool driver_mismatch();

// A physical device divided into logical ones of the same kind. Each part has its own memory limit
// and eager allocator; all parts share the threads, or the GPU, of the whole.
struct DeviceParts {
  std::string device;               // "cpu:0"
  int parts = 1;                    // how many
  size_t bytes_each = SIZE_MAX;     // limit of live bytes of a part; SIZE_MAX: no limit
  std::vector<size_t> limits = {};  // one for each part, instead of parts and bytes_each
};
// Divides devices into these parts, numbered per kind in the order given:
// configure_devices({{"cpu:0", 2, size_t{512} << 20}}) makes cpu:0 and cpu:1. Devices that are not
// named stay whole and come first for their kind. {} makes all devices whole again. Frees cached
// memory first. Throws DeviceError, naming the cause, if any tensor exists or a DeviceScope is open
// in any thread. Steps compiled before this call must not be run after it.
void configure_devices(const std::vector<DeviceParts>& parts);
// Returns the devices that DeviceScope accepts: the physical devices, or their parts.
std::vector<DeviceInfo> logical_devices();

// Throws DeviceError, listing the devices, unless `device` is one of logical_devices(); throws
// VersionMismatch for a GPU if driver_mismatch().
void require_device(Device device);

// Selects the device of ops that this thread calls during the scope. Scopes nest. Without a scope
// the device is cpu:0.
class DeviceScope {
 public:
  explicit DeviceScope(Device device);  // throws DeviceError if there is no such device
  explicit DeviceScope(std::string_view name) : DeviceScope(parse_device(name)) {}
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  Device outer_;
};

Device current_device();

}  // namespace tessera
