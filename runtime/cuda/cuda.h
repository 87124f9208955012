// The only header that reads the preprocessor switch TESSERA_CUDA. These functions are defined only
// in builds with CUDA. Call them inside `if constexpr (kCuda)`, so that other builds contain no
// reference to them.
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
// Returns a sentence for each GPU that the driver lists and that cannot be used.
std::vector<std::string> cuda_refused_devices();
Context& cuda_context(int index);  // throws DeviceError
// Returns the context of a part of that GPU (configure_devices) with memory of its own.
Context& cuda_part_context(int index, Device part, RawMemory& memory);
CudaContext& as_cuda(Context& context);  // requires the context of a GPU

// A vendor library that is loaded on first use. Unknown texts are empty.
struct CudaLibrary {
  std::string name;                 // file name to load: "libcublasLt.so.13"
  std::string built, built_folder;  // version and folder at build time
  std::string running, file;        // once loaded
  std::string fault;                // why it cannot be loaded
};

// A file that cuDNN loads by name on demand, such as libcudnn_graph.so.9.
struct CudaPart {
  std::string name;
  struct Copy {
    std::string file, version;  // empty version: unknown
  };
  std::vector<Copy> copies;  // in the loader's search order; the first is used
  std::string fault;         // why cuDNN cannot use it; empty if it can
  bool needed = false;       // to plan a convolution
};
// Tries every copy of every part of the loaded cuDNN in a child process. A part has a fault if its
// version is not that of most parts. Returns an empty list if cuDNN was not loaded.
std::vector<CudaPart> cuda_dnn_parts();

// The CUDA versions and libraries of a build.
struct CudaLibraries {
  std::string architectures;        // of the compiled code: "75-real,80-real,90"
  std::string toolkit_built;        // the runtime, linked in: "13.0"
  std::string driver, driver_file;  // newest CUDA that the driver supports
  CudaLibrary blas, dnn;            // cuBLASLt and cuDNN
};
// Loads cuBLASLt and cuDNN.
CudaLibraries cuda_libraries();

// Returns "13.0" for 13000 with major_at 1000, and "13.1.0" for 130100 with major_at 10000.
std::string cuda_version_text(size_t version, size_t major_at);
// Return the file name to load, and its folder at build time.
std::string cuda_blas_name();
std::string cuda_build_folder();
std::string cuda_dnn_name();
std::string cuda_dnn_build_folder();

}  // namespace tessera
