// The GPUs that sit in the machine, whoever made them and whatever driver they have: so that one
// that cannot be used is named.
#pragma once

#include <string>
#include <vector>

namespace tessera {

struct PciGpu {
  std::string address;  // "0000:03:00.0"
  std::string maker;    // "NVIDIA", "AMD", "Intel"; others by number: "PCI vendor 0x1a03"
};

// In order of their addresses; none where the system does not tell.
std::vector<PciGpu> pci_gpus(const std::string& folder = "/sys/bus/pci/devices");
// "an AMD GPU (at 0000:03:00.0) is here, which cannot be used: only NVIDIA's can"; empty where
// there is none of another maker that computes (NVIDIA's and display chips of servers aside).
std::string foreign_gpu_text(const std::vector<PciGpu>& gpus);

}  // namespace tessera
