// launch(), the single way to start a kernel, and helpers of kernels: vector loads and stores, grid
// indices, block reductions. For .cu files. Kernels use only features that a simulated GPU can
// check (TESSERA_CUDA=DOUBLE): shared memory is dynamic, its size is set at launch. The order of a
// sum depends only on the number of threads, so its bits never change.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
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

// Before a loop over an array that is to stay in registers.
#if defined(__CUDACC__)
#define TESSERA_UNROLL _Pragma("unroll")
#else
#define TESSERA_UNROLL
#endif

inline constexpr int kWarp = 32;
// Threads of a block, and maximum blocks of a grid whose threads take several elements, unless a
// kernel has its own numbers.
inline constexpr int kThreads = 256;
inline constexpr int64_t kMaxBlocks = 1 << 14;

// Kernels must not call the functions of std::numeric_limits.
template <class T>
inline constexpr T kInfinity = std::numeric_limits<T>::infinity();
template <class T>
inline constexpr T kNan = std::numeric_limits<T>::quiet_NaN();

template <class T>
__host__ __device__ constexpr T ceil_div(T a, T b) {
  return (a + b - 1) / b;
}

// Returns the grid for `total` elements, one per thread, with 1 to `max_blocks` blocks. If there
// are fewer threads than elements, a thread takes several (first_index).
inline dim3 grid_for(int64_t total, int threads, int64_t max_blocks) {
  const int64_t wanted = ceil_div<int64_t>(total, threads);
  return dim3(static_cast<unsigned>(std::clamp<int64_t>(wanted, 1, max_blocks)));
}

// Loop: for (int64_t i = first_index(); i < total; i += index_stride()), in a one-dimensional grid.
__device__ inline int64_t first_index() { return int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ inline int64_t index_stride() { return int64_t{gridDim.x} * blockDim.x; }

// Returns a / b for a, b >= 0. Uses 32 bits if possible, which is several times faster.
__device__ inline int64_t quotient(int64_t a, int64_t b) {
  if (((a | b) >> 32) == 0) return static_cast<uint32_t>(a) / static_cast<uint32_t>(b);
  return a / b;
}

// N values loaded and stored at once; 16 bytes per thread are fastest. The address must be a
// multiple of the size.
template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
  static_assert((sizeof(T) * N & (sizeof(T) * N - 1)) == 0);
  T at[N];
  __device__ T& operator[](int i) { return at[i]; }
  __device__ const T& operator[](int i) const { return at[i]; }
};

// The number of values in 16 bytes.
template <class T>
inline constexpr int kPack = static_cast<int>(16 / sizeof(T));

template <int N, class T>
__device__ Pack<T, N> load_pack(const T* from) {
  return *reinterpret_cast<const Pack<T, N>*>(from);
}

template <class T, int N>
__device__ void store_pack(T* to, const Pack<T, N>& values) {
  *reinterpret_cast<Pack<T, N>*>(to) = values;
}

// Returns true if `data` is aligned for Packs of N values.
template <int N, class T>
__host__ __device__ bool takes_packs(const T* data) {
  return reinterpret_cast<uintptr_t>(data) % (sizeof(T) * N) == 0;
}

// Load and store N values at any address; at once if `vectorized` says that the address is aligned.
template <int N, class T>
__device__ Pack<T, N> load_vector(const T* from, bool vectorized) {
  if (vectorized) return load_pack<N>(from);
  Pack<T, N> values;
  for (int k = 0; k < N; ++k) values[k] = from[k];
  return values;
}

template <class T, int N>
__device__ void store_some(T* to, const Pack<T, N>& values, bool vectorized) {
  if (vectorized) return store_pack(to, values);
  for (int k = 0; k < N; ++k) to[k] = values[k];
}

// Calls run(N) with a constant N: the number of neighbours in a row of `length` that a thread takes
// at a time.
template <class T, class Run>
void with_pack(int64_t length, Run&& run) {
  if (length % kPack<T> == 0)
    run(std::integral_constant<int, kPack<T>>());
  else
    run(std::integral_constant<int, 1>());
}

// Calls run(Index()) with the type that counts to `total`: 32 bits if possible, as 64-bit division
// is slow.
template <class Run>
void with_index(int64_t total, Run&& run) {
  if (total < int64_t{1} << 31)
    run(int32_t{});
  else
    run(int64_t{});
}

// Returns the reduction of the warp's values with `combine` to every lane. All lanes must call it.
template <class T, class Combine>
__device__ T warp_reduce(T value, Combine combine) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2)
    value = combine(value, __shfl_xor_sync(~0u, value, distance));
  return value;
}

// Returns the reduction of the block's values with `combine` to every thread; `neutral` changes no
// value. All threads must call it, kThreads in one dimension. `shared` holds
// block_values<kThreads>() values and may be reused after a barrier.
template <int kThreads>
__host__ __device__ constexpr int block_values() {
  return kThreads / kWarp;
}

template <int kThreads, class T, class Combine>
__device__ T block_reduce(T value, T neutral, T* shared, Combine combine) {
  static_assert(kThreads % kWarp == 0 && kThreads <= 1024);
  value = warp_reduce(value, combine);
  if constexpr (kThreads > kWarp) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    if (lane == 0) shared[threadIdx.x / kWarp] = value;
    __syncthreads();
    value = warp_reduce(lane < block_values<kThreads>() ? shared[lane] : neutral, combine);
  }
  return value;
}

template <int kThreads, class T>
__device__ T block_sum(T value, T* shared) {
  return block_reduce<kThreads>(value, T(0), shared, [](T a, T b) { return a + b; });
}

// Returns nonzero if any thread's value is not 0.
template <int kThreads>
__device__ int block_or(int value, int* shared) {
  return block_reduce<kThreads>(value, 0, shared, [](int a, int b) { return a | b; });
}

template <class T>
__device__ T warp_sum(T value) {
  return warp_reduce(value, [](T a, T b) { return a + b; });
}

}  // namespace tessera
