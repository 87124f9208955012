// Kernels that gather something over the rows of a matrix, for every column. For .cu files. A
// block's threads stand side by side on a few columns, in lines: line l takes rows l, l + lines and
// so on, and what the lines found is merged in a tree that follows from their number alone.
#pragma once

#include "tessera/runtime/cuda/device_code.h"

namespace tessera {

inline constexpr int kColumnThreads = 256;  // of a block
// Side by side where a block has all rows, and they are few: they fill what is loaded at once.
inline constexpr int kFewColumns = 8;

// How many threads of a block stand side by side, the least power of two for `columns` that is not
// above `most`.
inline int column_width(int64_t columns, int most = kWarp) {
  int width = 1;
  while (width < most && width < columns) width *= 2;
  return width;
}

// Where a thread stands. The grid has one dimension, as the others end at 65,535.
struct ColumnThread {
  int width;
  unsigned tiles;                                                  // blocks of threads side by side
  __device__ int64_t block() const { return blockIdx.x / tiles; }  // of rows
  __device__ int64_t column() const {                              // of threads
    return int64_t{blockIdx.x % tiles} * width + (static_cast<int>(threadIdx.x) & (width - 1));
  }
  __device__ int line() const { return static_cast<int>(threadIdx.x) / width; }
  __device__ int lines() const { return kColumnThreads / width; }
};

// What the lines found, merged with mine.merge(other) for line 0. All threads must come here; the
// block has shared memory for an A a thread.
template <class A>
__device__ void merge_lines(A& mine, ColumnThread place) {
  A* shared = dynamic_shared<A>();
  shared[threadIdx.x] = mine;
  __syncthreads();
  for (int half = place.lines() / 2; half > 0; half /= 2) {
    if (place.line() < half) {
      mine.merge(shared[static_cast<int>(threadIdx.x) + half * place.width]);
      shared[threadIdx.x] = mine;
    }
    __syncthreads();
  }
}

// N sums.
template <class T, int N>
struct ColumnSums {
  T at[N] = {};
  __device__ void merge(const ColumnSums& other) {
    for (int k = 0; k < N; ++k) at[k] += other.at[k];
  }
};

// The means of N columns and the sums of squared deviations from them, with the formula of Chan,
// Golub and LeVeque ("Updating formulae and a pairwise algorithm for computing sample variances",
// 1979).
template <class T, int N>
struct ColumnMoments {
  T mean[N] = {}, m2[N] = {};
  T count = 0;
  __device__ void merge(const ColumnMoments& other) {
    if (other.count == T(0)) return;
    const T share = other.count / (count + other.count), weight = count * share;
    for (int k = 0; k < N; ++k) {
      const T delta = other.mean[k] - mean[k];
      mean[k] += delta * share;
      m2[k] += other.m2[k] + delta * delta * weight;
    }
    count += other.count;
  }
};

// Launches kernel(args.., place) for `count` blocks of rows and all columns, of which a thread
// takes N, and `most` threads stand side by side. A: what the lines merge.
template <class A, class... P, class... Args>
void launch_columns(const char* name, void (*kernel)(P...), int64_t count, int64_t columns, int N,
                    int most, cudaStream_t stream, Args&&... args) {
  const int64_t packs = columns / N;
  const int width = column_width(packs, most);
  const auto tiles = static_cast<unsigned>(ceil_div<int64_t>(packs, width));
  launch(name, kernel, static_cast<unsigned>(count) * tiles, kColumnThreads,
         kColumnThreads * sizeof(A), stream, std::forward<Args>(args)...,
         ColumnThread{width, tiles});
}

}  // namespace tessera
