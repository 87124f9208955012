// Which GPUs the kernels of a build run on. Needs no CUDA.
#pragma once

#include <string>
#include <string_view>

namespace tessera {

// Why a GPU of that compute capability cannot run kernels built for `built`, written as CMake does
// but with commas: "75-real,80-real,90" (without a word behind it: machine code, and PTX that newer
// GPUs translate); empty where it can. Of a list that does not tell ("native"), nothing is said.
std::string architecture_fault(std::string_view built, int major, int minor);

}  // namespace tessera
