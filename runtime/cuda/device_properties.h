// What a GPU is, as far as it decides how a step is computed: of one that is there, or of one that
// is only described, so that steps can be planned for it where there is none. Needs no CUDA.
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
  int index = -1;  // of a GPU that is there, as CUDA counts; -1: only described
  // What cuDNN is told about a GPU that is only described: the JSON that it gives for a card.
  std::string description = {};
  // Where the description is from: "described by hand, not read off a card".
  std::string origin = {};

  bool described() const { return index < 0; }
};

// One of the GPUs that are described in runtime/cuda/profiles/, by name in either case: "H100".
// Throws DeviceError, listing them.
const DeviceProperties& gpu_profile(std::string_view name);
// The one that "gpu:H100" names; nullptr for names of devices that may be there, as "gpu:0". Throws
// DeviceError for "gpu:" and the name of none.
const DeviceProperties* described_gpu(std::string_view device);
// "A100", "B200", ...: in order of the alphabet.
std::vector<std::string> gpu_profile_names();

// The facts of a description as cuDNN writes it. Throws Error where something lacks.
DeviceProperties properties_of_description(std::string_view json);

}  // namespace tessera
