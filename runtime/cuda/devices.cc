#include <map>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "tessera/runtime/cuda/architectures.h"
#include "tessera/runtime/cuda/blas.h"
#include "tessera/runtime/cuda/check.h"
#include "tessera/runtime/cuda/context.h"
#include "tessera/runtime/cuda/cuda.h"
#include "tessera/runtime/cuda/dnn.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/shared_library.h"

namespace tessera {
namespace {

struct Machine {
  std::vector<DeviceInfo> devices;
  std::vector<std::string> refused;
  std::string reason;  // why there is no device
  bool version_mismatch = false;
};

// Queries the driver. Allocates no memory on any GPU: only contexts do.
Machine look() {
  Machine found;
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

// Cached: the devices of a process do not change.
const Machine& machine() {
  static const Machine found = look();
  return found;
}

// Loads a vendor library and returns its path and version, or why it cannot be loaded.
template <class Library>
CudaLibrary look_at(const Library& (*load)(), std::string name, size_t built, std::string folder) {
  CudaLibrary found;
  found.name = std::move(name);
  found.built = cuda_version_text(built, 10000);
  found.built_folder = std::move(folder);
  try {
    found.file = load().file;
    found.running = cuda_version_text(load().version, 10000);
  } catch (const DeviceError& error) {
    found.fault = error.what();
  }
  return found;
}

}  // namespace

std::vector<DeviceInfo> cuda_devices() { return machine().devices; }

std::string cuda_unusable_reason() { return machine().reason; }

std::vector<std::string> cuda_refused_devices() { return machine().refused; }

bool cuda_version_mismatch() { return machine().version_mismatch; }

Context& cuda_context(int index) {
  static std::mutex mutex;
  // Never destroyed: tensors may outlive main, and the driver may be gone by then.
  static auto* contexts = new std::map<int, std::unique_ptr<CudaContext>>;
  std::lock_guard lock(mutex);
  std::unique_ptr<CudaContext>& slot = (*contexts)[index];
  if (!slot) slot = std::make_unique<CudaContext>(index);
  return *slot;
}

Context& cuda_part_context(int index, Device part, RawMemory& memory) {
  static std::mutex mutex;
  static auto* contexts = new std::map<std::pair<int, int>, std::unique_ptr<CudaContext>>;
  std::lock_guard lock(mutex);
  std::unique_ptr<CudaContext>& slot = (*contexts)[{index, part.index}];
  if (!slot) slot = std::make_unique<CudaContext>(index, part, &memory);
  return *slot;
}

CudaContext& as_cuda(Context& context) { return static_cast<CudaContext&>(context); }

std::string cuda_version_text(size_t version, size_t major_at) {
  if (major_at == 1000) return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
  return fmt::format("{}.{}.{}", version / major_at, version % major_at / 100, version % 100);
}

std::string cuda_blas_name() { return fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR); }

std::string cuda_build_folder() { return TESSERA_CUDA_FOLDER; }

std::string cuda_dnn_name() { return fmt::format("libcudnn.so.{}", CUDNN_MAJOR); }

std::string cuda_dnn_build_folder() { return TESSERA_CUDNN_FOLDER; }

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
  found.blas = look_at(blas, cuda_blas_name(), CUBLAS_VERSION, cuda_build_folder());
  found.dnn = look_at(dnn, cuda_dnn_name(), CUDNN_VERSION, cuda_dnn_build_folder());
  return found;
}

}  // namespace tessera
