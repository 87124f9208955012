#include <mutex>

#include <fmt/format.h>

#include "tessera/runtime/cuda/check.h"
#include "tessera/runtime/cuda/context.h"
#include "tessera/runtime/cuda/cuda.h"

namespace tessera {
namespace {

struct Machine {
  std::vector<DeviceInfo> devices;
  std::string reason;  // why there are none
  bool version_mismatch = false;
};

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

// Asks the driver. Takes no memory on any GPU: only contexts do.
Machine look() {
  Machine found;
  int driver = 0, count = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
    cudaGetLastError();
    found.reason = "there is no NVIDIA driver on this machine (nvidia-smi shows it when there is)";
    return found;
  }
  cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaSuccess && count == 0) code = cudaErrorNoDevice;
  if (code != cudaSuccess) {
    cudaGetLastError();
    found.reason = fmt::format(
        "the NVIDIA driver offers no GPU: {} (driver for CUDA {}, built with CUDA {}); {}",
        cudaGetErrorString(code), version_text(driver), version_text(CUDART_VERSION),
        cuda_remedy(code));
    found.version_mismatch = is_version_mismatch(code);
    return found;
  }
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp about;
    cuda_check(cudaGetDeviceProperties(&about, i), "cudaGetDeviceProperties");
    found.devices.push_back(
        {{DeviceKind::gpu, i},
         fmt::format("{}, compute capability {}.{}", about.name, about.major, about.minor),
         static_cast<long long>(about.totalGlobalMem)});
  }
  return found;
}

// What a process sees does not change while it runs.
const Machine& machine() {
  static const Machine found = look();
  return found;
}

}  // namespace

std::vector<DeviceInfo> cuda_devices() { return machine().devices; }

std::string cuda_unusable_reason() { return machine().reason; }

bool cuda_version_mismatch() { return machine().version_mismatch; }

Context& cuda_context(int index) {
  static std::mutex mutex;
  // Never destroyed: tensors may outlive main, and the driver may be gone by then.
  static auto* contexts = new std::vector<std::unique_ptr<CudaContext>>(machine().devices.size());
  std::lock_guard lock(mutex);
  std::unique_ptr<CudaContext>& slot = contexts->at(static_cast<size_t>(index));
  if (!slot) slot = std::make_unique<CudaContext>(index);
  return *slot;
}

CudaContext& as_cuda(Context& context) { return static_cast<CudaContext&>(context); }

}  // namespace tessera
