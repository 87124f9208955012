#include "tessera/layers/shared/gemm_simd.h"

#include "tessera/layers/shared/transpose_simd.h"

namespace tessera {
namespace {

// Rows of a gather tile. Two vectors by six rows fill 16 registers. Eight rows hide the latency and
// leave enough general registers for the row pointers, given 32 registers or only one vector. Rows
// of an outer tile divide kMicroPanelRows.
constexpr int kNarrowRows = 8;
#if defined(__AVX512F__)
constexpr int kGatherRows = 8, kOuterRows = 8;
#else
constexpr int kGatherRows = 6, kOuterRows = 4;
#endif

// A tile of sums, passed as a whole so that it stays in registers.
template <class T, int R, int N>
struct Tile {
  typename Vector<T>::Register sum[R][N];
};

// Adds the first rows of a tile to C or stores them; the last vector may extend beyond C.
template <class T, int R, int N>
inline __attribute__((always_inline)) void finish(const Tile<T, R, N>& tile, T* const* c, int rows,
                                                  int64_t columns, bool accumulate) {
  using V = Vector<T>;
  const int last = static_cast<int>(columns) - (N - 1) * V::kLanes;
  TESSERA_UNROLL
  for (int r = 0; r < R; ++r) {
    if (r >= rows) continue;
    TESSERA_UNROLL
    for (int v = 0; v < N; ++v) {
      T* to = c[r] + v * V::kLanes;
      if (v < N - 1 || last == V::kLanes) {
        V::store(to, accumulate ? V::load(to) + tile.sum[r][v] : tile.sum[r][v]);
      } else {
        V::store_first(to, accumulate ? V::load_first(to, last) + tile.sum[r][v] : tile.sum[r][v],
                       last);
      }
    }
  }
}

// kFetch: prefetches the next product's B. kAhead: prefetches the following rows of A, which exist.
template <class T, int R, int N, bool kFetch, bool kAhead = false>
inline void gather_tile(const ImplicitGemmProduct<T>& p, int64_t first) {
  using V = Vector<T>;
  const int rows = p.rows - first < R ? static_cast<int>(p.rows - first) : R;
  const T* a[R];
  T* c[R];
  TESSERA_UNROLL
  for (int r = 0; r < R; ++r) {  // missing rows repeat the last, unstored
    int64_t row = first + (r < rows ? r : rows - 1);
    a[r] = p.a + p.a_rows[row];
    c[r] = p.c + p.c_rows[row];
    __builtin_prefetch(c[r], 1);
    if (N > 1) __builtin_prefetch(c[r] + (N - 1) * V::kLanes, 1);
  }
  Tile<T, R, N> tile;
  TESSERA_UNROLL
  for (int r = 0; r < R; ++r) TESSERA_UNROLL
  for (int v = 0; v < N; ++v) tile.sum[r][v] = V::zero();
  constexpr int kAheadRows = R <= 4 ? 4 : 8;  // a power of 2: masking l selects a row
  const T* ahead[kAheadRows];
  if constexpr (kAhead)
    for (int r = 0; r < kAheadRows; ++r) ahead[r] = p.a + p.a_rows[first + R + (r < R ? r : R - 1)];
  const T *b = p.b, *next = p.next;
  const int64_t b_stride = p.b_stride;
  for (int64_t s = 0; s < p.segment_count; ++s) {
    const int64_t begin = p.segments[s].offset, end = begin + p.segments[s].length;
    for (int64_t l = begin; l < end; ++l) {
      typename V::Register bv[N];
      TESSERA_UNROLL
      for (int v = 0; v < N; ++v) bv[v] = V::load(b + v * V::kLanes);
      if constexpr (kFetch) {
        constexpr int kLine = 64 / sizeof(T);
        for (int e = 0; e < N * V::kLanes; e += kLine) __builtin_prefetch(next + e, 0, 2);
        next += b_stride;
      }
      if constexpr (kAhead) {  // prefetches each row while l passes a line
        constexpr int64_t kLine = 64 / sizeof(T);
        static_assert(R <= kAheadRows && kAheadRows <= kLine);
        __builtin_prefetch(ahead[l % kAheadRows] + l / kLine * kLine);
      }
      b += b_stride;
      TESSERA_UNROLL
      for (int r = 0; r < R; ++r) {
        auto av = V::fill(a[r] + l);
        TESSERA_UNROLL
        for (int v = 0; v < N; ++v) tile.sum[r][v] = V::fma(av, bv[v], tile.sum[r][v]);
      }
    }
  }
  finish(tile, c, rows, p.columns, p.accumulate);
}

template <class T, int N>
void gather_vectors(const ImplicitGemmProduct<T>& p) {
  constexpr int R = N == 1 ? kNarrowRows : kGatherRows;
  int64_t row = 0;
  if (p.next && p.rows >= R) gather_tile<T, R, N, true>(p, row), row += R;
  if (p.fetch_rows)
    for (; p.rows - row >= 2 * R; row += R) gather_tile<T, R, N, false, true>(p, row);
  for (; p.rows - row > R / 2; row += R) gather_tile<T, R, N, false>(p, row);
  if (p.rows - row > 1) gather_tile<T, R / 2, N, false>(p, row);
  if (p.rows - row == 1) gather_tile<T, 1, N, false>(p, row);
}

template <class T>
void gather(const ImplicitGemmProduct<T>& p) {
  if (p.vectors == 1) return gather_vectors<T, 1>(p);
  gather_vectors<T, 2>(p);
}

// Computes N registers of columns from `column` on. kFetch: prefetches a line of A, and from `next`
// a line of each point of B, unless null.
template <class T, int N, bool kFetch>
inline void outer_tile(const OuterProduct<T>& p, int64_t first, int64_t column, const T* ahead,
                       const T* next) {
  using V = Vector<T>;
  constexpr int R = kOuterRows;
  Tile<T, R, N> tile;
  TESSERA_UNROLL
  for (int r = 0; r < R; ++r) TESSERA_UNROLL
  for (int v = 0; v < N; ++v) tile.sum[r][v] = V::zero();
  const int rows = p.rows - first < R ? static_cast<int>(p.rows - first) : R;
  T* c[R];
  TESSERA_UNROLL
  for (int r = 0; r < R; ++r) {
    c[r] = p.c + (first + r) * p.c_stride + column;
    __builtin_prefetch(c[r], 1);
    if (N > 1) __builtin_prefetch(c[r] + (N - 1) * V::kLanes, 1);
  }
  const T* a = p.a + first / kMicroPanelRows * p.a_panel + first % kMicroPanelRows;
  const int64_t a_point = p.a_point, b_point = p.b_point;
  const int64_t ahead_point = ahead ? a_point : 0, next_point = next ? p.next_b_point : 0;
  const int64_t next_line = next ? p.next_b_line - p.points * next_point : 0;
  for (int64_t line = 0; line < p.lines; ++line) {
    const T* b = p.b + line * p.b_line + column;
    for (int64_t l = p.points; l > 0; --l) {
      typename V::Register bv[N];
      TESSERA_UNROLL
      for (int v = 0; v < N; ++v) bv[v] = V::load(b + v * V::kLanes);
      TESSERA_UNROLL
      for (int r = 0; r < R; ++r) {
        auto av = V::fill(a + r);
        TESSERA_UNROLL
        for (int v = 0; v < N; ++v) tile.sum[r][v] = V::fma(av, bv[v], tile.sum[r][v]);
      }
      if constexpr (kFetch) {
        __builtin_prefetch(ahead, 0, 2);
        __builtin_prefetch(next, 0, 2);
        ahead += ahead_point, next += next_point;
      }
      a += a_point;
      b += b_point;
    }
    if constexpr (kFetch) next += next_line;
  }
  const int64_t columns = p.columns - column, width = N * V::kLanes;
  finish(tile, c, rows, columns < width ? columns : width, p.accumulate);
}

// Computes up to N registers of columns: those that p.columns reaches.
template <class T, int N, bool kFetch>
inline void outer_tile_within(const OuterProduct<T>& p, int64_t first, int64_t column,
                              const T* ahead, const T* next) {
  if constexpr (N > 1 && Vector<T>::kLanes < kWideLanes<T>)
    if (p.columns - column <= (N - 1) * Vector<T>::kLanes)
      return outer_tile_within<T, N - 1, kFetch>(p, first, column, ahead, next);
  outer_tile<T, N, kFetch>(p, first, column, ahead, next);
}

// Computes all columns, N registers at once.
template <class T, int N>
void outer_registers(const OuterProduct<T>& p) {
  constexpr int64_t kLine = 64 / sizeof(T);
  const int64_t width = p.vectors * kWideLanes<T>;
  for (int64_t row = 0; row < p.rows; row += kOuterRows) {
    // A cache line has one or more row tiles of A; each fetches one line of B's points.
    const bool first = p.a_ahead && row % kLine == 0;
    const T* ahead = first ? p.a + row / kMicroPanelRows * p.a_panel + p.a_ahead : nullptr;
    const int64_t line = row / kOuterRows * kLine;
    const T* next = nullptr;
    if (p.next_b && line < width) next = p.next_b + line;
    if (p.next_b2 && line >= width && line < 2 * width) next = p.next_b2 + line - width;
    for (int64_t column = 0; column < p.columns; column += N * Vector<T>::kLanes) {
      if (column == 0 && (ahead || next)) {
        outer_tile_within<T, N, true>(p, row, column, ahead, next);
      } else {
        outer_tile_within<T, N, false>(p, row, column, nullptr, nullptr);
      }
    }
  }
}

template <class T>
void outer(const OuterProduct<T>& p) {
  if (p.vectors == 3) return outer_registers<T, 3>(p);
  if (p.vectors == 2 || Vector<T>::kLanes < kWideLanes<T>) return outer_registers<T, 2>(p);
  outer_registers<T, 1>(p);
}

// Computes R by 4 dot products; missing rows and columns repeat the last one and are not stored.
template <class T, int R>
inline void dot_tile(const DotProduct<T>& p, int64_t i, int64_t j) {
  using V = Vector<T>;
  constexpr int N = 4, L = kWideLanes<T>, H = L / V::kLanes;  // H: registers, 1 or 2
  const int columns = p.columns - j < N ? static_cast<int>(p.columns - j) : N;
  const T *a[R], *b[N];
  TESSERA_UNROLL
  for (int r = 0; r < R; ++r) a[r] = p.a + (i + r) * p.a_stride;
  TESSERA_UNROLL
  for (int v = 0; v < N; ++v) b[v] = p.b + (j + (v < columns ? v : columns - 1)) * p.b_stride;
  Tile<T, R, N * H> tile;
  TESSERA_UNROLL
  for (int r = 0; r < R; ++r) TESSERA_UNROLL
  for (int v = 0; v < N * H; ++v) tile.sum[r][v] = V::zero();
  int64_t l = 0;
  for (; l + L <= p.k; l += L) {
    TESSERA_UNROLL
    for (int h = 0; h < H; ++h) {
      typename V::Register bv[N];
      TESSERA_UNROLL
      for (int v = 0; v < N; ++v) bv[v] = V::load(b[v] + l + h * V::kLanes);
      TESSERA_UNROLL
      for (int r = 0; r < R; ++r) {
        auto av = V::load(a[r] + l + h * V::kLanes);
        TESSERA_UNROLL
        for (int v = 0; v < N; ++v)
          tile.sum[r][v * H + h] = V::fma(av, bv[v], tile.sum[r][v * H + h]);
      }
    }
  }
  TESSERA_UNROLL
  for (int r = 0; r < R; ++r) {
    for (int v = 0; v < columns; ++v) {
      T lanes[V::kLanes], rest = 0;
      V::store(lanes, H == 1 ? tile.sum[r][v] : tile.sum[r][v * H] + tile.sum[r][v * H + H - 1]);
      for (int64_t t = l; t < p.k; ++t) rest += a[r][t] * b[v][t];
      for (int w = V::kLanes / 2; w > 0; w /= 2)
        for (int e = 0; e < w; ++e) lanes[e] += lanes[e + w];
      T* c = p.c + (i + r) * p.c_stride + j + v;
      *c = p.accumulate ? *c + (lanes[0] + rest) : lanes[0] + rest;
    }
  }
}

template <class T>
void dots(const DotProduct<T>& p) {
  constexpr int R = Vector<T>::kLanes == kWideLanes<T> ? 2 : 1;
  for (int64_t j = 0; j < p.columns; j += 4) {
    int64_t i = 0;
    for (; i + R <= p.m; i += R) dot_tile<T, R>(p, i, j);
    if (i < p.m) dot_tile<T, 1>(p, i, j);
  }
}

template <class T>
void pack_micro_panels(const T* from, int64_t stride, int64_t points, int64_t count, T* to) {
  constexpr int R = kMicroPanelRows;
  constexpr int64_t kBlock = 16;  // points at once: their lines stay cached for all micro-panels
  const int64_t whole = count / R * R;
  for (int64_t p0 = 0; p0 < points; p0 += kBlock) {
    const int64_t p1 = p0 + kBlock < points ? p0 + kBlock : points;
    for (int64_t i = 0; i < whole; i += R)
      for (int64_t p = p0; p < p1; ++p)
        __builtin_memcpy(to + i * points + p * R, from + p * stride + i, R * sizeof(T));
  }
  if (whole == count) return;
  for (int64_t p = 0; p < points; ++p) TESSERA_UNROLL
  for (int r = 0; r < R; ++r)
    to[whole * points + p * R + r] = whole + r < count ? from[p * stride + whole + r] : T(0);
}

// to[p * to_stride + j] = from[j * stride + p] for a square of kSide<T> lines and points.
template <class T>
constexpr int kSide = 32 / sizeof(T);

inline void transpose(const float* from, int64_t stride, float* to, int64_t to_stride) {
  __m256 a[8];
  for (int i = 0; i < 8; ++i) a[i] = _mm256_loadu_ps(from + i * stride);
  transpose(a);
  for (int i = 0; i < 8; ++i) _mm256_storeu_ps(to + i * to_stride, a[i]);
}

inline void transpose(const double* from, int64_t stride, double* to, int64_t to_stride) {
  __m256d a[4];
  for (int i = 0; i < 4; ++i) a[i] = _mm256_loadu_pd(from + i * stride);
  transpose(a);
  for (int i = 0; i < 4; ++i) _mm256_storeu_pd(to + i * to_stride, a[i]);
}

template <class T>
void pack_transposed(const T* from, int64_t stride, int64_t points, int64_t count, int64_t width,
                     T* to) {
  constexpr int64_t S = kSide<T>;
  const int64_t lines = count / S * S, whole = points / S * S;
  for (int64_t p = 0; p < whole; p += S)
    for (int64_t j = 0; j < lines; j += S)
      transpose(from + j * stride + p, stride, to + p * width + j, width);
  for (int64_t p = 0; p < points; ++p)
    for (int64_t j = p < whole ? lines : 0; j < width; ++j)
      to[p * width + j] = j < count ? from[j * stride + p] : T(0);
}

// Copies N full vectors of each point.
template <class T, int N>
inline void copy_vectors(const T* from, int64_t from_stride, int64_t points, T* to,
                         int64_t to_stride) {
  using V = Vector<T>;
  for (int64_t p = 0; p < points; ++p, from += from_stride, to += to_stride) TESSERA_UNROLL
  for (int v = 0; v < N; ++v) V::store(to + v * V::kLanes, V::load(from + v * V::kLanes));
}

template <class T>
void copy_points(const T* from, int64_t from_stride, int64_t points, int64_t length, T* to,
                 int64_t to_stride) {
  using V = Vector<T>;
  constexpr int64_t L = V::kLanes;
  for (; length >= 3 * L; length -= 3 * L, from += 3 * L, to += 3 * L)
    copy_vectors<T, 3>(from, from_stride, points, to, to_stride);
  if (length >= 2 * L) {
    copy_vectors<T, 2>(from, from_stride, points, to, to_stride);
    length -= 2 * L, from += 2 * L, to += 2 * L;
  }
  if (length >= L) {
    copy_vectors<T, 1>(from, from_stride, points, to, to_stride);
    length -= L, from += L, to += L;
  }
  if (length == 0) return;
  for (int64_t p = 0; p < points; ++p, from += from_stride, to += to_stride)
    for (int64_t j = 0; j < length; ++j) to[j] = from[j];
}

// Adds the product to 0, as the other kernels sum: a product of -0 becomes 0.
template <class T>
void scaled_rows(const T* a, int64_t m, const T* b, int64_t n, T* c, bool accumulate) {
  using V = Vector<T>;
  const auto zero = V::zero();
  for (int64_t i = 0; i < m; ++i, c += n) {
    const auto row = V::fill(a + i);
    int64_t j = 0;
    for (; j + V::kLanes <= n; j += V::kLanes) {
      const auto y = V::fma(row, V::load(b + j), zero);
      V::store(c + j, accumulate ? V::load(c + j) + y : y);
    }
    if (const int rest = static_cast<int>(n - j); rest > 0) {
      const auto y = V::fma(row, V::load_first(b + j, rest), zero);
      V::store_first(c + j, accumulate ? V::load_first(c + j, rest) + y : y, rest);
    }
  }
}

template <class T>
constexpr GemmMicrokernelsOf<T> microkernels_of = {
    Vector<T>::kLanes,    gather<T>,          outer<T>,      dots<T>, scaled_rows<T>,
    pack_micro_panels<T>, pack_transposed<T>, copy_points<T>};

}  // namespace

namespace TESSERA_ISA {
extern const GemmMicrokernels gemm_microkernels = {microkernels_of<float>, microkernels_of<double>};
}

}  // namespace tessera
