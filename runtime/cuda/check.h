// Turns the error codes of CUDA and cuBLASLt into DeviceErrors. For .cc and .cu files of the GPU
// back end only: it includes the vendor's headers.
#pragma once

#include <string_view>

#include <cublasLt.h>
#include <cuda_runtime_api.h>

namespace tessera {

// Throws DeviceError "<call>: <vendor's text>; <remedy>" unless the code is success: of its kinds
// VersionMismatch where driver and toolkit do not fit together, OutOfMemory where memory was asked
// for, DeviceLost where no further call can succeed. `call` is the name of the function
// called: cuda_check(cudaStreamCreate(&s), "cudaStreamCreate").
void cuda_check(cudaError_t code, std::string_view call);
void cuda_check(cublasStatus_t code, std::string_view call);

// Whether the code says that driver and toolkit do not fit together, and what a user can do about
// any code.
bool is_version_mismatch(cudaError_t code);
bool is_device_lost(cudaError_t code);
std::string_view cuda_remedy(cudaError_t code);

// Makes a GPU current for the calling thread while the scope lives.
class CudaDeviceGuard {
 public:
  explicit CudaDeviceGuard(int index);
  ~CudaDeviceGuard();
  CudaDeviceGuard(const CudaDeviceGuard&) = delete;
  CudaDeviceGuard& operator=(const CudaDeviceGuard&) = delete;

 private:
  int outer_ = 0;
};

}  // namespace tessera
