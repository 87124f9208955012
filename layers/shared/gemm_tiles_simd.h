// The tiles of matrix products, of float, double and bfloat16. For *_simd.cc files compiled for
// AVX2 or more.
#pragma once

#include "tessera/layers/shared/activated_simd.h"
#include "tessera/layers/shared/gemm_simd.h"
#include "tessera/layers/shared/vector_simd.h"

namespace tessera {
namespace {

// The factors of a step of kDepthStep<T> products along the summed index, in each lane.
template <class T>
struct Factors {
  using V = Vector<T>;
  using Register = typename V::Register;
  static Register load(const T* b) { return V::load(b); }
  static Register fill(const T* a) { return V::fill(a); }
  static Register add(Register a, Register b, Register sum) { return V::fma(a, b, sum); }
  static Register add_sums(Register a, Register b) { return a + b; }
};

// Pairs, of which the second is multiplied first, rounding after each. VDPBF16PS does the same.
template <>
struct Factors<bfloat16> {
  using V = Vector<float>;
#if defined(__AVX512BF16__)
  using Register = __m512i;
  static Register load(const bfloat16* b) { return _mm512_loadu_si512(b); }
  static Register fill(const bfloat16* a) {
    int pair;
    __builtin_memcpy(&pair, a, sizeof(pair));
    return _mm512_set1_epi32(pair);
  }
  // The last element of an odd number.
  static Register fill_half(const bfloat16* a) { return _mm512_set1_epi32(a->bits); }
  static V::Register add(Register a, Register b, V::Register sum) {
    return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
  }
  // Flushes, as if the mode were set.
  static V::Register add_sums(V::Register a, V::Register b) {
    const V::Register sum = a + b;
    return _mm512_mask_and_ps(sum, V::denormal(sum), sum, _mm512_set1_ps(-0.0f));
  }
#else
  struct Register {
    V::Register first, second;
  };
#if defined(__AVX512F__)
  static Register load(const bfloat16* b) {
    const __m512i pairs = _mm512_loadu_si512(b);
    return {_mm512_castsi512_ps(_mm512_maskz_slli_epi32(0xffff, pairs, 16)),
            _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(-0x10000)))};
  }
#else
  static Register load(const bfloat16* b) {
    const __m256i pairs = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16)),
            _mm256_castsi256_ps(_mm256_and_si256(pairs, _mm256_set1_epi32(-0x10000)))};
  }
#endif
  // Fills registers with a pair that is widened already.
  static Register fill(const float* a) { return {V::fill(a), V::fill(a + 1)}; }
  static V::Register add(const Register& a, const Register& b, V::Register sum) {
    return V::fma(a.first, b.first, V::fma(a.second, b.second, sum));
  }
  static V::Register add_sums(V::Register a, V::Register b) { return a + b; }
#endif
};

// Whether pairs are split into two registers.
template <class T>
constexpr bool kSplitsPairs = sizeof(typename Factors<T>::Register) >
                              sizeof(typename Vector<Computed<T>>::Register);

// Elements of a row that are widened to float at once, as filling registers with a float takes no
// instruction that competes with FMAs.
constexpr int64_t kWidened = 64;
inline __attribute__((always_inline)) void widen(const bfloat16* from, int64_t count, float* to) {
  using V = Vector<float>;
  int64_t i = 0;
  for (; i + V::kLanes <= count; i += V::kLanes) V::store(to + i, V::load(from + i));
  if (i == count) return;
  if (i == 0) return V::store(to, V::load_first(from, static_cast<int>(count)));
  V::store(to + count - V::kLanes, V::load(from + count - V::kLanes));
  if (count % 2) to[count] = 0;
}

// Rows of a gather tile. Two vectors by six rows fill 16 registers, by five rows if pairs are
// split. Eight rows hide the latency and leave enough general registers for the row pointers, given
// 32 registers or only one vector. Four vectors of two panels by six rows, which fill 32 registers,
// take two thirds of the loads. Rows of an outer tile divide kMicroPanelRows. Wide ones have
// three vectors of columns.
#if defined(__AVX512F__)
template <class T, int N>
constexpr int kGatherRows = N == 4 ? 6 : 8;
constexpr int kOuterRows = 8;
template <class T>
constexpr bool kWideOuterTiles = true;
// Whether one vector is multiplied by 16 rows, if they are equally far apart.
template <class T>
constexpr bool kGathersRuns = !kSplitsPairs<T>;
#else
template <class T, int N>
constexpr int kGatherRows = N == 1 ? 8
                            : kSplitsPairs<T> ? 5
                                              : 6;
