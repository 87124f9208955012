#include "tessera/layers/conv2d/cpu/depthwise_simd.h"

#include <algorithm>
#include <type_traits>

#include "tessera/layers/shared/activated_simd.h"

namespace tessera {

namespace {

// One lane, so that the last channels go through the same code as whole vectors.
template <class T>
struct Single {
  using Register = T;
  static constexpr int kLanes = 1;
  static T zero() { return T(0); }
  static T load(const T* p) { return *p; }
  static void store(T* p, T v) { *p = v; }
  static float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
  static double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
};

// Computes R pixels by N vectors of channels, from channel k on.
template <class V, int R, int N, class T>
inline void gather_tile(const DepthwiseProduct<T>& p, int64_t first, int64_t k) {
  const T* a[R];
  for (int r = 0; r < R; ++r) a[r] = p.a + p.a_rows[first + r] + k;
  typename V::Register sum[R][N];
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < N; ++v) sum[r][v] = V::zero();
  for (int64_t t = 0; t < p.taps; ++t) {
    const T* f = p.f + t * p.channels + k;
    const int64_t offset = p.offsets[t];
    for (int v = 0; v < N; ++v) {
      auto fv = V::load(f + v * V::kLanes);
      for (int r = 0; r < R; ++r)
        sum[r][v] = V::fma(V::load(a[r] + offset + v * V::kLanes), fv, sum[r][v]);
    }
  }
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < N; ++v) V::store(p.c + p.c_rows[first + r] + k + v * V::kLanes, sum[r][v]);
}

template <int R, class T>
inline void gather_rows(const DepthwiseProduct<T>& p, int64_t first) {
  using V = Vector<T>;
  int64_t k = 0;
  for (; k + 2 * V::kLanes <= p.channels; k += 2 * V::kLanes) gather_tile<V, R, 2>(p, first, k);
  for (; k + V::kLanes <= p.channels; k += V::kLanes) gather_tile<V, R, 1>(p, first, k);
  for (; k < p.channels; ++k) gather_tile<Single<T>, R, 1>(p, first, k);
}

template <class T>
void gather(const DepthwiseProduct<T>& p) {
  int64_t row = 0;
  for (; row + 4 <= p.rows; row += 4) gather_rows<4>(p, row);
  for (; row < p.rows; ++row) gather_rows<1>(p, row);
}

// Sums N taps of one vector of channels.
template <class V, int N, class T>
inline void outer_tile(const DepthwiseOuter<T>& p, int64_t first, int64_t k) {
  typename V::Register sum[N];
  int64_t offset[N];
  for (int t = 0; t < N; ++t) sum[t] = V::zero(), offset[t] = p.offsets[first + t];
  const T* a = p.a + k;
  for (int64_t line = 0; line < p.lines; ++line) {
    const T* b = p.b + line * p.b_line + k;
    for (int64_t l = 0; l < p.points; ++l, a += p.channels, b += p.b_point) {
      auto av = V::load(a);
      for (int t = 0; t < N; ++t) sum[t] = V::fma(av, V::load(b + offset[t]), sum[t]);
    }
  }
  for (int t = 0; t < N; ++t) {
    T* c = p.c + (first + t) * p.channels + k;
    V::store(c, p.accumulate ? V::load(c) + sum[t] : sum[t]);
  }
}

template <class V, class T>
inline void outer_taps(const DepthwiseOuter<T>& p, int64_t k) {
  int64_t t = 0;
  for (; t + 9 <= p.taps; t += 9) outer_tile<V, 9>(p, t, k);
  for (; t + 3 <= p.taps; t += 3) outer_tile<V, 3>(p, t, k);
  for (; t < p.taps; ++t) outer_tile<V, 1>(p, t, k);
}

template <class T>
void outer(const DepthwiseOuter<T>& p) {
  using V = Vector<T>;
  int64_t k = 0;
  for (; k + V::kLanes <= p.channels; k += V::kLanes) outer_taps<V>(p, k);
  for (; k < p.channels; ++k) outer_taps<Single<T>>(p, k);
}

