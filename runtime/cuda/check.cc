#include "tessera/runtime/cuda/check.h"

#include <atomic>

#include <fmt/format.h>

#include "tessera/runtime/cuda/blas.h"
#include "tessera/runtime/error.h"

namespace tessera {
namespace {

std::atomic<bool> lost{false};

// Returns true if no further call can succeed.
bool is_device_lost(cudaError_t code) {
  switch (static_cast<int>(code)) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorHardwareStackError:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case 226:  // cudaErrorContained; both are missing in the headers of CUDA 12.0 to 12.4
    case 721:  // cudaErrorTensorMemoryLeak
      return true;
    default:
      return false;
  }
}

}  // namespace

bool is_version_mismatch(cudaError_t code) {
  return code == cudaErrorInsufficientDriver || code == cudaErrorSystemDriverMismatch ||
         code == cudaErrorCompatNotSupportedOnDevice || code == cudaErrorUnsupportedPtxVersion;
}

std::string_view cuda_remedy(cudaError_t code) {
  if (is_version_mismatch(code))
    return "install a newer NVIDIA driver, or build with an older CUDA toolkit";
  if (is_device_lost(code))
    return "an earlier kernel failed; restart the process from its last checkpoint; run with "
           "--sync to find the op, or with compute-sanitizer to find the kernel";
  switch (code) {
    case cudaErrorNoDevice:
      return "no GPU is visible: check nvidia-smi and CUDA_VISIBLE_DEVICES";
    case cudaErrorMemoryAllocation:
      return "use a smaller batch, or end other programs on this GPU (nvidia-smi lists them)";
    case cudaErrorNoKernelImageForDevice:
      return "this build has no code for this GPU: configure with "
             "-DCMAKE_CUDA_ARCHITECTURES=native";
    default:
      return "check the state of the driver and the GPU with nvidia-smi";
  }
}

bool device_is_lost() { return lost; }

void forget_cuda_error() {
  if (is_device_lost(cudaPeekAtLastError())) lost = true;
  cudaGetLastError();
}

void cuda_check(cudaError_t code, std::string_view call) {
  if (code == cudaSuccess) return;
  forget_cuda_error();
  const std::string text = fmt::format("{}: {} ({}); {}", call, cudaGetErrorString(code),
                                       cudaGetErrorName(code), cuda_remedy(code));
  if (is_version_mismatch(code)) throw VersionMismatch(text);
  if (code == cudaErrorMemoryAllocation) throw OutOfMemory(text);
  if (is_device_lost(code)) throw DeviceLost(text);
  throw DeviceError(text);
}

void cuda_check(cublasStatus_t code, std::string_view call) {
  if (code == CUBLAS_STATUS_SUCCESS) return;
  const Blas& library = blas();  // already loaded, as it returned the code
  const std::string text = fmt::format(
      "{}: {} ({}); the cuBLASLt in use is version {}, from '{}'; Tessera was built with {}", call,
      library.cublasLtGetStatusString(code), library.cublasLtGetStatusName(code), library.version,
      library.file, CUBLAS_VERSION);
  if (code == CUBLAS_STATUS_ALLOC_FAILED) throw OutOfMemory(text);
  // If a kernel failed, the CUDA runtime reports whether the device is lost.
  if (code == CUBLAS_STATUS_EXECUTION_FAILED) cuda_check(cudaPeekAtLastError(), call);
  throw DeviceError(text);
}

CudaDeviceGuard::CudaDeviceGuard(int index) : inner_(index) {
  cuda_check(cudaGetDevice(&outer_), "cudaGetDevice");
  if (index != outer_) cuda_check(cudaSetDevice(index), "cudaSetDevice");
}

CudaDeviceGuard::~CudaDeviceGuard() {
  if (inner_ != outer_) cuda_try([&] { return cudaSetDevice(outer_); });
}

}  // namespace tessera
