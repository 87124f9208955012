#include "tessera/layers/conv2d_cpu/image_lanes_simd.h"

#include "tessera/layers/shared/transpose_simd.h"

namespace tessera {
namespace {

// Outputs of a tile, its columns for so many outputs, and the taps and filters of a tile of sums:
// as many as leave registers for what is multiplied.
#if defined(__AVX512F__)
constexpr int kMostOutputs = 8;
constexpr int columns_for(int outputs) { return outputs > 4 ? 3 : outputs > 2 ? 6 : 8; }
constexpr int kMostTaps = 5, kMostFilters = 4;
#else
constexpr int kMostOutputs = 6;
constexpr int columns_for(int outputs) {
  return outputs > 4 ? 2 : outputs > 2 ? 3 : outputs > 1 ? 4 : 6;
}
constexpr int kMostTaps = 5, kMostFilters = 2;
#endif

// A tile of sums; functions take it whole, so that it lives in registers.
template <class T, int P, int Q>
struct Tile {
  using V = Vector<T>;
  typename V::Register sum[P][Q];
};

template <class T, int P, int Q>
inline __attribute__((always_inline)) void clear(Tile<T, P, Q>& tile) {
  TESSERA_UNROLL
  for (int i = 0; i < P; ++i) TESSERA_UNROLL
  for (int o = 0; o < Q; ++o) tile.sum[i][o] = Vector<T>::zero();
}

// Vector (i, o) is at i * i_step + o * o_step.
template <class T, int P, int Q>
inline __attribute__((always_inline)) void load(Tile<T, P, Q>& tile, const T* from, int64_t i_step,
                                                int64_t o_step) {
  TESSERA_UNROLL
  for (int i = 0; i < P; ++i) TESSERA_UNROLL
  for (int o = 0; o < Q; ++o) tile.sum[i][o] = Vector<T>::load(from + i * i_step + o * o_step);
}
template <class T, int P, int Q>
inline __attribute__((always_inline)) void store(const Tile<T, P, Q>& tile, T* to, int64_t i_step,
                                                 int64_t o_step) {
  TESSERA_UNROLL
  for (int i = 0; i < P; ++i) TESSERA_UNROLL
  for (int o = 0; o < Q; ++o) Vector<T>::store(to + i * i_step + o * o_step, tile.sum[i][o]);
}

// P columns from j on by Q outputs from q on. Taps that all its columns have outside are left out.
template <class T, int Q, int P>
void row_tile(const ImageLanesRow<T>& p, int64_t j, int64_t q) {
  using V = Vector<T>;
  Tile<T, P, Q> tile;
  clear(tile);
  const int64_t left = p.base + j * p.step, right = left + (P - 1) * p.step;
  int64_t first = 0, last = p.taps;
  while (first < last && right + first * p.spacing < 0) ++first;
  while (first < last && left + (last - 1) * p.spacing >= p.width) --last;
  for (int64_t u = p.first_tap_row; u < p.last_tap_row; ++u) {
    for (int64_t v = first; v < last; ++v) {
      const T* x = p.x + u * p.x_row + v * p.x_tap + j * p.x_column;
      const T* f = p.f + (u * p.taps + v) * p.depth * p.outputs + q;
      for (int64_t k = 0; k < p.depth; ++k, x += V::kLanes, f += p.outputs) {
        typename V::Register xv[P];
        TESSERA_UNROLL
        for (int i = 0; i < P; ++i) xv[i] = V::load(x + i * p.x_column);
        TESSERA_UNROLL
        for (int o = 0; o < Q; ++o) {
          const auto fv = V::fill(f + o);
          TESSERA_UNROLL
          for (int i = 0; i < P; ++i) tile.sum[i][o] = V::fma(xv[i], fv, tile.sum[i][o]);
        }
      }
    }
  }
  store(tile, p.y + j * p.y_column + q * V::kLanes, p.y_column, V::kLanes);
}

// The last columns, up to P.
template <class T, int Q, int P>
inline void row_rest(const ImageLanesRow<T>& p, int64_t j, int64_t q) {
  if constexpr (P > 0) {
    if (p.columns - j == P) return row_tile<T, Q, P>(p, j, q);
    row_rest<T, Q, P - 1>(p, j, q);
  }
}

// Q or fewer outputs of all columns.
template <class T, int Q>
inline void row_outputs(const ImageLanesRow<T>& p, int64_t q, int64_t outputs) {
  if constexpr (Q > 0) {
    if (outputs < Q) return row_outputs<T, Q - 1>(p, q, outputs);
    constexpr int P = columns_for(Q);
    int64_t j = 0;
    for (; j + P <= p.columns; j += P) row_tile<T, Q, P>(p, j, q);
    row_rest<T, Q, P - 1>(p, j, q);
  }
}

template <class T>
void row(const ImageLanesRow<T>& p) {
  const int64_t parts = (p.outputs + kMostOutputs - 1) / kMostOutputs;
  for (int64_t i = 0; i < parts; ++i) {
    const int64_t first = p.outputs * i / parts, last = p.outputs * (i + 1) / parts;
    row_outputs<T, kMostOutputs>(p, first, last - first);
  }
}

template <class T, int S, int Q>
void outer_tile(const ImageLanesOuter<T>& p) {
  using V = Vector<T>;
  Tile<T, S, Q> tile;
  load(tile, p.sum, V::kLanes, p.sum_filter);
  int64_t offset[S];
  TESSERA_UNROLL
  for (int t = 0; t < S; ++t) offset[t] = p.offsets[t];
  for (int64_t line = 0; line < p.lines; ++line) {
    const T *x = p.x + line * p.x_line, *dy = p.dy + line * p.dy_line;
    for (int64_t j = p.columns; j > 0; --j, x += p.x_column, dy += p.dy_column) {
      typename V::Register d[Q];
      TESSERA_UNROLL
      for (int q = 0; q < Q; ++q) d[q] = V::load(dy + q * V::kLanes);
      TESSERA_UNROLL
      for (int t = 0; t < S; ++t) {
        const auto xv = V::load(x + offset[t]);
        TESSERA_UNROLL
        for (int q = 0; q < Q; ++q) tile.sum[t][q] = V::fma(xv, d[q], tile.sum[t][q]);
      }
    }
  }
  store(tile, p.sum, V::kLanes, p.sum_filter);
}

template <class T, int S, int Q>
inline void outer_filters(const ImageLanesOuter<T>& p) {
  if constexpr (Q > 0) {
    if (p.filters == Q) return outer_tile<T, S, Q>(p);
    outer_filters<T, S, Q - 1>(p);
  }
}

template <class T, int S>
inline void outer_taps(const ImageLanesOuter<T>& p) {
  if constexpr (S > 0) {
    if (p.taps == S) return outer_filters<T, S, kMostFilters>(p);
    outer_taps<T, S - 1>(p);
  }
}

template <class T>
void outer(const ImageLanesOuter<T>& p) {
  outer_taps<T, kMostTaps>(p);
}

// A square of elements of all images, or of some with zeros for the others.
template <class T, bool kAll>
inline void gather_square(const T* from, int64_t stride, int images, T* to) {
  using V = Vector<T>;
  constexpr int L = V::kLanes;
  typename V::Register a[L];
  TESSERA_UNROLL
  for (int i = 0; i < L; ++i) a[i] = kAll || i < images ? V::load(from + i * stride) : V::zero();
  transpose(a);
  TESSERA_UNROLL
  for (int i = 0; i < L; ++i) V::store(to + i * L, a[i]);
}

template <class T, bool kAll>
inline void scatter_square(const T* from, int64_t stride, int images, T* to) {
  using V = Vector<T>;
  constexpr int L = V::kLanes;
  typename V::Register a[L];
  TESSERA_UNROLL
  for (int i = 0; i < L; ++i) a[i] = V::load(from + i * L);
  transpose(a);
  TESSERA_UNROLL
  for (int i = 0; i < L; ++i)
    if (kAll || i < images) V::store(to + i * stride, a[i]);
}

// The last square begins within the one before it where elements are not a multiple.
template <class T>
inline int64_t square(int64_t e, int64_t elements) {
  return e + Vector<T>::kLanes <= elements ? e : elements - Vector<T>::kLanes;
}

template <class T>
void gather(const T* from, int64_t stride, int images, int64_t elements, T* to) {
  constexpr int L = Vector<T>::kLanes;
  if (elements < L) {
    for (int64_t e = 0; e < elements; ++e) TESSERA_UNROLL
    for (int i = 0; i < L; ++i) to[e * L + i] = i < images ? from[i * stride + e] : T(0);
    return;
  }
  for (int64_t e = 0; e < elements; e += L) {
    const int64_t at = square<T>(e, elements);
    const auto turn = images == L ? gather_square<T, true> : gather_square<T, false>;
    turn(from + at, stride, images, to + at * L);
  }
}

template <class T>
void scatter(const T* from, int64_t stride, int images, int64_t elements, T* to) {
  constexpr int L = Vector<T>::kLanes;
  if (elements < L) {
    for (int i = 0; i < images; ++i)
      for (int64_t e = 0; e < elements; ++e) to[i * stride + e] = from[e * L + i];
    return;
  }
  for (int64_t e = 0; e < elements; e += L) {
    const int64_t at = square<T>(e, elements);
    const auto turn = images == L ? scatter_square<T, true> : scatter_square<T, false>;
    turn(from + at * L, stride, images, to + at);
  }
}

template <class T>
void reduce(const T* from, int64_t elements, T* to) {
  using V = Vector<T>;
  constexpr int L = V::kLanes;
  for (int64_t e = 0; e < elements; e += L) {
    typename V::Register a[L];
    TESSERA_UNROLL
    for (int i = 0; i < L; ++i) a[i] = e + i < elements ? V::load(from + (e + i) * L) : V::zero();
    transpose(a);
    for (int width = L / 2; width > 0; width /= 2)
      for (int i = 0; i < width; ++i) a[i] = a[i] + a[i + width];
    if (e + L <= elements) {
      V::store(to + e, a[0]);
    } else {
      V::store_first(to + e, a[0], static_cast<int>(elements - e));
    }
  }
}

template <class T>
constexpr ImageLanesMicrokernelsOf<T> microkernels_of = {
    Vector<T>::kLanes, kMostTaps, kMostFilters, row<T>, outer<T>, gather<T>, scatter<T>, reduce<T>};

}  // namespace

namespace TESSERA_ISA {
extern const ImageLanesMicrokernels image_lanes_microkernels = {microkernels_of<float>,
                                                                microkernels_of<double>};
}

}  // namespace tessera
