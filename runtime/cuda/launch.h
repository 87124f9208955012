// launch(): the single way to start a kernel. For .cu files. Kernels use only features that a
// simulated GPU can check (TESSERA_CUDA=DOUBLE): shared memory is dynamic, its size is set at
// launch.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include <cuda_runtime_api.h>

#include "tessera/runtime/cuda/check.h"

namespace tessera {

#if defined(__CUDACC__)

template <class... P, class... A>
cudaError_t launch_kernel(const char*, const cudaLaunchConfig_t& config, void (*kernel)(P...),
                          A&&... args) {
  return cudaLaunchKernelEx(&config, kernel, std::forward<A>(args)...);
}

// Returns the block's shared memory, of the size set at launch, aligned to 16 bytes.
template <class T>
__device__ T* dynamic_shared() {
  extern __shared__ __align__(16) unsigned char tessera_shared_bytes[];
  return reinterpret_cast<T*>(tessera_shared_bytes);
}

#else

template <class... P, class... A>
cudaError_t launch_kernel(const char* name, const cudaLaunchConfig_t& config, void (*kernel)(P...),
                          A&&... args) {
  return cuda_double::launch(name, config, kernel, std::forward<A>(args)...);
}
using cuda_double::dynamic_shared;

#endif

// Starts a kernel. Throws what cuda_check throws, "launch of <name>: ...", for immediate errors
// (too many threads, no code for this GPU). Errors while the kernel runs are thrown at the next
// synchronization.
template <class... P, class... A>
void launch(const char* name, void (*kernel)(P...), dim3 grid, dim3 block, size_t shared_bytes,
            cudaStream_t stream, A&&... args) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  const cudaError_t code = launch_kernel(name, config, kernel, std::forward<A>(args)...);
  if (code != cudaSuccess) cuda_check(code, std::string("launch of ") + name);
}

}  // namespace tessera
