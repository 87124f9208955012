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

// The GPUs of this computer, which do not change.
struct CudaMachine {
  std::vector<DeviceInfo> devices;   // those that this process can use
  std::vector<std::string> refused;  // a sentence for each other GPU that the driver lists
  std::string reason;                // why no GPU can be used; else empty
  bool version_mismatch = false;     // the reason is a driver that does not fit the toolkit
};
const CudaMachine& cuda_machine();
// Returns the context of a GPU, or of its part gpu:`part` (configure_devices) with memory of its
// own. Throws DeviceError.
Context& cuda_context(int index, int part = -1, RawMemory* memory = nullptr);
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

}  // namespace tessera
