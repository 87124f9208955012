// TensorTable: the tensor list of a multi-tensor kernel, passed in its parameters. One launch works
// on many small tensors, each cut into blocks of its own. For .cu files.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include <cuda_runtime_api.h>

namespace tessera {

// A kernel takes at most 32,764 bytes of parameters (CUDA 12.1). Parameters cost time at the
// launch, so there are two sizes of table.
inline constexpr int kFewTensors = 16, kManyTensors = 480;
inline constexpr size_t kMaxParameterBytes = 32764;

// Calls f(size, first, count) for each group of tensors that fits in a table; `size` is the table
// size as an integral_constant.
template <class F>
void for_tables(size_t tensors, F&& f) {
  for (size_t first = 0; first < tensors; first += kManyTensors) {
    const size_t count = std::min<size_t>(tensors - first, kManyTensors);
    if (count <= kFewTensors)
      f(std::integral_constant<int, kFewTensors>{}, first, count);
    else
      f(std::integral_constant<int, kManyTensors>{}, first, count);
  }
}

// Entry has `first`, the first block of its tensor; the tensors' blocks are consecutive.
template <class Entry, int kMax>
struct TensorTable {
  Entry tensors[kMax];
  int32_t count;

  void add(const Entry& entry) { tensors[count++] = entry; }

  __device__ const Entry& of_block(int32_t block) const {
    int low = 0, high = count;  // the last tensor that begins at or before the block
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (tensors[middle].first <= block ? low : high) = middle;
    }
    return tensors[low];
  }
};

}  // namespace tessera
