#include "tessera/runtime/device.h"

#include <atomic>
#include <charconv>
#include <fstream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "tessera/runtime/cuda/cuda.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/logical_devices.h"
#include "tessera/runtime/system_gpus.h"
#include "tessera/runtime/text/utf8.h"

namespace tessera {
namespace {

thread_local Device scope_device;
thread_local int scope_depth = 0;
std::atomic<int> open_scopes{0};

std::vector<DeviceInfo> look_for_devices() {
  long long memory = static_cast<long long>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
  std::vector<DeviceInfo> devices{{Device{}, cpu_description(), memory}};
  if constexpr (kCuda) {
    const std::vector<DeviceInfo>& gpus = cuda_machine().devices;
    devices.insert(devices.end(), gpus.begin(), gpus.end());
  }
  return devices;
}

// Cached: the devices of a process do not change, and contexts are looked up often.
const std::vector<DeviceInfo>& known_devices() {
  static const std::vector<DeviceInfo> devices = look_for_devices();
  return devices;
}

}  // namespace

std::string Device::name() const { return fmt::format("{}:{}", is_cpu() ? "cpu" : "gpu", index); }

Device parse_device(std::string_view text) {
  const std::string name = lower_case(text.substr(text.starts_with('/') ? 1 : 0));
  size_t colon = name.find(':');
  std::string kind = name.substr(0, colon);
  int index = 0;
  bool good = kind == "cpu" || kind == "gpu" || kind == "cuda";
  if (good && colon != std::string::npos) {
    const char *begin = name.data() + colon + 1, *end = name.data() + name.size();
    auto [stop, error] = std::from_chars(begin, end, index);
    good = begin < end && stop == end && error == std::errc() && index >= 0;
  }
  if (!good)
    throw DeviceError(fmt::format(
        "device: '{}' is not a device name; write cpu, gpu, cpu:0 or gpu:1 (or /CPU:0, /GPU:1)",
        text));
  return {kind == "cpu" ? DeviceKind::cpu : DeviceKind::gpu, index};
}

std::string cpu_description() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "CPU";
}

std::vector<DeviceInfo> physical_devices() { return known_devices(); }

std::string why_no_gpu() {
  std::string reason;
  if constexpr (kCuda) {
    reason = cuda_machine().reason;
    if (reason.empty()) return "";
  } else {
    reason =
        "this build has no GPU back end (configure with -DTESSERA_CUDA=ON where nvcc is installed)";
  }
  const std::string foreign = foreign_gpu_text(pci_gpus());
  return foreign.empty() ? reason : foreign + "; " + reason;
}

bool driver_mismatch() {
  if constexpr (kCuda) return cuda_machine().version_mismatch;
  return false;
}

void require_device(Device device) {
  if (device == Device{} || is_described(device) || logical_device(device)) return;
  for (const DeviceInfo& info : known_devices())
    if (info.device == device) return;
  std::vector<std::string> names;
  for (const DeviceInfo& info : logical_devices()) names.push_back(info.device.name());
  const std::string reason = device.is_cpu() ? "to divide the CPU, call configure_devices() before "
                                               "this call, or set devices.cpu in the configuration"
                                             : why_no_gpu();
  const std::string text =
      fmt::format("device: {} does not exist; the devices are {}{}{}", device.name(),
                  fmt::join(names, ", "), reason.empty() ? "" : "; ", reason);
  if (!device.is_cpu() && driver_mismatch()) throw VersionMismatch(text);
  throw DeviceError(text);
}

DeviceScope::DeviceScope(Device device) : outer_(scope_device) {
  require_device(device);
  scope_device = device;
  ++scope_depth;
  ++open_scopes;
}

DeviceScope::~DeviceScope() {
  scope_device = outer_;
  --scope_depth;
  --open_scopes;
}

std::string open_device_scope() {
  if (scope_depth > 0) return fmt::format("DeviceScope(\"{}\")", scope_device.name());
  return open_scopes > 0 ? "a DeviceScope of another thread" : "";
}

Device current_device() { return scope_device; }

}  // namespace tessera
