// The register-tiled products that matrix products and convolutions are made of. They keep a
// small tile of C in registers while they run along the summed index, which the caller keeps short
// enough for the caches.
#pragma once

#include <cstdint>

#include "tessera/runtime/simd/isa.h"

namespace tessera {

// A stretch of the summed index: `length` elements that lie `offset` elements after a row's start.
struct Segment {
  int64_t offset, length;
};

// C[c_rows[i] + j] (+)= sum over the segments s and their elements l of
//                       A[a_rows[i] + s.offset + l] * B[k * b_stride + j],   k counting all (s, l)
// for i < rows and j < columns. B is read `vectors` whole vectors wide, columns or not.
template <class T>
struct ImplicitGemmProduct {
  const T* a;
  const int64_t* a_rows;
  int64_t rows;
  const Segment* segments;
  int64_t segment_count;
  const T* b;
  int64_t b_stride;
  int vectors;  // 1 or 2
  int64_t columns;
  T* c;
  const int64_t* c_rows;
  bool accumulate;
  const T* next;    // what B will be in the next product, fetched into the cache meanwhile; or null
  bool fetch_rows;  // A is not in the cache: fetch its next rows meanwhile
};

// C[i * c_stride + j] (+)= sum over the points p of A(p)[i] * B(p)[j] for i < rows, j < columns.
// The points are `lines` times `points`; A(p) is a + p * a_point with quads of rows (row_tile of
// them) a_quad elements apart; B(p) is b + line * b_line + point * b_point, read `vectors` whole
// vectors wide, and A whole quads high. What comes after is fetched into the cache meanwhile: A
// a_ahead elements further, unless 0, and `vectors` vectors of each point of next_b and next_b2,
// whose lines and points are next_b_line and next_b_point apart, unless null.
template <class T>
struct OuterProduct {
  const T* a;
  int64_t a_point, a_quad, rows, a_ahead;
  const T* b;
  int64_t b_line, b_point, lines, points;
  int vectors;  // 1, 2 or 3
  int64_t columns;
  T* c;
  int64_t c_stride;
  bool accumulate;
  const T* next_b;
  const T* next_b2;
  int64_t next_b_line, next_b_point;
};

// C[i * c_stride + j] (+)= sum over l < k of A[i * a_stride + l] * B[j * b_stride + l], i < m, j <
// columns: both run along the summed index, so nothing need be packed. For few rows.
template <class T>
struct DotProduct {
  const T* a;
  int64_t a_stride, m;
  const T* b;
  int64_t b_stride, columns, k;
  T* c;
  int64_t c_stride;
  bool accumulate;
};

template <class T>
struct GemmMicrokernelsOf {
  int lanes;     // elements of a vector
  int row_tile;  // rows of A that an outer product takes at once ("quad")
  void (*gather)(const ImplicitGemmProduct<T>&);
  void (*outer)(const OuterProduct<T>&);
  void (*dots)(const DotProduct<T>&);
  // c[i * n + j] (+)= a[i] * b[j] for i < m, j < n: the product for a summed index of one value
  void (*scaled_rows)(const T* a, int64_t m, const T* b, int64_t n, T* c, bool accumulate);
  // to[i / row_tile][p][i % row_tile] = from[p * stride + i], i < count padded with zeros
  void (*pack_quads)(const T* from, int64_t stride, int64_t points, int64_t count, T* to);
  // to[p * width + j] = from[j * stride + p] for j < count, zero for count <= j < width
  void (*pack_transposed)(const T* from, int64_t stride, int64_t points, int64_t count,
                          int64_t width, T* to);
  // to[p * to_stride + j] = from[p * from_stride + j], j < length
  void (*copy_points)(const T* from, int64_t from_stride, int64_t points, int64_t length, T* to,
                      int64_t to_stride);
};

struct GemmMicrokernels {
  GemmMicrokernelsOf<float> f32;
  GemmMicrokernelsOf<double> f64;
};

TESSERA_DECLARE_AVX_MICROKERNELS(GemmMicrokernels, gemm_microkernels)

}  // namespace tessera
