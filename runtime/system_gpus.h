// GPUs without CUDA: pci_gpus() lists all GPUs of this computer, of any maker and with any driver,
// so that errors can name one that cannot be used. gpu_state() is the driver's report on a GPU
// without a context on it, from NVML, which is loaded on first use.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tessera {

struct PciGpu {
  std::string address;  // "0000:03:00.0"
  std::string maker;    // "NVIDIA", "AMD", "Intel"; others by number: "PCI vendor 0x1a03"
};

// Returns the GPUs in order of address; empty if the system does not list them.
std::vector<PciGpu> pci_gpus(const std::string& folder = "/sys/bus/pci/devices");
// Returns "found an AMD GPU at 0000:03:00.0, but only NVIDIA GPUs are supported"; empty if there is
// no AMD or Intel GPU.
std::string foreign_gpu_text(const std::vector<PciGpu>& gpus);

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