// Maximum outputs of a row in a tile. Images of 7, 14, 28, 56 and 112 columns are cut into whole
// tiles. float64, which is for checking gradients, has few sizes, to compile faster.
template <class T>
constexpr int kMaxOutputs = std::is_same_v<T, double> ? 2 : 7;

// A vector of channels; the last one may be partial.
template <class T, bool kWhole>
struct Channels {
  using V = Vector<T>;
  using Register = typename V::Register;
  int count;
  template <class S>
  Register load(const S* p) const {
    return kWhole ? V::load(p) : V::load_first(p, count);
  }
  template <class S>
  void store(S* p, Register v) const {
    if constexpr (kWhole) {
      V::store(p, v);
    } else {
      V::store_first(p, v, count);
    }
  }
};

// The shape of a tile: kOut rows of kColumns outputs, with the taps of each. kEdge: some taps are
// outside the image.
template <int kTapRows_, int kTaps_, int kStep_, int kOut_, int kColumns_, bool kEdge_>
struct TileShape {
  static constexpr int kTapRows = kTapRows_, kTaps = kTaps_, kStep = kStep_, kOut = kOut_;
  static constexpr int kColumns = kColumns_;
  static constexpr bool kEdge = kEdge_;
  static constexpr int kInRows = (kOut - 1) * kStep + kTapRows;
  static constexpr int kInColumns = (kColumns - 1) * kStep + kTaps;
};

// The input of a tile: rows from its first column on; advance() moves to the next channels.
template <class T, class S>
struct TileInput {
  TileInput(const DepthwiseRows<T>& p, int64_t j)
      : channels(p.channels),
        first(j * S::kStep + p.base),
        width(p.width),
        ahead(p.fetch_next ? S::kOut * S::kStep * p.width * p.channels : 0) {
    for (int y = 0; y < S::kInRows; ++y)
      row[y] = p.rows[y] ? p.rows[y] + first * channels : nullptr;
  }
  bool outside(int c) const { return S::kEdge && (first + c < 0 || first + c >= width); }
  bool missing(int y) const { return S::kEdge && row[y] == nullptr; }
  void advance(int64_t lanes) {
    TESSERA_UNROLL
    for (int y = 0; y < S::kInRows; ++y)
      if (!missing(y)) row[y] += lanes;
  }

  const T* row[S::kInRows];
  int64_t channels, first, width;
  int64_t ahead;  // elements to the input of the next output rows, which is prefetched
};

// Calls run(x, r, i, t) for each product of a tile, in the order of the input's columns and rows:
// input x, output (r, i), tap t.
template <class S, class T, bool kWhole, class Run>
inline __attribute__((always_inline)) void for_products(const TileInput<T, S>& in,
                                                        Channels<Computed<T>, kWhole> channels,
                                                        Run run) {
  TESSERA_UNROLL
  for (int c = 0; c < S::kInColumns; ++c) {
    if (in.outside(c)) continue;
    TESSERA_UNROLL
    for (int y = 0; y < S::kInRows; ++y) {
      if (in.missing(y)) continue;
      const T* from = in.row[y] + c * in.channels;
      const auto x = channels.load(from);
      if (kWhole && y >= S::kInRows - S::kOut * S::kStep && c < S::kColumns * S::kStep)
        __builtin_prefetch(from + in.ahead, 0, 2);
      TESSERA_UNROLL
      for (int r = 0; r < S::kOut; ++r) {
        const int u = y - r * S::kStep;
        if (u < 0 || u >= S::kTapRows) continue;
        TESSERA_UNROLL
        for (int i = 0; i < S::kColumns; ++i) {
          const int v = c - i * S::kStep;
          if (v >= 0 && v < S::kTaps) run(x, r, i, u * S::kTaps + v);
        }
      }
    }
  }
}