constexpr int kOuterRows = 4;
template <class T>
constexpr bool kWideOuterTiles = !kSplitsPairs<T>;
template <class T>
constexpr bool kGathersRuns = false;
#endif
template <class T>
constexpr bool kGathersPanels =
    Vector<Computed<T>>::kLanes == 16 && std::is_same_v<Computed<T>, float> && !kSplitsPairs<T>;
// Whether rows that are no whole tiles are cut into tiles of one row less: tiles of few rows would
// wait for the latency, above all that of VDPBF16PS.
template <class T, int N>
constexpr bool kGathersEvenly = (N == 4 || (N == 2 && std::is_same_v<T, bfloat16>)) &&
                                !kSplitsPairs<T>;
// Whether gather() applies a BiasActivation. It does not where denormal numbers are flushed.
template <class T>
constexpr bool kGatherActivates = kActivates<T> && !kSplitsPairs<T>;

// A tile of sums, passed as a whole so that it stays in registers.
template <class T, int R, int N>
struct Tile {
  typename Vector<T>::Register sum[R][N];
};

template <class T, int R, int N>
inline __attribute__((always_inline)) void clear(Tile<T, R, N>& tile) {
  TESSERA_UNROLL
  for (int r = 0; r < R; ++r) TESSERA_UNROLL
  for (int v = 0; v < N; ++v) tile.sum[r][v] = Vector<T>::zero();
}

// Adds one step of the summed index: in row r fill(r) times the vectors at b. If N is 4, the last
// two are b_panel elements after the first two.
template <class T, int R, int N, class Fill>
inline __attribute__((always_inline)) void add_products(Tile<Computed<T>, R, N>& tile, const T* b,
                                                        int64_t b_panel, const Fill& fill) {
  using F = Factors<T>;
  constexpr int kElements = Vector<Computed<T>>::kLanes * kDepthStep<T>;
  typename F::Register bv[N];
  TESSERA_UNROLL
  for (int v = 0; v < N; ++v)
    bv[v] = F::load(N == 4 && v >= 2 ? b + b_panel + (v - 2) * kElements : b + v * kElements);
  TESSERA_UNROLL
  for (int r = 0; r < R; ++r) {
    const auto av = fill(r);
    TESSERA_UNROLL
    for (int v = 0; v < N; ++v) tile.sum[r][v] = F::add(av, bv[v], tile.sum[r][v]);
  }
}

// Adds the first rows of a tile to C or stores them; the last vector may extend beyond C. The
// first element of C has index 0 to `after`.
template <class T, int R, int N, class After = Unchanged>
inline __attribute__((always_inline)) void finish(const Tile<Computed<T>, R, N>& tile,
                                                  Computed<T>* const* c, int rows, int64_t columns,
                                                  bool accumulate, Computed<T>* first,
                                                  const After& after = {}) {
  using V = Vector<Computed<T>>;
  constexpr int P = After::kRoundsPairs && N % 2 == 0 ? 2 : 1;  // vectors at once
  const int last = static_cast<int>(columns) - (N - 1) * V::kLanes;
  TESSERA_UNROLL
  for (int v = 0; v < N; v += P) {
    const bool whole = v < N - P || last == V::kLanes;
    const auto load_at = [&](int q) __attribute__((always_inline)) {
      return [ whole, last, at = v + q ](const auto* row) __attribute__((always_inline)) {
        const auto* from = row + at * V::kLanes;
        return whole || at < N - 1 ? V::load(from) : V::load_first(from, last);
      };
    };
    const decltype(after.of_channels(load_at(0))) of_channels[] = {
        after.of_channels(load_at(0)), after.of_channels(load_at(P - 1))};
    TESSERA_UNROLL
    for (int r = 0; r < R; ++r) {
      if (r >= rows) continue;
      const int64_t element = c[r] - first;
      typename V::Register y[P];
      TESSERA_UNROLL
      for (int q = 0; q < P; ++q) {
        const auto sum = tile.sum[r][v + q];
        y[q] = accumulate ? Factors<T>::add_sums(load_at(q)(c[r]), sum) : sum;
      }
      auto* const to = after.place(first, element) + v * V::kLanes;
      if constexpr (P == 2) {
        typename V::Register x[2];
        if (whole)
          after.load_residual(element + v * V::kLanes, x);
        else
          for (int q = 0; q < P; ++q) x[q] = after.residual(element, load_at(q));
        V::store_first(to, after.halves(y, x, of_channels), whole ? V::kLanes : last);
      } else {
        y[0] = after(y[0], element, of_channels[0], load_at(0));
        whole ? V::store(to, y[0]) : V::store_first(to, y[0], last);
      }
    }
  }
}

