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

// Whether a call has said that the device is lost. Nothing can be given back any more then but by
// ending the process.
bool device_is_lost();
void forget_cuda_error();  // so that no later check reports it; that a device is lost is kept

// For destructors and whatever else must go on: makes the call unless the device is lost, and says
// whether that went well.
template <class Call>
bool cuda_try(Call&& call) noexcept {
  if (device_is_lost()) return false;
  if (call() == cudaSuccess) return true;
  forget_cuda_error();
  return false;
}

// Makes a GPU current for the calling thread while the scope lives.
class CudaDeviceGuard {
 public:
  explicit CudaDeviceGuard(int index);
  ~CudaDeviceGuard();
  CudaDeviceGuard(const CudaDeviceGuard&) = delete;
  CudaDeviceGuard& operator=(const CudaDeviceGuard&) = delete;

 private:
  const int inner_;
  int outer_ = 0;
};

}  // namespace tessera
