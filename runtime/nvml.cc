#include "tessera/runtime/nvml.h"

#include <fstream>

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

namespace tessera {
namespace {

// From nvml.h, which only CUDA toolkits contain; the binary interface is fixed.
struct MemoryInfo {
  unsigned long long total, free, used;
};
struct ProcessInfo {
  unsigned pid;
  unsigned long long bytes;
  unsigned gpu_instance, compute_instance;
};
constexpr int kSuccess = 0;

struct Nvml {
  int (*init)() = nullptr;
  int (*driver_version)(char*, unsigned) = nullptr;
  int (*by_bus)(const char*, void**) = nullptr;
  int (*memory)(void*, MemoryInfo*) = nullptr;
  int (*processes)(void*, unsigned*, ProcessInfo*) = nullptr;
  bool usable = false;
};

Nvml load() {
  Nvml nvml;
  void* const library = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) return nvml;
  const auto find = [&]<class Function>(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    return function != nullptr;
  };
  const bool whole = find(nvml.init, "nvmlInit_v2") &&
                     find(nvml.driver_version, "nvmlSystemGetDriverVersion") &&
                     find(nvml.by_bus, "nvmlDeviceGetHandleByPciBusId_v2") &&
                     find(nvml.memory, "nvmlDeviceGetMemoryInfo");
  find(nvml.processes, "nvmlDeviceGetComputeRunningProcesses_v3");
  nvml.usable = whole && nvml.init() == kSuccess;
  return nvml;
}

const Nvml& nvml() {
  static const Nvml loaded = load();
  return loaded;
}

std::string process_name(int64_t pid) {
  std::ifstream in(fmt::format("/proc/{}/comm", pid));
  std::string name;
  std::getline(in, name);
  return name;
}

}  // namespace

std::string nvidia_driver_version() {
  char version[96] = "";
  if (!nvml().usable || nvml().driver_version(version, sizeof version) != kSuccess) return "";
  return version;
}

std::optional<GpuState> gpu_state(const std::string& bus) {
  void* device = nullptr;
  MemoryInfo memory{};
  if (!nvml().usable || nvml().by_bus(bus.c_str(), &device) != kSuccess ||
      nvml().memory(device, &memory) != kSuccess)
    return {};
  GpuState state{static_cast<int64_t>(memory.total), static_cast<int64_t>(memory.free), {}};
  ProcessInfo found[64];
  unsigned count = 64;
  if (nvml().processes == nullptr || nvml().processes(device, &count, found) != kSuccess)
    return state;
  for (const ProcessInfo& process : std::vector<ProcessInfo>(found, found + count)) {
    if (process.pid == static_cast<unsigned>(getpid())) continue;
    const bool told = process.bytes != ~0ull;
    state.processes.push_back(
        {process.pid, told ? static_cast<int64_t>(process.bytes) : -1, process_name(process.pid)});
  }
  return state;
}

}  // namespace tessera
