// The register-tiled microkernels of matrix products and convolutions. They keep a small tile of C
// in registers along the summed index, which the caller keeps short enough for the caches.
#pragma once

#include <cstdint>

#include "tessera/engine/dtype.h"
#include "tessera/layers/shared/epilogue_hook.h"
#include "tessera/runtime/simd/isa.h"

namespace tessera {

// Elements of the summed index that are multiplied at once: pairs of bfloat16, whose products are
// exact in float32. They are summed in float32, in which denormal numbers count as 0.
template <class T>
inline constexpr int kDepthStep = std::is_same_v<T, bfloat16> ? 2 : 1;

// A segment of the summed index: `length` elements, beginning `offset` elements after the row's
// start, and with row k of B.
struct Segment {
  int64_t offset, length, k;
};

// C[c_rows[i] + j] (+)= sum over the segments s and their elements l of
//                       A[a_rows[i] + s.offset + l] * B[(s.k - k + l) * b_stride + j]
// for i < rows and j < columns, where k is that of the first segment. Reads `vectors` full vectors
// of B, whatever `columns` is. Pairs: rows of B are steps; each holds the elements of a step next
// to each other, B[k * b_stride + 2 j + element], 0 past the end of a segment.
template <class T>
struct ImplicitGemmProduct {
  const T* a;
  const int64_t* a_rows;
  int64_t rows;
  const Segment* segments;
  int64_t segment_count;
  const T* b;
  int64_t b_stride;
  int vectors;  // 1, 2, or 4 if the microkernels gather panels
  int64_t columns;
  int64_t b_panel;  // if 4, the last two vectors of B are b_panel elements after the first two
  Computed<T>* c;
  const int64_t* c_rows;
  bool accumulate;
  BiasActivation<T> after;  // applied to C if set; requires `activates`
  const T* next;     // B of the next product, which is not in the cache: prefetch it; or null
  bool fetch_rows;   // A is not in the cache: prefetch its next rows
  bool fetch_after;  // the residual and result of `after` are not in the cache: prefetch them
};

// C[i * c_stride + j] (+)= sum over the points p of A(p)[i] * B(p)[j] for i < rows, j < columns.
// The points are `lines` times `points`. A(p) is a + p * a_point; its rows form micro-panels
// of kMicroPanelRows rows, a_panel elements apart. B(p) is b + line * b_line + point * b_point.
// Reads full micro-panels of A and `vectors` full vectors of B, of kWideLanes each. Prefetches
// `rows` elements of each point of next_a and next_a2, next_a_point apart, and `vectors` vectors of
// each of next_b and next_b2, whose lines and points are next_b_line and next_b_point apart; any
// may be null. Pairs: a point is a step, A(p)[2 i + element] and B(p)[2 j + element].
inline constexpr int kMicroPanelRows = 8;
template <class T>
struct OuterProduct {
  const T* a;
  int64_t a_point, a_panel, rows;
  const T* b;
  int64_t b_line, b_point, lines, points;
  int vectors;  // 1, 2 or 3
  int64_t columns;
  Computed<T>* c;
  int64_t c_stride;
  bool accumulate;
  const T *next_a, *next_a2;
  int64_t next_a_point;
  const T *next_b, *next_b2;
  int64_t next_b_line, next_b_point;
};

// C[i * c_stride + j] (+)= sum over l < k of A[i * a_stride + l] * B[j * b_stride + l], i < m, j <
// columns. Both matrices are contiguous along l, so nothing is packed. For few rows.
template <class T>
struct DotProduct {
  const T* a;
  int64_t a_stride, m;
  const T* b;
  int64_t b_stride, columns, k;
  Computed<T>* c;
  int64_t c_stride;
  bool accumulate;
};

template <class T>
struct GemmMicrokernelsOf {
  int lanes;  // sums of a vector of gather()
  void (*gather)(const ImplicitGemmProduct<T>&);
  void (*outer)(const OuterProduct<T>&);
  // The packing functions put the elements of a step, k = kDepthStep<T> points, next to each other,
  // zero past the last point.
  //
  // to[i / kMicroPanelRows][p / k][i % kMicroPanelRows][p % k] = from[p * stride + i], i < count
  // padded with zeros
  void (*pack_micro_panels)(const T* from, int64_t stride, int64_t points, int64_t count, T* to);
  // to[(p / k * width + j) * k + p % k] = from[j * stride + p] for j < count, zero for count <= j <
  // width
  void (*pack_transposed)(const T* from, int64_t stride, int64_t points, int64_t count,
                          int64_t width, T* to);
  // to[p / k * to_stride + j * k + p % k] = from[p * from_stride + j], j < length
  void (*copy_points)(const T* from, int64_t from_stride, int64_t points, int64_t length, T* to,
                      int64_t to_stride);
  // to[p / k * to_stride + j * k + p % k] = from[p][j], j < length, or 0 if from[p] is null. Only
  // for pairs.
  void (*copy_scattered)(const T* const* from, int64_t points, int64_t length, T* to,
                         int64_t to_stride) = nullptr;
  void (*dots)(const DotProduct<T>&);
  bool gathers_panels = false;  // whether gather() multiplies two panels of B at once
  bool activates = false;       // whether gather() applies a BiasActivation
  // c[i * n + j] (+)= a[i] * b[j] for i < m, j < n: a product with k = 1. Not for pairs.
  void (*scaled_rows)(const T* a, int64_t m, const T* b, int64_t n, T* c,
                      bool accumulate) = nullptr;
};

struct GemmMicrokernels {
  GemmMicrokernelsOf<float> f32;
  GemmMicrokernelsOf<double> f64;
};

TESSERA_DECLARE_AVX_MICROKERNELS(GemmMicrokernels, gemm_microkernels)
TESSERA_DECLARE_BF16_MICROKERNELS(GemmMicrokernelsOf<bfloat16>, bf16_gemm_microkernels)

// Returns those of this processor's best instruction set.
template <class T>
const GemmMicrokernelsOf<T>& microkernels() {
  if constexpr (std::is_same_v<T, bfloat16>)
    return TESSERA_SELECT_BF16_MICROKERNELS(bf16_gemm_microkernels);
  else
    return microkernels_for<T>(TESSERA_SELECT_AVX_MICROKERNELS(gemm_microkernels));
}

}  // namespace tessera