// Hides a value from the compiler, which else would compute a pointer for each row.
template <class X>
inline void hide(X& x) {
  asm("" : "+r"(x));
}

// Prefetches where a tile's sums or its result are stored, and what is added to them.
template <class T, int R, int N>
inline __attribute__((always_inline)) void fetch_results(const ImplicitGemmProduct<T>& p,
                                                         Computed<T>* const* c) {
  constexpr int kWidth = N * Vector<Computed<T>>::kLanes, kLine = 64 / sizeof(T);
  const auto fetch = [&](const auto* rows, int width) __attribute__((always_inline)) {
    TESSERA_UNROLL
    for (int r = 0; r < R; ++r) TESSERA_UNROLL
    for (int v = 0; v < width; v += static_cast<int>(64 / sizeof(*rows)))
      __builtin_prefetch(rows + (c[r] - p.c) + v);
  };
  if (p.after.result == nullptr || p.accumulate) {
    fetch(p.c, kWidth);
  } else {
    const bool more = p.after.bias && !p.after.residual && p.fetch_after;
    fetch(p.after.result, kLine);
    if (kWidth > kLine && more) fetch(p.after.result + kLine, kLine);
  }
  if (p.fetch_after && p.after.residual) fetch(p.after.residual, kWidth);
}

// Prefetches kLines lines in each step, next_step elements further than in the last.
// kAhead: prefetches the following rows of A, which exist. kWhole: no row is missing. kRun: 16 rows
// of A are equally far apart, so that a pointer serves four.
template <class T, int R, int N, bool kWhole, int kLines = 0, bool kAhead = false,
          bool kRun = false>
