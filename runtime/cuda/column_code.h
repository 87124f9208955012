// Column reductions: kernels that reduce the rows of a matrix for every column. For .cu files. The
// threads of a block are arranged in lines that span a few columns: line l takes rows l, l + lines
// and so on. The partial results of the lines are merged in a tree that depends only on their
// number.
#pragma once

#include "tessera/runtime/cuda/device_code.h"

namespace tessera {

inline constexpr int kColumnThreads = 256;  // threads of a block
// Maximum line width if one block has all rows and they are few: fills one wide load.
inline constexpr int kFewColumns = 8;

// Returns the number of threads per line: the least power of two >= `columns`, at most `most`.
inline int column_width(int64_t columns, int most = kWarp) {
  int width = 1;
  while (width < most && width < columns) width *= 2;
  return width;
}

// The position of a thread. The grid has one dimension, as the others end at 65,535.
struct ColumnThread {
  int width;
  unsigned tiles;                                                  // number of column tiles
  __device__ int64_t block() const { return blockIdx.x / tiles; }  // block of rows
  __device__ int64_t column() const {                              // index among the column groups
    return int64_t{blockIdx.x % tiles} * width + (static_cast<int>(threadIdx.x) & (width - 1));
  }
  __device__ int line() const { return static_cast<int>(threadIdx.x) / width; }
  __device__ int lines() const { return kColumnThreads / width; }
};

// Merges the partial results of all lines into line 0 with mine.merge(other). All threads must call
// it; the block has shared memory for one A per thread.
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

// Launches kernel(args.., place) for `count` blocks of rows and all columns. A thread takes N
// columns, a line has up to `most` threads, and lines merge values of type A.
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
