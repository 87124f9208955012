#include "tessera/runtime/system_gpus.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <span>

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

std::string line_in(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

std::string maker_of(const std::string& vendor) {
  if (vendor == "0x10de") return "NVIDIA";
  if (vendor == "0x1002") return "AMD";
  if (vendor == "0x8086") return "Intel";
  return "PCI vendor " + vendor;
}

}  // namespace

std::vector<PciGpu> pci_gpus(const std::string& folder) {
  std::vector<PciGpu> gpus;
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    const std::string kind = line_in(at->path() / "class");
    // Display controllers, and AMD's class of accelerators without a display.
    if (!kind.starts_with("0x03") && !kind.starts_with("0x1200")) continue;
    gpus.push_back({at->path().filename().string(), maker_of(line_in(at->path() / "vendor"))});
  }
  std::sort(gpus.begin(), gpus.end(),
            [](const PciGpu& a, const PciGpu& b) { return a.address < b.address; });
  return gpus;
}

std::string foreign_gpu_text(const std::vector<PciGpu>& gpus) {
  for (const PciGpu& gpu : gpus)
    if (gpu.maker == "AMD" || gpu.maker == "Intel")
      return fmt::format("found an {} GPU at {}, but only NVIDIA GPUs are supported", gpu.maker,
                         gpu.address);
  return "";
}

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
    state.processes.push_back({process.pid, told ? static_cast<int64_t>(process.bytes) : -1,
                               line_in(fmt::format("/proc/{}/comm", process.pid))});
  }
  return state;
}

}  // namespace tessera