inline void gather_tile(const ImplicitGemmProduct<T>& p, int64_t first, const T* next = nullptr,
                        int64_t next_step = 0) {
  using S = Computed<T>;
  using F = Factors<T>;
  const int rows = kWhole || p.rows - first >= R ? R : static_cast<int>(p.rows - first);
  const auto row = [&](int r) { return first + (r < rows ? r : rows - 1); };
  const T* a[R];
  S* c[R];
  TESSERA_UNROLL
  for (int r = 0; r < R; ++r) {  // missing rows repeat the last, unstored
    a[r] = p.a + p.a_rows[row(r)];
    c[r] = p.c + p.c_rows[row(r)];
  }
  fetch_results<T, R, N>(p, c);
  Tile<S, R, N> tile;
  clear(tile);
  constexpr int kAheadRows = R <= 4 ? 4 : 8;  // a power of 2: masking l selects a row
  const T* ahead[kAheadRows];
  if constexpr (kAhead)
    for (int r = 0; r < kAheadRows; ++r) ahead[r] = p.a + p.a_rows[first + R + (r < R ? r : R - 1)];
  [[maybe_unused]] int64_t apart = a[R - 1] - a[R > 1 ? R - 2 : 0];
  if constexpr (kRun) hide(apart), hide(a[0]), hide(a[4]), hide(a[8]), hide(a[12]);
  const T* b = p.b;
  const int64_t b_stride = p.b_stride, b_panel = p.b_panel;
  [[maybe_unused]] alignas(64) float wide[kSplitsPairs<T> ? R : 1][kWidened];
  for (int64_t s = 0; s < p.segment_count; ++s) {
    const int64_t begin = p.segments[s].offset, end = begin + p.segments[s].length;
    if (s > 0) b = p.b + (p.segments[s].k - p.segments[0].k) * b_stride;
    for (int64_t l = begin; l < end; l += kDepthStep<T>) {
      [[maybe_unused]] const int64_t at = (l - begin) % kWidened;
      if constexpr (kSplitsPairs<T>) {
        if (at == 0)
          for (int r = 0; r < R; ++r)
            widen(a[r] + l, end - l < kWidened ? end - l : kWidened, wide[r]);
      } else if constexpr (kDepthStep < T >> 1) {
        if (l + 1 == end) {
          add_products<T>(tile, b, b_panel, [&](int r) { return F::fill_half(a[r] + l); });
          b += b_stride;
          break;
        }
      }
      if constexpr (kLines > 0) {
        for (int line = 0; line < kLines; ++line)
          __builtin_prefetch(next + line * 64 / static_cast<int>(sizeof(T)), 0, 2);
        next += next_step;
      }
      if constexpr (kAhead) {  // prefetches each row while l passes a line
        constexpr uint64_t kLine = 64 / sizeof(T);
        static_assert(R <= kAheadRows && kAheadRows * kDepthStep<T> <= kLine);
        const auto at = static_cast<uint64_t>(l);
        __builtin_prefetch(ahead[at / kDepthStep<T> % kAheadRows] + at / kLine * kLine);
      }
      add_products<T>(tile, b, b_panel, [&](int r) {
        if constexpr (kSplitsPairs<T>)
          return F::fill(wide[r] + at);
        else if constexpr (kRun)
          return F::fill(a[r / 4 * 4] + r % 4 * apart + l);
        else
          return F::fill(a[r] + l);
      });
      b += b_stride;
    }
  }
  if constexpr (kGatherActivates<T>)
    if (p.after.is_set())
      return with_activated<T, true>(
          p.after, [&](const auto& after) __attribute__((always_inline)) {
            finish<T>(tile, c, rows, p.columns, p.accumulate, p.c, after);
          });
  finish<T>(tile, c, rows, p.columns, p.accumulate, p.c);
}

// Computes the next `count` tiles of R rows; returns the row after them.
template <class T, int R, int N>
int64_t gather_tiles(const ImplicitGemmProduct<T>& p, int64_t row, int64_t count) {
  constexpr int kLines = N * sizeof(typename Vector<Computed<T>>::Register) > 64 ? 2 : 1;
  const int64_t end = row + count * R;
  if (p.fetch_rows)
    for (; row < end && p.rows - row >= 2 * R; row += R)
      gather_tile<T, R, N, true, 0, true>(p, row);
  if (const int64_t tiles = (end - row) / R; p.next && tiles > 0) {
    // Each tile fetches a part, so that the reads are as steady as the products.
    int64_t steps = 0;
    for (int64_t s = 0; s < p.segment_count; ++s)
      steps += (p.segments[s].length + kDepthStep<T> - 1) / kDepthStep<T>;
    const int64_t panels = N == 4 && tiles > 1 ? 2 : 1, each = (tiles + panels - 1) / panels;
    const int64_t step = (p.b_stride + each - 1) / each;
    for (int64_t t = 0; t < tiles; ++t, row += R) {
      const T* part = p.next + t / each * p.b_panel + steps * p.b_stride * (t % each) / each;
      if (tiles == 1)
        gather_tile<T, R, N, true, kLines>(p, row, part, step);
      else
        gather_tile<T, R, N, true, 1>(p, row, part, step);
    }
  }
  for (; row < end; row += R) gather_tile<T, R, N, true>(p, row);
  return row;
}

// Returns whether `count` rows are equally far apart.
inline bool is_run(const int64_t* rows, int count) {
  bool equal = true;
  for (int r = 2; r < count; ++r) equal &= rows[r] - rows[r - 1] == rows[1] - rows[0];
  return equal;
}

