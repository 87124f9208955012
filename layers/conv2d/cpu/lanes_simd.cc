#include "tessera/layers/conv2d/cpu/lanes_simd.h"

#include "tessera/layers/shared/transpose_simd.h"

namespace tessera {
namespace {

// The registers of a vector.
template <class T>
constexpr int kRegisters = kWideLanes<T> / Vector<T>::kLanes;

// Maximum outputs of a tile, vectors for each number of outputs, and maximum taps and filters of a
// tile of sums. They leave registers for the factors.
#if defined(__AVX512F__)
constexpr int kMaxOutputs = 8;
constexpr int vectors_for(int outputs) { return outputs > 4 ? 3 : outputs > 2 ? 6 : 8; }
constexpr int kMaxTaps = 5, kMaxFilters = 4;
#else
constexpr int kMaxOutputs = 6;
constexpr int vectors_for(int outputs) { return outputs > 3 ? 1 : outputs > 1 ? 2 : 3; }
constexpr int kMaxTaps = 5, kMaxFilters = 2;
#endif

// Calls run(first lane) for each register of a vector.
template <class T, class F>
inline void for_registers(F run) {
  for (int first = 0; first < kWideLanes<T>; first += Vector<T>::kLanes) run(first);
}

// A tile of sums, passed as a whole, so that it stays in registers.
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

// Loads a tile (store() stores one): vector (i, o) is at i * i_step + o * o_step.
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

// Computes P vectors from j on of Q outputs from q on. Skips taps that are outside for all of them.
template <class T, int Q, int P>
void row_tile(const LanesRow<T>& p, int64_t j, int64_t q) {
  using V = Vector<T>;
  constexpr int R = kRegisters<T>;
  Tile<T, P * R, Q> tile;
  clear(tile);
  const int64_t left = p.base + j * p.step, right = left + (P - 1) * p.step;
  int64_t first = 0, last = p.taps;
  while (first < last && right + first * p.spacing < 0) ++first;
  while (first < last && left + (last - 1) * p.spacing >= p.width) --last;
  for (int64_t u = p.first_tap_row; u < p.last_tap_row; ++u) {
    for (int64_t v = first; v < last; ++v) {
      const T* x = p.x + u * p.x_row + v * p.x_tap + j * p.x_next;
      const T* f = p.f + (u * p.taps + v) * p.depth * p.outputs + q;
      for (int64_t k = 0; k < p.depth; ++k, x += p.x_channel, f += p.outputs) {
        typename V::Register xv[P * R];
        TESSERA_UNROLL
        for (int i = 0; i < P * R; ++i) xv[i] = V::load(x + i / R * p.x_next + i % R * V::kLanes);
        TESSERA_UNROLL
        for (int o = 0; o < Q; ++o) {
          const auto fv = V::fill(f + o);
          TESSERA_UNROLL
          for (int i = 0; i < P * R; ++i) tile.sum[i][o] = V::fma(xv[i], fv, tile.sum[i][o]);
        }
      }
    }
  }
  T* y = p.y + j * p.y_next + q * kWideLanes<T>;
  TESSERA_UNROLL
  for (int i = 0; i < P * R; ++i) TESSERA_UNROLL
  for (int o = 0; o < Q; ++o)
    V::store(y + i / R * p.y_next + i % R * V::kLanes + o * kWideLanes<T>, tile.sum[i][o]);
}

// Computes the last vectors, up to P.
template <class T, int Q, int P>
inline void row_rest(const LanesRow<T>& p, int64_t j, int64_t q) {
  if constexpr (P > 0) {
    if (p.vectors - j == P) return row_tile<T, Q, P>(p, j, q);
    row_rest<T, Q, P - 1>(p, j, q);
  }
}

// Computes all vectors of up to Q outputs.
template <class T, int Q>
inline void row_outputs(const LanesRow<T>& p, int64_t q, int64_t outputs) {
  if constexpr (Q > 0) {
    if (outputs < Q) return row_outputs<T, Q - 1>(p, q, outputs);
    constexpr int P = vectors_for(Q);
    int64_t j = 0;
    for (; j + P <= p.vectors; j += P) row_tile<T, Q, P>(p, j, q);
    row_rest<T, Q, P - 1>(p, j, q);
  }
}

template <class T>
void row(const LanesRow<T>& p) {
  const int64_t parts = (p.outputs + kMaxOutputs - 1) / kMaxOutputs;
  for (int64_t i = 0; i < parts; ++i) {
    const int64_t first = p.outputs * i / parts, last = p.outputs * (i + 1) / parts;
    row_outputs<T, kMaxOutputs>(p, first, last - first);
  }
}

template <class T, int S, int Q>
void outer_tile(const LanesOuter<T>& p) {
  using V = Vector<T>;
  Tile<T, S, Q> tile;
  load(tile, p.sum, kWideLanes<T>, p.sum_filter);
  int64_t offset[S];
  TESSERA_UNROLL
  for (int t = 0; t < S; ++t) offset[t] = p.offsets[t];
  for (int64_t line = 0; line < p.lines; ++line) {
    const T *x = p.x + line * p.x_line, *dy = p.dy + line * p.dy_line;
    for (int64_t j = p.vectors; j > 0; --j, x += p.x_next, dy += p.dy_next) {
      typename V::Register d[Q];
      TESSERA_UNROLL
      for (int q = 0; q < Q; ++q) d[q] = V::load(dy + q * kWideLanes<T>);
      TESSERA_UNROLL
      for (int t = 0; t < S; ++t) {
        const auto xv = V::load(x + offset[t]);
        TESSERA_UNROLL
        for (int q = 0; q < Q; ++q) tile.sum[t][q] = V::fma(xv, d[q], tile.sum[t][q]);
      }
    }
  }
  store(tile, p.sum, kWideLanes<T>, p.sum_filter);
}

template <class T, int S, int Q>
inline void outer_filters(const LanesOuter<T>& p) {
  if constexpr (Q > 0) {
    if (p.filters == Q) return outer_tile<T, S, Q>(p);
    outer_filters<T, S, Q - 1>(p);
  }
}

template <class T, int S>
inline void outer_taps(const LanesOuter<T>& p) {
  if constexpr (S > 0) {
    if (p.taps == S) return outer_filters<T, S, kMaxFilters>(p);
    outer_taps<T, S - 1>(p);
  }
}

template <class T>
void outer(const LanesOuter<T>& p) {
  for_registers<T>([&](int lane) {
    LanesOuter<T> own = p;
    own.x += lane, own.dy += lane, own.sum += lane;
    outer_taps<T, kMaxTaps>(own);
  });
}

// Transposes a square of elements. kAll: all lanes are used; otherwise the others are zero. kWhole:
// lines have at least as many elements as there are lanes.
template <class T, bool kAll, bool kWhole>
inline void gather_square(const T* from, int64_t stride, int used, int elements, T* to,
                          int64_t next) {
  using V = Vector<T>;
  constexpr int L = V::kLanes;
  typename V::Register a[L];
  TESSERA_UNROLL
  for (int i = 0; i < L; ++i)
    a[i] = !kAll && i >= used ? V::zero()
           : kWhole           ? V::load(from + i * stride)
                              : V::load_first(from + i * stride, elements);
  transpose(a);
  TESSERA_UNROLL
  for (int i = 0; i < L; ++i)
    if (kWhole || i < elements) V::store(to + i * next, a[i]);
}

template <class T, bool kAll, bool kWhole>
inline void scatter_square(const T* from, int64_t stride, int used, int elements, T* to) {
  using V = Vector<T>;
  constexpr int L = V::kLanes;
  typename V::Register a[L];
  TESSERA_UNROLL
  for (int i = 0; i < L; ++i)
    a[i] = kWhole || i < elements ? V::load(from + i * kWideLanes<T>) : V::zero();
  transpose(a);
  TESSERA_UNROLL
  for (int i = 0; i < L; ++i) {
    if (!kAll && i >= used) continue;
    if (kWhole) {
      V::store(to + i * stride, a[i]);
    } else {
      V::store_first(to + i * stride, a[i], elements);
    }
  }
}

// Calls square(first element) for each; the last square overlaps the one before it if `elements` is
// no multiple of L.
template <class T, class Square>
inline void for_squares(int64_t elements, const Square& square) {
  constexpr int L = Vector<T>::kLanes;
  for (int64_t e = 0; e < elements; e += L) square(e + L <= elements ? e : elements - L);
}

// Gathers the lanes of one register; `used` of them are set.
template <class T>
void gather_register(const T* from, int64_t stride, int used, int64_t elements, T* to,
                     int64_t next) {
  using V = Vector<T>;
  constexpr int L = V::kLanes;
  if (elements == 1 && stride == 1 && used > 0)  // already in order
    return V::store(to, used == L ? V::load(from) : V::load_first(from, used));
  const bool all = used == L, whole = elements >= L;
  const auto transpose = whole ? all ? gather_square<T, true, true> : gather_square<T, false, true>
                         : all ? gather_square<T, true, false>
                               : gather_square<T, false, false>;
  if (!whole) {
    if (elements > 0) transpose(from, stride, used, static_cast<int>(elements), to, next);
    return;
  }
  for_squares<T>(elements,
                 [&](int64_t e) { transpose(from + e, stride, used, L, to + e * next, next); });
}

template <class T>
void scatter_register(const T* from, int64_t stride, int used, int64_t elements, T* to) {
  constexpr int L = Vector<T>::kLanes;
  const bool all = used == L, whole = elements >= L;
  const auto transpose = whole
                             ? all ? scatter_square<T, true, true> : scatter_square<T, false, true>
                         : all ? scatter_square<T, true, false>
                               : scatter_square<T, false, false>;
  if (!whole) {
    if (elements > 0) transpose(from, stride, used, static_cast<int>(elements), to);
    return;
  }
  for_squares<T>(elements,
                 [&](int64_t e) { transpose(from + e * kWideLanes<T>, stride, used, L, to + e); });
}

// Returns how many of `used` lanes are in the register that begins with lane `first`.
template <class T>
inline int used_from(int first, int used) {
  constexpr int L = Vector<T>::kLanes;
  return used - first < 0 ? 0 : used - first < L ? used - first : L;
}

template <class T>
void gather(const T* from, int64_t stride, int used, int64_t elements, T* to, int64_t next) {
  for_registers<T>([&](int lane) {
    gather_register(from + lane * stride, stride, used_from<T>(lane, used), elements, to + lane,
                    next);
  });
}

template <class T>
void scatter(const T* from, int64_t stride, int used, int64_t elements, T* to) {
  for_registers<T>([&](int lane) {
    const int own = used_from<T>(lane, used);
    if (own > 0) scatter_register(from + lane, stride, own, elements, to + lane * stride);
  });
}

// Adds the second half of the lanes to the first, and so on.
template <class T>
void reduce(const T* from, int64_t elements, T* to) {
  using V = Vector<T>;
  constexpr int L = V::kLanes;
  for (int64_t e = 0; e < elements; e += L) {
    typename V::Register a[L];
    TESSERA_UNROLL
    for (int i = 0; i < L; ++i) {
      const T* lanes = from + (e + i) * kWideLanes<T>;
      a[i] = e + i < elements ? V::load(lanes) : V::zero();
      if (L < kWideLanes<T> && e + i < elements) a[i] = a[i] + V::load(lanes + L);
    }
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
constexpr LanesMicrokernelsOf<T> microkernels_of = {kMaxTaps,  kMaxFilters, row<T>,   outer<T>,
                                                    gather<T>, scatter<T>,  reduce<T>};

}  // namespace

namespace TESSERA_ISA {
extern const LanesMicrokernels lanes_microkernels = {microkernels_of<float>,
                                                     microkernels_of<double>};
}

}  // namespace tessera
