// The one place that reads the preprocessor switch TESSERA_CUDA. What is declared here is defined
// only in builds with CUDA: call it inside `if constexpr (kCuda)`, which leaves no reference behind
// in the others.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tessera/runtime/device.h"

namespace tessera {

#if defined(TESSERA_CUDA) && TESSERA_CUDA
inline constexpr bool kCuda = true;
#else
inline constexpr bool kCuda = false;
#endif

class Context;
class CudaContext;
class RawMemory;

std::vector<DeviceInfo> cuda_devices();
std::string cuda_unusable_reason();
bool cuda_version_mismatch();
// GPUs that the driver offers and that cannot be used, each in a sentence.
std::vector<std::string> cuda_refused_devices();
Context& cuda_context(int index);  // throws DeviceError
// Of a part of that GPU (configure_devices), with memory of its own.
Context& cuda_part_context(int index, Device part, RawMemory& memory);
CudaContext& as_cuda(Context& context);  // of a GPU's context

// A library of the vendor that is loaded when it is first used. Texts are empty where there is
// nothing to say.
struct CudaLibrary {
  std::string name;                 // of the file that is asked for: "libcublasLt.so.13"
  std::string built, built_folder;  // the version that this was built with, and where it lay
  std::string running, file;        // once loaded
  std::string fault;                // why it cannot be loaded
};

// A file that cuDNN loads by name when it needs it, as libcudnn_graph.so.9.
struct CudaPart {
  std::string name;
  struct Copy {
    std::string file, version;  // no version: the file does not tell
  };
  std::vector<Copy> copies;  // in the order of the loader's search, which takes the first
  std::string fault;         // why cuDNN cannot use it; empty if it can
  bool needed = false;       // to plan a convolution
};
// Tries every copy of every part of the loaded cuDNN in a child process. A part whose version is
// not that of most parts has a fault. Empty if cuDNN was not loaded.
std::vector<CudaPart> cuda_dnn_parts();

// What the CUDA side of a build stands on.
struct CudaLibraries {
  std::string architectures;        // that there is code for: "75-real,80-real,90"
  std::string toolkit_built;        // the runtime, part of the program: "13.0"
  std::string driver, driver_file;  // the newest CUDA that the driver knows
  CudaLibrary blas, dnn;            // cuBLASLt and cuDNN
};
// Loads cuBLASLt and cuDNN.
CudaLibraries cuda_libraries();

// 13000 of `thousand` 1000 is "13.0"; 130100 of 10000 is "13.1.0".
std::string cuda_version_text(size_t version, size_t major_at);
// The file that the loader is asked for, and the folder it was in when this was built.
std::string cuda_blas_name();
std::string cuda_build_folder();
std::string cuda_dnn_name();
std::string cuda_dnn_build_folder();

}  // namespace tessera
