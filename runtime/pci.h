// pci_gpus(): all GPUs of this computer, of any maker and with any driver, so that errors can name
// one that cannot be used.
#pragma once

#include <string>
#include <vector>

namespace tessera {

struct PciGpu {
  std::string address;  // "0000:03:00.0"
  std::string maker;    // "NVIDIA", "AMD", "Intel"; others by number: "PCI vendor 0x1a03"
};

// Returns the GPUs in order of address; empty if the system does not list them.
std::vector<PciGpu> pci_gpus(const std::string& folder = "/sys/bus/pci/devices");
// Returns "an AMD GPU (at 0000:03:00.0) is here, which cannot be used: only NVIDIA's can"; empty if
// there is no AMD or Intel GPU.
std::string foreign_gpu_text(const std::vector<PciGpu>& gpus);

}  // namespace tessera
