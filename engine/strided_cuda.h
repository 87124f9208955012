// Kernels that visit their output in order and read each input with its own strides. For .cu files.
#pragma once

#include <array>
#include <cstdint>

#include <cuda_runtime_api.h>

#include "tessera/engine/dtype.h"
#include "tessera/engine/lines.h"
#include "tessera/runtime/cuda/context.h"
#include "tessera/runtime/cuda/device_code.h"

namespace tessera {

// The output's axes, merged as far as possible, and the strides of N inputs along them.
template <int N>
struct StridedAxes {
  int rank;
  int64_t size[kMaxRank];
  int64_t stride[N][kMaxRank];

  // Merges adjacent axes that are contiguous in all inputs.
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

  // Computes the offsets in the inputs for element i of the output. Index holds i.
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

// Loads N adjacent elements of a line, along which the input has stride `step`.
template <int N, class T>
__device__ Pack<T, N> load_line(const T* from, int64_t step) {
  if (step == 1 && takes_packs<N>(from)) return load_pack<N>(from);
  Pack<T, N> values;
  for (int k = 0; k < N; ++k) values[k] = from[k * step];
  return values;
}

inline constexpr int kStridedThreads = 256;

// Computes the elements of f's output, kNeighbours of a line at a time. f.make<N>(i, at, step)
// computes N elements from i on; it reads input k from at[k] with stride step[k].
template <class F, class Index>
__global__ void __launch_bounds__(kStridedThreads, 4)
    make_strided(const __grid_constant__ F f, const __grid_constant__ StridedAxes<F::kInputs> axes,
                 int64_t packs, int64_t total) {
  constexpr int N = F::kNeighbours;
  int64_t at[F::kInputs], step[F::kInputs];
  for (int k = 0; k < F::kInputs; ++k) step[k] = axes.stride[k][axes.rank - 1];
  for (int64_t i = first_index(); i < packs; i += index_stride()) {
    axes.offsets(static_cast<Index>(i * N), at);
    f.template make<N>(i * N, at, step);
  }
  for (int64_t i = packs * N + first_index(); i < total; i += index_stride()) {
    axes.offsets(static_cast<Index>(i), at);
    f.template make<1>(i, at, step);
  }
}

template <class F>
void launch_strided(CudaContext& ctx, const char* name, const F& f, const Shape& out,
                    const std::array<Strides, F::kInputs>& strides) {
  const int64_t total = out.elements();
  if (total == 0) return;
  CudaDeviceGuard guard(ctx.index());
  const StridedAxes<F::kInputs> axes(out, strides);
  constexpr int N = F::kNeighbours;
  // No pack may span two lines.
  const bool vectorized =
      takes_packs<N>(f.y) && (axes.rank == 1 || axes.size[axes.rank - 1] % N == 0);
  const int64_t packs = vectorized ? total / N : 0;
  with_index(total, [&](auto index) {
    launch(name, make_strided<F, decltype(index)>,
           grid_for(packs > 0 ? packs : total, kStridedThreads, 1 << 14), kStridedThreads, 0,
           ctx.cuda_stream(), f, axes, packs, total);
  });
}

// Calls fn with an unsigned integer of the dtype's size, to move bits.
template <class F>
void visit_bits(DType dtype, F&& fn) {
  if (size_of(dtype) == 1) fn(uint8_t{});
  if (size_of(dtype) == 2) fn(uint16_t{});
  if (size_of(dtype) == 4) fn(uint32_t{});
  if (size_of(dtype) == 8) fn(uint64_t{});
}

}  // namespace tessera