template <class T, int N>
void gather_vectors(const ImplicitGemmProduct<T>& p) {
  constexpr int R = kGatherRows<T, N>;
  int64_t row = 0;
  if constexpr (N == 1 && kGathersRuns<T>)
    while (p.rows - row >= 2 * R && !p.next && !p.fetch_rows) {
      const int rows = is_run(p.a_rows + row, 2 * R) ? 2 * R : R;
      if (rows > R)
        gather_tile<T, 2 * R, N, true, 0, false, true>(p, row);
      else
        gather_tile<T, R, N, true>(p, row);
      row += rows;
    }
  if constexpr (kGathersEvenly<T, N>)
    if (const int64_t tiles = (p.rows + R - 1) / R, missing = tiles * R - p.rows;
        missing > 0 && missing <= tiles) {
      ImplicitGemmProduct<T> rest = p;
      if (tiles > missing && !p.fetch_rows) rest.next = nullptr;  // it is fetched already
      gather_tiles<T, R, N>(p, 0, tiles - missing);
      gather_tiles<T, R - 1, N>(rest, (tiles - missing) * R, missing);
      return;
    }
  row = gather_tiles<T, R, N>(p, row, (p.rows - row) / R);
  if (p.rows - row > R / 2) return gather_tile<T, R, N, false>(p, row);
  if (p.rows - row > 1) gather_tile<T, R / 2, N, false>(p, row);
  if (p.rows - row == 1) gather_tile<T, 1, N, true>(p, row);
}

template <class T>
void gather(const ImplicitGemmProduct<T>& p) {
  if (p.vectors == 1) return gather_vectors<T, 1>(p);
  if constexpr (kGathersPanels<T>)
    if (p.vectors == 4) return gather_vectors<T, 4>(p);
  gather_vectors<T, 2>(p);
}

