// gpu_state(): the driver's report on a GPU without a context on it, from NVML, which is loaded on
// first use. Needs no CUDA at build time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tessera {

struct GpuProcess {
  int64_t pid = 0;
  int64_t bytes = -1;  // GPU memory; -1: unknown
  std::string name;
};

struct GpuState {
  int64_t total = 0, free = 0;
  std::vector<GpuProcess> processes;  // other processes that compute on it
};

// Returns "580.65.06"; empty if there is no driver.
std::string nvidia_driver_version();
// Returns the state of the GPU at PCI address `bus` ("0000:3B:00.0"); nullopt if NVML is missing or
// does not list it.
std::optional<GpuState> gpu_state(const std::string& bus);

}  // namespace tessera
