// architecture_fault(): which GPUs the kernels of a build run on. Needs no CUDA.
#pragma once

#include <string>
#include <string_view>

namespace tessera {

// Returns why a GPU of that compute capability cannot run kernels built for `built`; empty if it
// can, or if the list does not say ("native"). `built` is written as for CMake, but with commas:
// "75-real,80-real,90". An entry without a suffix means machine code and PTX, which newer GPUs
// translate.
std::string architecture_fault(std::string_view built, int major, int minor);

}  // namespace tessera
