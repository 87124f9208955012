#include <map>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "tessera/runtime/cuda/blas.h"
#include "tessera/runtime/cuda/check.h"
#include "tessera/runtime/cuda/context.h"
#include "tessera/runtime/cuda/cuda.h"
#include "tessera/runtime/cuda/device_properties.h"
#include "tessera/runtime/cuda/dnn.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/shared_library.h"

namespace tessera {
namespace {

// Queries the driver. Allocates no memory on any GPU: only contexts do.
CudaMachine look() {
  CudaMachine found;
  int driver = 0, count = 0;
  const char* call = "cudaDriverGetVersion";
  cudaError_t code = cudaDriverGetVersion(&driver);
  if (driver == 0 && (code == cudaSuccess || code == cudaErrorInsufficientDriver)) {
    forget_cuda_error();
    found.reason = "this computer has no NVIDIA driver (check with nvidia-smi)";
    return found;
  }
  if (code == cudaSuccess) {
    call = "cudaGetDeviceCount";
    code = cudaGetDeviceCount(&count);
  }
  if (code == cudaSuccess && count == 0) code = cudaErrorNoDevice;
  if (code != cudaSuccess) {
    forget_cuda_error();
    found.reason = fmt::format(
        "the NVIDIA driver provides no GPU: {}: {} (driver for CUDA {}, built with CUDA {}); {}",
        call, cudaGetErrorString(code), cuda_version_text(static_cast<size_t>(driver), 1000),
        cuda_version_text(CUDART_VERSION, 1000), cuda_remedy(code));
    found.version_mismatch = is_version_mismatch(code);
    return found;
  }
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp about;
    cuda_check(cudaGetDeviceProperties(&about, i), "cudaGetDeviceProperties");
    const Device device{DeviceKind::gpu, i};
    const std::string fault =
        architecture_fault(TESSERA_CUDA_ARCHITECTURES, about.major, about.minor);
    if (!fault.empty()) {
      found.refused.push_back(fmt::format("{}, {}, {}", device.name(), about.name, fault));
      continue;
    }
    char bus[32] = "";
    if (cudaDeviceGetPCIBusId(bus, sizeof bus, i) != cudaSuccess) forget_cuda_error();
    found.devices.push_back(
        {device, fmt::format("{}, compute capability {}.{}", about.name, about.major, about.minor),
         static_cast<long long>(about.totalGlobalMem), bus});
  }
  if (found.devices.empty()) found.reason = found.refused.front();
  return found;
}

// Loads a vendor library and returns its path and version, or why it cannot be loaded.
template <class Library>
CudaLibrary look_at(const Library& (*load)(), const VendorLibrary& about) {
  CudaLibrary found{about.name, cuda_version_text(about.built, 10000), about.folder, "", "", ""};
  try {
    found.file = load().file;
    found.running = cuda_version_text(load().version, 10000);
  } catch (const DeviceError& error) {
    found.fault = error.what();
  }
  return found;
}

}  // namespace

const CudaMachine& cuda_machine() {
  static const CudaMachine found = look();
  return found;
}

Context& cuda_context(int index, int part, RawMemory* memory) {
  static std::mutex mutex;
  // Never destroyed: tensors may outlive main, and the driver may be gone by then.
  static auto* contexts = new std::map<std::pair<int, int>, std::unique_ptr<CudaContext>>;
  std::lock_guard lock(mutex);
  std::unique_ptr<CudaContext>& slot = (*contexts)[{index, part}];
  if (!slot) {
    const Device device{DeviceKind::gpu, part < 0 ? index : part};
    slot = std::make_unique<CudaContext>(index, device, memory);
  }
  return *slot;
}

CudaContext& as_cuda(Context& context) { return static_cast<CudaContext&>(context); }

std::string cuda_version_text(size_t version, size_t major_at) {
  if (major_at == 1000) return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
  return fmt::format("{}.{}.{}", version / major_at, version % major_at / 100, version % 100);
}

CudaLibraries cuda_libraries() {
  CudaLibraries found;
  found.architectures = TESSERA_CUDA_ARCHITECTURES;
  found.toolkit_built = cuda_version_text(CUDART_VERSION, 1000);
  int driver = 0;
  if (cudaDriverGetVersion(&driver) == cudaSuccess && driver > 0) {
    found.driver = cuda_version_text(static_cast<size_t>(driver), 1000);
    found.driver_file = loaded_library("libcuda.so.1");
  } else {
    forget_cuda_error();
  }
  found.blas = look_at(blas, blas_library());
  found.dnn = look_at(dnn, dnn_library());
  return found;
}

}  // namespace tessera
