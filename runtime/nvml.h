// What the NVIDIA driver tells of its GPUs without a context on any of them: NVML, loaded when it
// is asked. Needs no CUDA at build time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tessera {

struct GpuProcess {
  int64_t pid = 0;
  int64_t bytes = -1;  // of the GPU's memory; -1: the driver does not say
  std::string name;
};

struct GpuState {
  int64_t total = 0, free = 0;
  std::vector<GpuProcess> processes;  // that compute on it, this one left out
};

// "580.65.06"; empty where there is no driver.
std::string nvidia_driver_version();
// Of the GPU at this place ("0000:3B:00.0"); none where NVML is not there or does not know it.
std::optional<GpuState> gpu_state(const std::string& bus);

}  // namespace tessera
