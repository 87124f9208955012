// DeviceProperties: the facts of a GPU that decide how a step is computed. The GPU may exist or
// only be described, so that steps can be planned without it. Needs no CUDA.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

struct DeviceProperties {
  std::string name;          // "NVIDIA H100 80GB HBM3"
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  int64_t memory_bytes = 0;
  int index = -1;  // CUDA's index; -1: only described
  // The JSON that describes the GPU to cuDNN, as cuDNN writes it; only for described GPUs.
  std::string description = {};
  // The source of the description: "described by hand, not read off a card".
  std::string origin = {};

  bool described() const { return index < 0; }
};

// Returns a GPU described in runtime/cuda/profiles/, by name in either case: "H100". Throws
// DeviceError, which lists all names.
const DeviceProperties& gpu_profile(std::string_view name);
// Returns the GPU that "gpu:H100" names; nullptr for names of existing devices, such as "gpu:0".
// Throws DeviceError for "gpu:" and an unknown name.
const DeviceProperties* described_gpu(std::string_view device);
// Returns "A100", "B200", ...: in alphabetical order.
std::vector<std::string> gpu_profile_names();

// Parses a description written by cuDNN. Throws Error if a member is missing.
DeviceProperties properties_of_description(std::string_view json);

// Returns why a GPU of that compute capability cannot run kernels built for `built`; empty if it
// can, or if the list does not say ("native"). `built` is written as for CMake, but with commas:
// "75-real,80-real,90". An entry without a suffix means machine code and PTX, which newer GPUs
// translate.
std::string architecture_fault(std::string_view built, int major, int minor);

}  // namespace tessera
