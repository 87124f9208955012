// Devices and the scope that chooses one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// In front of a function of a header that kernels on a GPU call, too. Nothing where nvcc does not
// compile.
#if defined(__CUDACC__)
#define TESSERA_HOST_DEVICE __host__ __device__
#else
#define TESSERA_HOST_DEVICE
#endif

namespace tessera {

enum class DeviceKind : unsigned char { cpu, gpu };

// A place where ops run and tensors live. A small value, compared by value.
struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;
  bool operator==(const Device&) const = default;
  constexpr bool is_cpu() const { return kind == DeviceKind::cpu; }
  std::string name() const;  // "cpu:0", "gpu:1"
};

// Understands "cpu", "gpu:1", "cuda:1", "/CPU:0", "/GPU:0", in either case. Throws DeviceError on
// any other text.
Device parse_device(std::string_view text);

struct DeviceInfo {
  Device device;
  std::string description;     // model name, or the reason why a GPU cannot be used
  long long memory_bytes = 0;  // total
  std::string bus = {};        // of a GPU, where it sits: "0000:3B:00.0"
};

std::string cpu_description();  // the model of the processor, without asking any driver
// The devices this process can use: cpu:0 always, GPUs where the build has CUDA and a driver.
std::vector<DeviceInfo> physical_devices();
// Why there is no GPU in physical_devices(), in a sentence; empty when there is one.
std::string why_no_gpu();
// Whether that is because of a driver that does not fit the CUDA toolkit of this build.
bool driver_mismatch();

// A physical device cut into logical ones of the same kind. Each has memory of its own, with a
// limit of its own, and its own eager allocator; they share the threads, or the GPU, of the whole.
struct DeviceParts {
  std::string device;               // "cpu:0"
  int parts = 1;                    // how many
  size_t bytes_each = SIZE_MAX;     // that may be live on a part at once; SIZE_MAX: no limit
  std::vector<size_t> limits = {};  // one for each part, instead of parts and bytes_each
};
// From now on the devices are these parts, numbered through for each kind in the order given:
// configure_devices({{"cpu:0", 2, size_t{512} << 20}}) makes cpu:0 and cpu:1. Devices that are not
// named stay whole and come first for their kind. {} makes all whole again. What is kept for
// tensors that have gone is given back before; but tensors must not live on any device, nor a
// DeviceScope be open in any thread: throws DeviceError naming what came before. Steps that were
// compiled before are not to be run after it.
void configure_devices(const std::vector<DeviceParts>& parts);
// What DeviceScope takes: the physical devices, or their parts.
std::vector<DeviceInfo> logical_devices();

// Throws DeviceError, listing the devices there are, unless `device` is one of logical_devices();
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
