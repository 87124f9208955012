// Kernels that go through their output in order and read each input at strides of its own. For .cu
// files.
#pragma once

#include <array>
#include <cstdint>
#include <limits>

#include <cuda_runtime_api.h>

#include "tessera/engine/lines.h"

namespace tessera {

// The output's axes, as few as describe it, and by how many elements each of N inputs moves on
// along them.
template <int N>
struct StridedAxes {
  int rank;
  int64_t size[kMaxRank];
  int64_t stride[N][kMaxRank];

  // The axes in the host's form, neighbours that are one run of elements in all inputs joined.
  StridedAxes(const Shape& out, const std::array<Strides, N>& strides) : rank(0), size{}, stride{} {
    for (int axis = 0; axis < out.rank(); ++axis) {
      if (out[axis] == 1) continue;
      bool joined = rank > 0;
      for (int k = 0; k < N; ++k)
        joined = joined && stride[k][rank - 1] == strides[k][axis] * out[axis];
      if (!joined) size[rank++] = 1;
      size[rank - 1] *= out[axis];
      for (int k = 0; k < N; ++k) stride[k][rank - 1] = strides[k][axis];
    }
    if (rank == 0) size[rank++] = 1;  // one element
  }

  int64_t elements() const {
    int64_t count = 1;
    for (int axis = 0; axis < rank; ++axis) count *= size[axis];
    return count;
  }
  // Whether 32 bits hold every index, which are divided several times faster.
  bool is_small() const { return elements() <= std::numeric_limits<int32_t>::max(); }

  // Where the inputs are read for element i of the output. Index holds i.
  template <class Index>
  __device__ void offsets(Index i, int64_t (&at)[N]) const {
    for (int k = 0; k < N; ++k) at[k] = 0;
    for (int axis = rank - 1; axis > 0; --axis) {
      const auto whole = static_cast<Index>(size[axis]);
      const Index next = i / whole;
      const int64_t here = i - next * whole;
      for (int k = 0; k < N; ++k) at[k] += here * stride[k][axis];
      i = next;
    }
    for (int k = 0; k < N; ++k) at[k] += i * stride[k][0];
  }
};

}  // namespace tessera
