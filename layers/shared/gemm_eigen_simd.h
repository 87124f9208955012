// The loops of the `eigen` algorithms: Eigen on the calling thread, on raw memory, compiled for
// each instruction set.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tessera/runtime/integers.h"
#include "tessera/runtime/simd/isa.h"

namespace tessera {

// c[i * c_stride + j] (+)= sum over l < k of op(a)[i, l] op(b)[l, j] for i < m, j < n, where
// op(a)[i, l] is a[i * a_stride + l], or a[l * a_stride + i] with transpose_a, and op(b)[l, j] is
// b[l * b_stride + j], or b[j * b_stride + l] with transpose_b. The order of the sums depends on
// m, n, k and the instruction set alone.
template <class T>
struct EigenProduct {
  int64_t m, n, k;
  const T* a;
  int64_t a_stride;
  bool transpose_a;
  const T* b;
  int64_t b_stride;
  bool transpose_b;
  T* c;
  int64_t c_stride;
  bool accumulate;
  T* packed;  // 64-byte aligned, EigenBlocks<T>(m, n, k).elements()
};

// The blocks of a and b that Eigen packs at once. Eigen's own block sizes depend on the caches of
// the processor, which would change the order of the sums.
template <class T>
struct EigenBlocks {
  int64_t rows, columns, depth;

  // A panel of a and one of b, for the widest registers, fit in 32 KB of L1: 1 KB of the summed
  // index. Blocks of b fit in 256 KB of L2.
  EigenBlocks(int64_t m, int64_t n, int64_t k) : rows(m) {
    const int64_t most = 1024 / static_cast<int64_t>(sizeof(T));
    depth = std::max<int64_t>(1, k <= most ? k : round_up(ceil_div(k, ceil_div(k, most)), 8));
    columns = std::min<int64_t>(n, 240);
  }
  int64_t a_elements() const {
    return round_up(rows * depth, 64 / static_cast<int64_t>(sizeof(T)));
  }
  int64_t elements() const { return a_elements() + columns * depth; }
};

// c[p * c_step + i] += a[p * a_step + i] * b[p * b_step + i] for p < points, i < channels.
template <class T>
struct EigenMultiplyAdd {
  int64_t points, channels;
  const T* a;
  int64_t a_step;
  const T* b;
  int64_t b_step;
  T* c;
  int64_t c_step;
};

template <class T>
struct EigenMicrokernelsOf {
  void (*product)(const EigenProduct<T>&);
  void (*multiply_add)(const EigenMultiplyAdd<T>&);
};

struct EigenMicrokernels {
  EigenMicrokernelsOf<float> f32;
  EigenMicrokernelsOf<double> f64;
};

TESSERA_DECLARE_MICROKERNELS(EigenMicrokernels, eigen_microkernels)

template <class T>
const EigenMicrokernelsOf<T>& eigen_microkernels() {
  return microkernels_for<T>(TESSERA_SELECT_MICROKERNELS(eigen_microkernels));
}

}  // namespace tessera
