// Runs the blocks of a grid one after the other, each block's threads as fibers. A thread runs
// until it waits for others or ends; a kernel without barriers costs a loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include <cuda_runtime_api.h>

// The built-in variables of the current thread.
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

namespace cuda_double {

extern int thread_index;  // index of the current thread in its block

// A location in the source.
struct Site {
  const char* file;
  int line;
  static constexpr Site here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
  bool operator==(const Site& other) const { return line == other.line && file == other.file; }
};

inline int lane() { return thread_index % 32; }

// Implements __syncthreads. Every thread of the block must arrive, at the same site.
void wait_for_block(Site site);

constexpr size_t kLargestExchange = 16;

// Exchanges values between the lanes of `mask`: each gives `bytes` at `value`, and receives there
// the value of lane `from`. All of them must arrive at the same site, with the same mask.
void exchange(unsigned mask, void* value, size_t bytes, int from, Site site);

// Returns the shared memory of the current block, in the size that its launch requested, aligned to
// 16.
void* shared_memory();
template <class T>
T* dynamic_shared() {
  return static_cast<T*>(shared_memory());
}

// Calls `thread` for every thread of the grid, in an order derived from `seed`; 0 is the order of
// indices. Shared memory holds NaN when a block starts.
void run_grid(dim3 grid, dim3 block, size_t shared_bytes, const std::function<void()>& thread,
              uint64_t seed);

}  // namespace cuda_double