template <class S, class T>
struct Products {
  using V = Vector<Computed<T>>;
  template <bool kWhole, class Sums, class After>
  static inline __attribute__((always_inline)) void store(const DepthwiseProducts<T>& p,
                                                          Channels<Computed<T>, kWhole> channels,
                                                          int64_t j, int64_t k, const Sums& sum,
                                                          const After& after) {
    const auto load = [&](const auto* from) __attribute__((always_inline)) {
      return channels.load(from + k);
    };
    const auto own = after.of_channels(load);
    const auto element = [&](int r, int i) { return p.out[r] - p.out[0] + (j + i) * p.out_column; };
    const auto place = [&](int64_t element) { return after.place(p.out[0], element) + k; };
    TESSERA_UNROLL
    for (int i = 0; i < S::kColumns; ++i) {
      if constexpr (After::kRoundsPairs && kWhole && S::kOut == 2) {
        const int64_t first = element(0, i), second = element(1, i);
        typename V::Register y[] = {sum[0][i], sum[1][i]};
        typename V::Register x[] = {after.residual(first, load), after.residual(second, load)};
        const auto halves = after.halves(y, x, {own, own});
        V::store(place(first), V::lower(halves)), V::store(place(second), V::upper(halves));
      } else {
        TESSERA_UNROLL
        for (int r = 0; r < S::kOut; ++r)
          channels.store(place(element(r, i)), after(sum[r][i], element(r, i), own, load));
      }
    }
  }
  template <bool kWhole>
  static inline __attribute__((always_inline)) void tile(const DepthwiseProducts<T>& p,
                                                         const TileInput<T, S>& in,
                                                         Channels<Computed<T>, kWhole> channels,
                                                         int64_t j, int64_t k) {
    typename V::Register sum[S::kOut][S::kColumns], f[S::kTapRows * S::kTaps];
    TESSERA_UNROLL
    for (int t = 0; t < S::kTapRows * S::kTaps; ++t)
      f[t] = channels.load(p.f + t * in.channels + k);
    TESSERA_UNROLL
    for (int r = 0; r < S::kOut; ++r) TESSERA_UNROLL
    for (int i = 0; i < S::kColumns; ++i) sum[r][i] = V::zero();
    for_products<S>(
        in, channels, [&](auto x, int r, int i, int t) __attribute__((always_inline)) {
          sum[r][i] = V::fma(x, f[t], sum[r][i]);
        });
    if constexpr (kActivates<T>)
      if (p.after.is_set())
        return with_activated<T, false>(
            p.after, [&](const auto& after)
                         __attribute__((always_inline)) { store(p, channels, j, k, sum, after); });
    store(p, channels, j, k, sum, Unchanged());
  }
};

template <class S, class T>
struct Sums {
  using V = Vector<Computed<T>>;
  template <bool kWhole>
  static inline __attribute__((always_inline)) void tile(const DepthwiseSums<T>& p,
                                                         const TileInput<T, S>& in,
                                                         Channels<Computed<T>, kWhole> channels,
                                                         int64_t j, int64_t k) {
    typename V::Register sum[S::kTapRows * S::kTaps], dy[S::kOut][S::kColumns];
    TESSERA_UNROLL
    for (int t = 0; t < S::kTapRows * S::kTaps; ++t)
      sum[t] = channels.load(p.sum + t * in.channels + k);
    TESSERA_UNROLL
    for (int r = 0; r < S::kOut; ++r) TESSERA_UNROLL
    for (int i = 0; i < S::kColumns; ++i)
      dy[r][i] = channels.load(p.dy[r] + (j + i) * in.channels + k);
    for_products<S>(
        in, channels, [&](auto x, int r, int i, int t) __attribute__((always_inline)) {
          sum[t] = V::fma(x, dy[r][i], sum[t]);
        });
    TESSERA_UNROLL
    for (int t = 0; t < S::kTapRows * S::kTaps; ++t)
      channels.store(p.sum + t * in.channels + k, sum[t]);
  }
};

// Computes all whole vectors of channels of the columns from j on.
template <template <class, class> class Work, class S, class T, class P>
void all_channels(const P& p, int64_t j) {
  constexpr int L = Vector<Computed<T>>::kLanes;
  TileInput<T, S> in(p.in, j);
  for (int64_t k = 0; k + L <= in.channels; k += L, in.advance(L))
    Work<S, T>::tile(p, in, Channels<Computed<T>, true>{L}, j, k);
}

