#include "tessera/runtime/pci.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

namespace tessera {
namespace {

std::string word_in(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string word;
  in >> word;
  return word;
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
    const std::string kind = word_in(at->path() / "class");
    // Display controllers, and AMD's class of accelerators without a display.
    if (!kind.starts_with("0x03") && !kind.starts_with("0x1200")) continue;
    gpus.push_back({at->path().filename().string(), maker_of(word_in(at->path() / "vendor"))});
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

}  // namespace tessera