// Computes N registers of columns from `column` on. kFetch: prefetches a line of A, and from `next`
// a line of each point of B, unless null.
template <class T, int N, bool kFetch>
inline void outer_tile(const OuterProduct<T>& p, int64_t first, int64_t column, const T* ahead,
                       const T* next) {
  using S = Computed<T>;
  using V = Vector<S>;
  using F = Factors<T>;
  constexpr int R = kOuterRows, K = kDepthStep<T>;
  Tile<S, R, N> tile;
  clear(tile);
  const int rows = p.rows - first < R ? static_cast<int>(p.rows - first) : R;
  S* c[R];
  TESSERA_UNROLL
  for (int r = 0; r < R; ++r) {
    c[r] = p.c + (first + r) * p.c_stride + column;
    __builtin_prefetch(c[r], 1);
    if (N > 1) __builtin_prefetch(c[r] + (N - 1) * V::kLanes, 1);
  }
  const T* a = p.a + first / kMicroPanelRows * p.a_panel + first % kMicroPanelRows * K;
  const int64_t a_point = p.a_point, b_point = p.b_point, points = p.points;
  const int64_t ahead_point = ahead ? p.next_a_point : 0, next_point = next ? p.next_b_point : 0;
  const int64_t next_line = next ? p.next_b_line - points * next_point : 0;
  constexpr int64_t kPoints = kSplitsPairs<T> ? 8 : 1;  // widened at once
  [[maybe_unused]] alignas(64) float wide[kPoints][R * K];
  for (int64_t line = 0; line < p.lines; ++line) {
    const T* b = p.b + line * p.b_line + column * K;
    for (int64_t l = 0; l < points; ++l) {
      if constexpr (kSplitsPairs<T>)
        if (l % kPoints == 0)
          for (int64_t i = 0; i < kPoints && l + i < points; ++i)
            widen(a + i * a_point, R * K, wide[i]);
      add_products<T>(tile, b, 0, [&](int r) {
        if constexpr (kSplitsPairs<T>)
          return F::fill(wide[l % kPoints] + r * K);
        else
          return F::fill(a + r * K);
      });
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
  finish<T>(tile, c, rows, columns < width ? columns : width, p.accumulate, p.c);
}

// Computes up to N registers of columns: those that p.columns reaches.
template <class T, int N, bool kFetch>
inline void outer_tile_within(const OuterProduct<T>& p, int64_t first, int64_t column,
                              const T* ahead, const T* next) {
  using S = Computed<T>;
  if constexpr (N > 1 && (Vector<S>::kLanes < kWideLanes<S> || !kWideOuterTiles<T>))
    if (p.columns - column <= (N - 1) * Vector<S>::kLanes)
      return outer_tile_within<T, N - 1, kFetch>(p, first, column, ahead, next);
  outer_tile<T, N, kFetch>(p, first, column, ahead, next);
}

// Computes all columns, N registers at once.
template <class T, int N>
void outer_registers(const OuterProduct<T>& p) {
  using S = Computed<T>;
  constexpr int64_t kLine = 64 / sizeof(T);
  const int64_t width = (p.vectors * kWideLanes<S> + kLine - 1) / kLine * kLine;
  for (int64_t row = 0; row < p.rows; row += kOuterRows) {
    // A cache line has two or more row tiles of A; each fetches one line of B's points.
    const T* ahead = nullptr;
    if (p.next_a && row % kLine == 0) ahead = p.next_a + row;
    if (p.next_a2 && row % kLine == kOuterRows) ahead = p.next_a2 + row - kOuterRows;
    const int64_t line = row / kOuterRows * kLine;
    const T* next = nullptr;
    if (p.next_b && line < width) next = p.next_b + line;
    if (p.next_b2 && line >= width && line < 2 * width) next = p.next_b2 + line - width;
    for (int64_t column = 0; column < p.columns; column += N * Vector<S>::kLanes) {
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
  if (p.vectors == 3 && kWideOuterTiles<T>) return outer_registers<T, 3>(p);
  using S = Computed<T>;
  if (p.vectors > 1 || Vector<S>::kLanes < kWideLanes<S>) return outer_registers<T, 2>(p);
  outer_registers<T, 1>(p);
}

// Computes R by 4 dot products; missing rows and columns repeat the last one and are not stored.
template <class T, int R>
inline void dot_tile(const DotProduct<T>& p, int64_t i, int64_t j) {
  using S = Computed<T>;
  using V = Vector<S>;
  using F = Factors<T>;
  constexpr int N = 4, H = kWideLanes<S> / V::kLanes;  // H: registers, 1 or 2
  constexpr int kElements = V::kLanes * kDepthStep<T>, L = H * kElements;
  const int columns = p.columns - j < N ? static_cast<int>(p.columns - j) : N;
  const T *a[R], *b[N];
  TESSERA_UNROLL
  for (int r = 0; r < R; ++r) a[r] = p.a + (i + r) * p.a_stride;
  TESSERA_UNROLL
  for (int v = 0; v < N; ++v) b[v] = p.b + (j + (v < columns ? v : columns - 1)) * p.b_stride;
  Tile<S, R, N * H> tile;
  clear(tile);
  int64_t l = 0;
  for (; l + L <= p.k; l += L) {
    TESSERA_UNROLL
    for (int h = 0; h < H; ++h) {
      typename F::Register bv[N];
      TESSERA_UNROLL
      for (int v = 0; v < N; ++v) bv[v] = F::load(b[v] + l + h * kElements);
      TESSERA_UNROLL
      for (int r = 0; r < R; ++r) {
        const auto av = F::load(a[r] + l + h * kElements);
        TESSERA_UNROLL
        for (int v = 0; v < N; ++v)
          tile.sum[r][v * H + h] = F::add(av, bv[v], tile.sum[r][v * H + h]);
      }
    }
  }
  TESSERA_UNROLL
  for (int r = 0; r < R; ++r) {
    for (int v = 0; v < columns; ++v) {
      S lanes[V::kLanes], rest = 0;
      V::store(lanes, H == 1 ? tile.sum[r][v] : tile.sum[r][v * H] + tile.sum[r][v * H + H - 1]);
      for (int64_t t = l; t < p.k; ++t) rest += static_cast<S>(a[r][t]) * static_cast<S>(b[v][t]);
      for (int w = V::kLanes / 2; w > 0; w /= 2)
        for (int e = 0; e < w; ++e) lanes[e] += lanes[e + w];
      S* c = p.c + (i + r) * p.c_stride + j + v;
      *c = p.accumulate ? *c + (lanes[0] + rest) : lanes[0] + rest;
    }
  }
}

template <class T>
void dots(const DotProduct<T>& p) {
  constexpr int R = Vector<Computed<T>>::kLanes == kWideLanes<Computed<T>> ? 2 : 1;
  for (int64_t j = 0; j < p.columns; j += 4) {
    int64_t i = 0;
    for (; i + R <= p.m; i += R) dot_tile<T, R>(p, i, j);
    if (i < p.m) dot_tile<T, 1>(p, i, j);
  }
}

}  // namespace
}  // namespace tessera