// Computes the remaining channels, column by column.
template <template <class, class> class Work, class S, class T, class P>
void last_channels(const P& p) {
  constexpr int L = Vector<Computed<T>>::kLanes;
  const int64_t whole = p.in.channels / L * L;
  if (whole == p.in.channels) return;
  const Channels<Computed<T>, false> channels{static_cast<int>(p.in.channels - whole)};
  for (int64_t j = 0; j < p.in.columns; ++j) {
    TileInput<T, S> in(p.in, j);
    in.advance(whole);
    Work<S, T>::tile(p, in, channels, j, whole);
  }
}

// Computes a tile of `count` columns, up to kColumns. Only the largest tiles have a version that
// does not check each input column and row against the image.
template <template <class, class> class Work, int kTapRows, int kTaps, int kStep, int kOut,
          int kColumns, class T, class P>
inline void tile_of(const P& p, int64_t j, int64_t count) {
  if constexpr (kColumns > 0) {
    if (count < kColumns)
      return tile_of<Work, kTapRows, kTaps, kStep, kOut, kColumns - 1, T>(p, j, count);
    using Inner = TileShape<kTapRows, kTaps, kStep, kOut, kColumns, false>;
    using Edge = TileShape<kTapRows, kTaps, kStep, kOut, kColumns, true>;
    const int64_t first = j * kStep + p.in.base, last = first + Edge::kInColumns;
    if constexpr (kColumns >= kMaxOutputs<T> - 1)
      if (first >= 0 && last <= p.in.width &&
          std::find(p.in.rows, p.in.rows + Edge::kInRows, nullptr) == p.in.rows + Edge::kInRows)
        return all_channels<Work, Inner, T>(p, j);
    all_channels<Work, Edge, T>(p, j);
  }
}

template <template <class, class> class Work, int kTapRows, int kTaps, int kStep, int kOut, class T,
          class P>
void columns(const P& p) {
  const int64_t tiles = (p.in.columns + kMaxOutputs<T> - 1) / kMaxOutputs<T>;
  for (int64_t i = 0; i < tiles; ++i) {
    const int64_t j = p.in.columns * i / tiles, end = p.in.columns * (i + 1) / tiles;
    tile_of<Work, kTapRows, kTaps, kStep, kOut, kMaxOutputs<T>, T>(p, j, end - j);
  }
  last_channels<Work, TileShape<kTapRows, kTaps, kStep, kOut, 1, true>, T>(p);
}

template <template <class, class> class Work, int kStep, class T, class P>
void rows_of(const P& p, int rows) {
  if (rows == 2) return columns<Work, 3, 3, kStep, 2, T>(p);
  columns<Work, 3, 3, kStep, 1, T>(p);
}

template <int kTapRows, int kTaps, class T>
void products_of_taps(const DepthwiseProducts<T>& p) {
  columns<Products, kTapRows, kTaps, 1, 1, T>(p);
}

template <class T>
constexpr DepthwiseMicrokernelsOf<T> microkernels_of(void (*gather)(const DepthwiseProduct<T>&),
                                                     void (*outer)(const DepthwiseOuter<T>&)) {
  return {gather,
          outer,
          {rows_of<Products, 1, T>, rows_of<Products, 2, T>},
          {rows_of<Sums, 1, T>, rows_of<Sums, 2, T>},
          {{products_of_taps<1, 1, T>, products_of_taps<1, 2, T>},
           {products_of_taps<2, 1, T>, products_of_taps<2, 2, T>}},
          kActivates<T>};
}

}  // namespace

namespace TESSERA_ISA {
extern const DepthwiseMicrokernels depthwise_microkernels = {
    microkernels_of<float>(gather, outer), microkernels_of<double>(gather, outer),
    microkernels_of<bfloat16>(nullptr, nullptr)};
}

}  // namespace tessera
