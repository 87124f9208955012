// cuda_check(): turns error codes of CUDA and cuBLASLt into DeviceErrors. For .cc and .cu files of
// the GPU back end only: includes the vendor's headers.
#pragma once

#include <string_view>

#include <cublasLt.h>
#include <cuda_runtime_api.h>

namespace tessera {

// Throws DeviceError "<call>: <vendor's text>; <remedy>" unless the code is success. Subclasses:
// VersionMismatch if driver and toolkit do not fit together, OutOfMemory if an allocation failed,
// DeviceLost if no further call can succeed. `call` is the name of the function called:
// cuda_check(cudaStreamCreate(&s), "cudaStreamCreate").
void cuda_check(cudaError_t code, std::string_view call);
void cuda_check(cublasStatus_t code, std::string_view call);

bool is_version_mismatch(cudaError_t code);      // driver and toolkit do not fit together
std::string_view cuda_remedy(cudaError_t code);  // for the user

// Returns true if a call has reported that the device is lost. From then on only the end of the
// process frees memory on the device.
bool device_is_lost();
void forget_cuda_error();  // clears the last error; remembers a lost device

// Makes the call unless the device is lost; returns true on success. For destructors and other code
// that must not throw.
template <class Call>
bool cuda_try(Call&& call) noexcept {
  if (device_is_lost()) return false;
  if (call() == cudaSuccess) return true;
  forget_cuda_error();
  return false;
}

// Makes a GPU current for the calling thread during the scope.
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
