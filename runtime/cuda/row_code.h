// RowTeam: kernels that process rows. For .cu files. The threads of a team share a row: a warp, or
// a block for long rows. Which thread takes which elements depends only on the row's length.
#pragma once

#include "tessera/runtime/cuda/device_code.h"

namespace tessera {

inline constexpr int kRowThreads = 256;    // threads of a block: one or several teams
inline constexpr int64_t kWarpRow = 1024;  // maximum row length for a warp
inline constexpr size_t kRowShared = block_values<kRowThreads>() * sizeof(double);  // bytes

// A team of kTeam threads per row; a thread takes kVectorWidth neighbouring elements at a time.
template <int kTeam, int kVectorWidth>
struct RowTeam {
  static_assert(kTeam == kWarp || kTeam == kRowThreads);
  static constexpr int N = kVectorWidth;
  static constexpr int kRows = kRowThreads / kTeam;  // rows per block
  struct Add {
    template <class T>
    __device__ T operator()(T a, T b) const {
      return a + b;
    }
  };

  __device__ static int64_t row() {
    return int64_t{blockIdx.x} * kRows + static_cast<int>(threadIdx.x) / kTeam;
  }
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % kTeam; }

  // Calls fn(j) for the elements [j, j + N) that this thread takes.
  template <class F>
  __device__ static void each(int64_t length, F&& fn) {
    for (int64_t j = lane() * N; j < length; j += kTeam * N) fn(j);
  }

  // Return the reduction to every thread of the team; all of them must call it. last_reduce() is
  // for the last reduction of a kernel: it has no final barrier, so the shared memory must not be
  // reused.
  template <class T, class Combine>
  __device__ static T last_reduce(T value, T neutral, Combine combine) {
    if constexpr (kTeam == kWarp)
      return warp_reduce(value, combine);
    else
      return block_reduce<kTeam>(value, neutral, dynamic_shared<T>(), combine);
  }
  template <class T, class Combine>
  __device__ static T reduce(T value, T neutral, Combine combine) {
    value = last_reduce(value, neutral, combine);
    if constexpr (kTeam != kWarp) __syncthreads();
    return value;
  }
  template <class T>
  __device__ static T sum(T value) {
    return reduce(value, T(0), Add());
  }
  template <class T>
  __device__ static T last_sum(T value) {
    return last_reduce(value, T(0), Add());
  }
};

// Calls run(RowTeam<..>(), grid) for rows of T. If `packs` is set, a thread takes 16 bytes at a
// time if the length allows it. A block has kRowThreads threads and kRowShared bytes.
template <class T, bool packs = true, class Run>
void with_row_team(int64_t rows, int64_t length, Run&& run) {
  constexpr int N = packs ? kPack<T> : 1;
  const auto with = [&](auto team) {
    run(team, dim3(static_cast<unsigned>(ceil_div<int64_t>(rows, team.kRows))));
  };
  const bool whole = length % N == 0;
  if (length <= kWarpRow)
    whole ? with(RowTeam<kWarp, N>()) : with(RowTeam<kWarp, 1>());
  else
    whole ? with(RowTeam<kRowThreads, N>()) : with(RowTeam<kRowThreads, 1>());
}

// Returns the largest element of a row to every thread of its team; NaNs are ignored.
template <class Team, class T>
__device__ T row_max(const T* x, int64_t c, bool vectorized) {
  T most = -kInfinity<T>;
  Team::each(c, [&](int64_t j) {
    const Pack<T, Team::N> values = load_vector<Team::N>(x + j, vectorized);
    for (int k = 0; k < Team::N; ++k) most = values[k] > most ? values[k] : most;
  });
  return Team::reduce(most, most, [](T a, T b) { return a > b ? a : b; });
}

// Returns the sum over j of exp(x[j] - most), accumulated in Sum.
template <class Team, class Sum, class T>
__device__ Sum row_sum_exp(const T* x, int64_t c, T most, bool vectorized) {
  Sum sum = 0;
  Team::each(c, [&](int64_t j) {
    const Pack<T, Team::N> values = load_vector<Team::N>(x + j, vectorized);
    for (int k = 0; k < Team::N; ++k) sum += ::exp(values[k] - most);
  });
  return Team::sum(sum);
}

}  // namespace tessera
