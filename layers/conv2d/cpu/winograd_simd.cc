#include "tessera/layers/conv2d/cpu/winograd_simd.h"

#include <algorithm>
#include <array>

#include "tessera/layers/shared/vector_simd.h"

namespace tessera {
namespace {

using V = Vector<float>;
using Register = V::Register;
constexpr int kLanes = V::kLanes;

// Loops over registers must be unrolled, so that their arrays are in registers.
#define TESSERA_INLINED __attribute__((always_inline))  // for lambdas, too
#define TESSERA_INLINE inline TESSERA_INLINED

#if defined(__AVX512F__)
constexpr int kRows = 8;
#else
constexpr int kRows = 4;
#endif

Register constant(float value) { return V::fill(&value); }
Register multiply_add(float a, Register b, Register c) { return V::fma(constant(a), b, c); }

// An algorithm, along one side of a tile, has kPoints of a tile and kFilterPoints of a filter, the
// last of which serves all further points. Its passes read tiles of kIn pixels, kStep apart, and
// write kOut pixels. The points are those of Toom-Cook, including infinity.

// F(4, 3), from the polynomial x (x - a) (x + a) (x - b) (x + b). a, b and all entries of A and B
// are exact. This pair of short fractions has about an eighth of the error of 1 and 2.
struct F4 {
  static constexpr int kPoints = 6, kFilterPoints = 6;
  static constexpr float kA = 0.75f, kB = 1.5f;
  static constexpr float kA2 = kA * kA, kB2 = kB * kB, kA3 = kA2 * kA, kB3 = kB2 * kB;
  static constexpr float kProduct = kA2 * kB2, kSum = kA2 + kB2;
  static constexpr double kN0 = 1.0 / kProduct, kNa = 1.0 / (2.0 * kA2 * (kA2 - kB2)),
                          kNb = 1.0 / (2.0 * kB2 * (kB2 - kA2));

  struct Forward {
    static constexpr int kIn = 6, kStep = 4, kOut = 4;

    static TESSERA_INLINE void input(const Register* d, Register* t) {
      t[0] = multiply_add(kProduct, d[0], multiply_add(-kSum, d[2], d[4]));
      const Register even_a = multiply_add(-kB2, d[2], d[4]);
      const Register odd_a = multiply_add(-kB2, d[1], d[3]);
      t[1] = multiply_add(kA, odd_a, even_a);
      t[2] = multiply_add(-kA, odd_a, even_a);
      const Register even_b = multiply_add(-kA2, d[2], d[4]);
      const Register odd_b = multiply_add(-kA2, d[1], d[3]);
      t[3] = multiply_add(kB, odd_b, even_b);
      t[4] = multiply_add(-kB, odd_b, even_b);
      t[5] = multiply_add(kProduct, d[1], multiply_add(-kSum, d[3], d[5]));
    }
    static TESSERA_INLINE void output(const Register* m, Register* y) {
      const Register sum_a = m[1] + m[2], difference_a = m[1] - m[2];
      const Register sum_b = m[3] + m[4], difference_b = m[3] - m[4];
      y[0] = (m[0] + sum_a) + sum_b;
      y[1] = multiply_add(kA, difference_a, constant(kB) * difference_b);
      y[2] = multiply_add(kA2, sum_a, constant(kB2) * sum_b);
      y[3] = multiply_add(kA3, difference_a, multiply_add(kB3, difference_b, m[5]));
    }
  };
  using InputGrad = Forward;

  static TESSERA_INLINE void gradient(const Register* y, Register* m) {
    m[0] = y[0];
    const Register even_a = multiply_add(kA2, y[2], y[0]), odd_a = multiply_add(kA2, y[3], y[1]);
    m[1] = multiply_add(kA, odd_a, even_a);
    m[2] = multiply_add(-kA, odd_a, even_a);
    const Register even_b = multiply_add(kB2, y[2], y[0]), odd_b = multiply_add(kB2, y[3], y[1]);
    m[3] = multiply_add(kB, odd_b, even_b);
    m[4] = multiply_add(-kB, odd_b, even_b);
    m[5] = y[3];
  }
  static TESSERA_INLINE void filters(const Register* g, Register* u) {
    u[0] = constant(kN0) * g[0];
    const Register even_a = multiply_add(kA2, g[2], g[0]), odd_a = constant(kA) * g[1];
    u[1] = constant(kNa) * (even_a + odd_a);
    u[2] = constant(kNa) * (even_a - odd_a);
    const Register even_b = multiply_add(kB2, g[2], g[0]), odd_b = constant(kB) * g[1];
    u[3] = constant(kNb) * (even_b + odd_b);
    u[4] = constant(kNb) * (even_b - odd_b);
    u[5] = g[2];
  }
  static TESSERA_INLINE void filter_gradient(const Register* u, Register* g) {
    const Register sum_a = constant(kNa) * (u[1] + u[2]), sum_b = constant(kNb) * (u[3] + u[4]);
    const Register difference_a = constant(kNa) * (u[1] - u[2]);
    const Register difference_b = constant(kNb) * (u[3] - u[4]);
    g[0] = multiply_add(kN0, u[0], sum_a + sum_b);
    g[1] = multiply_add(kA, difference_a, constant(kB) * difference_b);
    g[2] = multiply_add(kA2, sum_a, multiply_add(kB2, sum_b, u[5]));
  }
};

// F(2, 3), from the points 0, 1 and -1.
struct F2 {
  static constexpr int kPoints = 4, kFilterPoints = 4;

  struct Forward {
    static constexpr int kIn = 4, kStep = 2, kOut = 2;

    static TESSERA_INLINE void input(const Register* d, Register* t) {
      t[0] = d[0] - d[2];
      t[1] = d[1] + d[2];
      t[2] = d[2] - d[1];
      t[3] = d[3] - d[1];
    }
    static TESSERA_INLINE void output(const Register* m, Register* y) {
      y[0] = (m[0] + m[1]) + m[2];
      y[1] = (m[1] - m[2]) + m[3];
    }
  };
  using InputGrad = Forward;

  static TESSERA_INLINE void gradient(const Register* y, Register* m) {
    m[0] = y[0];
    m[1] = y[0] + y[1];
    m[2] = y[0] - y[1];
    m[3] = y[1];
  }
  static TESSERA_INLINE void filters(const Register* g, Register* u) {
    const Register even = constant(0.5f) * (g[0] + g[2]), odd = constant(0.5f) * g[1];
    u[0] = g[0];
    u[1] = even + odd;
    u[2] = even - odd;
    u[3] = g[2];
  }
  static TESSERA_INLINE void filter_gradient(const Register* u, Register* g) {
    const Register sum = constant(0.5f) * (u[1] + u[2]);
    g[0] = u[0] + sum;
    g[1] = constant(0.5f) * (u[1] - u[2]);
    g[2] = sum + u[3];
  }
};

// Stride 2 with padding 1. Taps 0 and 2 read every second pixel of x: F(4, 2) from the polynomial
// x (x - a) (x + a) (x - b). Tap 1 reads the other pixels: one product each. So 9 multiplications,
// 5 and 4, give 4 pixels of y, or 8 of dx, instead of 12. These a and b have the least error among
// short fractions.
struct F4Stride2 {
  static constexpr int kPoints = 9, kFilterPoints = 6;
  static constexpr float kA = 0.75f, kB = 1.75f;
  static constexpr float kA2 = kA * kA, kB2 = kB * kB, kA3 = kA2 * kA, kB3 = kB2 * kB;
  static constexpr double kN0 = 1.0 / (kA2 * kB), kNa = 1.0 / (2 * kA2 * (kA - kB)),
                          kNc = -1.0 / (2 * kA2 * (kA + kB)), kNb = 1.0 / (kB * (kB2 - kA2));

  // Computes the input transform of F(4, 2).
  static TESSERA_INLINE void pairs_input(const Register* d, int64_t step, Register* t) {
    const Register even = multiply_add(-kA2, d[0], d[2 * step]);
    const Register odd = multiply_add(-kA2, d[step], d[3 * step]);
    const Register low = multiply_add(-kB, d[step], d[2 * step]);
    const Register high = multiply_add(-kB, d[2 * step], d[3 * step]);
    t[0] = multiply_add(-kB, even, odd);
    t[1] = multiply_add(kA, low, high);
    t[2] = multiply_add(-kA, low, high);
    t[3] = odd;
    t[4] = multiply_add(-kB, odd, multiply_add(-kA2, d[2 * step], d[4 * step]));
  }
  // Adds the output transform of F(4, 2) to y.
  static TESSERA_INLINE void pairs_output(const Register* m, Register* y, int64_t step) {
    const Register sum = m[1] + m[2], difference = m[1] - m[2];
    y[0] = (y[0] + m[0]) + (sum + m[3]);
    y[step] = multiply_add(kA, difference, multiply_add(kB, m[3], y[step]));
    y[2 * step] = multiply_add(kA2, sum, multiply_add(kB2, m[3], y[2 * step]));
    y[3 * step] = multiply_add(kA3, difference, multiply_add(kB3, m[3], y[3 * step] + m[4]));
  }

  struct Forward {
    static constexpr int kIn = 9, kStep = 8, kOut = 4;

    static TESSERA_INLINE void input(const Register* d, Register* t) {
      pairs_input(d, 2, t);
      for (int i = 0; i < 4; ++i) t[5 + i] = d[2 * i + 1];
    }
    static TESSERA_INLINE void output(const Register* m, Register* y) {
      for (int i = 0; i < 4; ++i) y[i] = m[5 + i];
      pairs_output(m, y, 1);
    }
  };
  // An even pixel of dx reads tap 1 of one pixel of dy; an odd pixel reads taps 2 and 0 of two.
  struct InputGrad {
    static constexpr int kIn = 5, kStep = 4, kOut = 8;

    static TESSERA_INLINE void input(const Register* d, Register* t) {
      pairs_input(d, 1, t);
      for (int i = 0; i < 4; ++i) t[5 + i] = d[i];
    }
    static TESSERA_INLINE void output(const Register* m, Register* y) {
      for (int i = 0; i < 4; ++i) y[2 * i] = m[5 + i], y[2 * i + 1] = V::zero();
      pairs_output(m, y + 1, 2);
    }
  };

  static TESSERA_INLINE void gradient(const Register* y, Register* m) {
    m[0] = y[0];
    const Register even = multiply_add(kA2, y[2], y[0]), odd = multiply_add(kA2, y[3], y[1]);
    m[1] = multiply_add(kA, odd, even);
    m[2] = multiply_add(-kA, odd, even);
    m[3] = multiply_add(kB, multiply_add(kB, multiply_add(kB, y[3], y[2]), y[1]), y[0]);
    m[4] = y[3];
    for (int i = 0; i < 4; ++i) m[5 + i] = y[i];
  }
  static TESSERA_INLINE void filters(const Register* g, Register* u) {
    u[0] = constant(kN0) * g[0];
    u[1] = constant(kNa) * multiply_add(kA, g[2], g[0]);
    u[2] = constant(kNc) * multiply_add(-kA, g[2], g[0]);
    u[3] = constant(kNb) * multiply_add(kB, g[2], g[0]);
    u[4] = g[2];
    u[5] = g[1];
  }
  static TESSERA_INLINE void filter_gradient(const Register* u, Register* g) {
    const Register a = constant(kNa) * u[1], c = constant(kNc) * u[2], b = constant(kNb) * u[3];
    g[0] = multiply_add(kN0, u[0], (a + c) + b);
    g[1] = u[5];
    g[2] = multiply_add(kA, a - c, multiply_add(kB, b, u[4]));
  }
};

// Whole vectors of channels, or the first `count` channels of the last one.
struct WholeVector {
  template <class S>
  Register load(const S* p) const {
    return V::load(p);
  }
  void store(float* p, Register v) const { V::store(p, v); }
};
struct PartVector {
  int count;
  template <class S>
  Register load(const S* p) const {
    return V::load_first(p, count);
  }
  void store(float* p, Register v) const { V::store_first(p, v, count); }
};

template <class F>
TESSERA_INLINE void for_vectors(int64_t channels, F run) {
  int64_t c = 0;
  for (; c + kLanes <= channels; c += kLanes) run(c, WholeVector{});
  if (c < channels) run(c, PartVector{static_cast<int>(channels - c)});
}

// Applies `transform`, from kFrom vectors to kTo, first along the columns, then along the rows.
template <int kFrom, int kTo, class Load, class Store, class F>
TESSERA_INLINE void both_ways(Load load, F transform, Store store) {
  Register half[kFrom][kTo];
  TESSERA_UNROLL for (int j = 0; j < kFrom; ++j) {
    Register column[kFrom];
    TESSERA_UNROLL for (int i = 0; i < kFrom; ++i) column[i] = load(i, j);
    transform(column, half[j]);
  }
  TESSERA_UNROLL for (int i = 0; i < kTo; ++i) {
    Register row[kFrom], result[kTo];
    TESSERA_UNROLL for (int j = 0; j < kFrom; ++j) row[j] = half[j][i];
    transform(row, result);
    TESSERA_UNROLL for (int j = 0; j < kTo; ++j) store(i, j, result[j]);
  }
}

template <int kFrom>
bool whole(const WinogradExtent& in) {
  return in.row_begin == 0 && in.row_end == kFrom && in.column_begin == 0 && in.column_end == kFrom;
}

template <int kFrom, int kTo, bool kWhole, class S, class F>
TESSERA_INLINE void transform_image(const WinogradRead<S>& tile, F transform) {
  const WinogradRead<S> t = tile;  // a copy, as a vector's store might alias `tile`
  const WinogradExtent in = t.inside;
  for_vectors(t.channels, [&](int64_t c, auto vector) TESSERA_INLINED {
    const S* image = t.image + c;
    float* block = t.block + c;
    both_ways<kFrom, kTo>(
        [&](int i, int j) {
          if (!kWhole &&
              (i < in.row_begin || i >= in.row_end || j < in.column_begin || j >= in.column_end))
            return V::zero();
          return vector.load(image + i * t.row + j * t.pixel);
        },
        transform,
        [&](int i, int j, Register v) { V::store(block + (i * kTo + j) * t.position, v); });
  });
}

// Transforms a tile of kFrom x kFrom pixels to kTo x kTo positions.
template <int kFrom, int kTo, class S, class F>
TESSERA_INLINE void from_image(const WinogradRead<S>& t, F transform) {
  if (whole<kFrom>(t.inside)) return transform_image<kFrom, kTo, true, S>(t, transform);
  transform_image<kFrom, kTo, false, S>(t, transform);
}

template <class W, class Pass, class S>
void input(const WinogradRead<S>& t) {
  from_image<Pass::kIn, W::kPoints, S>(
      t, [](const Register* from, Register* to) { Pass::input(from, to); });
}

template <class W, class S>
void gradient(const WinogradRead<S>& t) {
  from_image<W::Forward::kOut, W::kPoints, S>(
      t, [](const Register* from, Register* to) { W::gradient(from, to); });
}

template <class W, class Pass>
void output(const WinogradWrite& tile) {
  const WinogradWrite t = tile;
  const WinogradExtent in = t.inside;
  const bool all = whole<Pass::kOut>(in);
  for_vectors(t.channels, [&](int64_t c, auto vector) TESSERA_INLINED {
    const float* block = t.block + c;
    both_ways<W::kPoints, Pass::kOut>(
        [&](int i, int j) { return V::load(block + (i * W::kPoints + j) * t.position); },
        [](const Register* from, Register* to) { Pass::output(from, to); },
        [&](int i, int j, Register v) {
          if (all || (i < in.row_end && j < in.column_end))
            vector.store(t.image + i * t.row + j * t.pixel + c, v);
        });
  });
}

// Rounds to bfloat16 as engine/dtype.h does.
TESSERA_INLINE Register rounded_to_half(Register x) {
  typedef uint32_t Words [[gnu::vector_size(sizeof(Register))]];
  const auto words = reinterpret_cast<Words>(x);
  return x == x ? reinterpret_cast<Register>((words + 0x7fff + (words >> 16 & 1)) & 0xffff0000) : x;
}

template <class W>
void filters(const WinogradFilters& all) {
  const WinogradFilters f = all;
  for (int64_t k = 0; k < f.depth; ++k)
    for_vectors(f.columns, [&](int64_t c, auto vector) TESSERA_INLINED {
      const float* from = f.from + k * f.from_k + c;
      float* to = f.to + k * f.to_k + c;
      both_ways<3, W::kFilterPoints>(
          [&](int i, int j) {
            const int tap = f.flip ? 8 - (i * 3 + j) : i * 3 + j;
            const Register filter = vector.load(from + tap * f.from_position);
            return f.rounds ? rounded_to_half(filter) : filter;
          },
          [](const Register* from, Register* to) { W::filters(from, to); },
          [&](int i, int j, Register v) {
            V::store(to + (i * W::kFilterPoints + j) * f.to_position, v);
          });
    });
}

template <class W>
void filter_gradient(const WinogradFilters& all) {
  const WinogradFilters f = all;
  for (int64_t k = 0; k < f.depth; ++k)
    for_vectors(f.columns, [&](int64_t c, auto vector) TESSERA_INLINED {
      const float* from = f.from + k * f.from_k + c;
      float* to = f.to + k * f.to_k + c;
      both_ways<W::kFilterPoints, 3>(
          [&](int i, int j) {
            return V::load(from + (i * W::kFilterPoints + j) * f.from_position);
          },
          [](const Register* from, Register* to) { W::filter_gradient(from, to); },
          [&](int i, int j, Register v) { vector.store(to + (i * 3 + j) * f.to_position, v); });
    });
}

constexpr int64_t kLineBytes = 64, kLine = kLineBytes / sizeof(float);

// Prefetches cache lines evenly over `calls` calls of some().
class Fetcher {
 public:
  Fetcher(const WinogradFetch& fetch, int64_t calls)
      : fetch_(fetch),
        step_((fetch.runs * ((fetch.length + kLineBytes - 1) / kLineBytes) + calls - 1) / calls) {}

  template <bool kWrite = false>
  TESSERA_INLINE void some() {
    for (int64_t i = 0; i < step_ && fetch_.runs > 0; ++i) {
      __builtin_prefetch(fetch_.begin + at_, kWrite, 2);
      at_ += kLineBytes;
      if (at_ < fetch_.length) continue;
      at_ = 0, fetch_.begin += fetch_.stride, --fetch_.runs;
    }
  }

 private:
  WinogradFetch fetch_;
  int64_t at_ = 0, step_;
};

// Computes R rows by N vectors of one position, which it adds to C if kAdds: a choice at run time
// takes 1.03 times as long. Keeps only every fourth row address, as there are
// too few general registers for more. kFetch: prefetches a line for each k, from `next` on.
template <bool kAdds, int R, int N, bool kFetch = false>
TESSERA_INLINE void product_tile(const WinogradProduct& p, const float* a, const float* b, float* c,
                                 const float* next = nullptr) {
  const int64_t row = p.a_row, c_row = p.c_row;
  Register sum[R][N];
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < N; ++v) sum[r][v] = kAdds ? V::load(c + r * c_row + v * kLanes) : V::zero();
  const float* rows[R / 4];
  for (int r = 0; r < R / 4; ++r) rows[r] = a + 4 * r * row;
  for (int64_t k = 0; k < p.depth; ++k) {
    Register bv[N];
    for (int v = 0; v < N; ++v) bv[v] = V::load(b + v * kLanes);
    b += N * kLanes;
    if constexpr (kFetch) __builtin_prefetch(next, 0, 2), next += kLine;
    for (int r = 0; r < R; ++r) {
      const Register av = V::fill(rows[r / 4] + (r % 4) * row);
      for (int v = 0; v < N; ++v) sum[r][v] = V::fma(av, bv[v], sum[r][v]);
    }
    for (int r = 0; r < R / 4; ++r) ++rows[r];
  }
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < N; ++v) V::store(c + r * c_row + v * kLanes, sum[r][v]);
}

constexpr int64_t kPanel = 2 * kLanes;

template <bool kAdds>
void products(const WinogradProduct& p) {
  const int64_t calls = p.positions * ((p.columns + kPanel - 1) / kPanel) * (p.tiles / kRows);
  Fetcher read(p.read, calls), write(p.write, calls);
  for (int64_t i = 0; i < p.positions; ++i) {
    const float *a = p.a + i * p.a_position, *b = p.b + p.filter_of[i] * p.b_position;
    float* c = p.c + i * p.c_position;
    int64_t j = 0;
    for (; j + kPanel <= p.columns; j += kPanel, b += p.b_panel) {
      const bool last = j + 2 * kPanel > p.columns;
      const float* next =
          last ? p.b + p.filter_of[(i + 1) % p.positions] * p.b_position : b + p.b_panel;
      for (int64_t t = 0; t < p.tiles; t += kRows, next += p.depth * kLine) {
        read.some();
        write.some<true>();
        if (p.fetch_filters && t < kPanel / kLine * kRows)
          product_tile<kAdds, kRows, 2, true>(p, a + t * p.a_row, b, c + t * p.c_row + j, next);
        else
          product_tile<kAdds, kRows, 2>(p, a + t * p.a_row, b, c + t * p.c_row + j);
      }
    }
    if (j == p.columns) continue;
    for (int64_t t = 0; t < p.tiles;) {  // one vector: twice the rows, to hide the latency
      read.some();
      write.some<true>();
      const bool twice = t + 2 * kRows <= p.tiles;
      if (twice)
        product_tile<kAdds, 2 * kRows, 1>(p, a + t * p.a_row, b, c + t * p.c_row + j);
      else
        product_tile<kAdds, kRows, 1>(p, a + t * p.a_row, b, c + t * p.c_row + j);
      t += twice ? 2 * kRows : kRows;
    }
  }
}

void product(const WinogradProduct& p) { p.accumulate ? products<true>(p) : products<false>(p); }

template <bool kAdds, int N>
TESSERA_INLINE void sum_tile(const WinogradSum& p, const float* a, const float* b, float* c) {
  const int64_t c_row = p.c_row, a_tile = p.a_tile, b_tile = p.b_tile;
  Register sum[kRows][N];
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < N; ++v) sum[r][v] = kAdds ? V::load(c + r * c_row + v * kLanes) : V::zero();
  for (int64_t t = p.tiles; t > 0; --t, a += a_tile, b += b_tile) {
    Register bv[N];
    for (int v = 0; v < N; ++v) bv[v] = V::load(b + v * kLanes);
    for (int r = 0; r < kRows; ++r) {
      const Register av = V::fill(a + r);
      for (int v = 0; v < N; ++v) sum[r][v] = V::fma(av, bv[v], sum[r][v]);
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < N; ++v) V::store(c + r * c_row + v * kLanes, sum[r][v]);
}

template <bool kAdds>
void sum_position(const WinogradSum& p, const float* a, const float* b, float* c, Fetcher& first,
                  Fetcher& second) {
  for (int64_t r = 0; r < p.rows; r += kRows)
    for (int64_t j = 0; j < p.columns; j += kPanel) {
      first.some();
      second.some();
      if (j + kPanel <= p.columns)
        sum_tile<kAdds, 2>(p, a + r, b + j, c + r * p.c_row + j);
      else
        sum_tile<kAdds, 1>(p, a + r, b + j, c + r * p.c_row + j);
    }
}

void sum(const WinogradSum& p) {
  const int64_t calls = p.positions * ((p.columns + kPanel - 1) / kPanel) * (p.rows / kRows);
  Fetcher first(p.fetch[0], calls), second(p.fetch[1], calls);
  for (int64_t i = 0; i < p.positions; ++i) {
    const float *a = p.a + i * p.a_position, *b = p.b + i * p.b_position;
    float* c = p.c + p.filter_of[i] * p.c_position;
    const uint8_t* const filter = p.filter_of + i;
    const bool adds = p.accumulate || std::find(p.filter_of, filter, *filter) != filter;
    (adds ? sum_position<true> : sum_position<false>)(p, a, b, c, first, second);
  }
}

template <class W>
constexpr std::array<uint8_t, W::kPoints * W::kPoints> filter_of = [] {
  std::array<uint8_t, W::kPoints * W::kPoints> all{};
  constexpr int kLast = W::kFilterPoints - 1;
  for (int i = 0; i < W::kPoints; ++i)
    for (int j = 0; j < W::kPoints; ++j)
      all[i * W::kPoints + j] = std::min(i, kLast) * W::kFilterPoints + std::min(j, kLast);
  return all;
}();

template <class W, class Pass>
constexpr WinogradPass pass = {Pass::kIn,
                               Pass::kStep,
                               Pass::kOut,
                               {input<W, Pass, float>, input<W, Pass, bfloat16>},
                               output<W, Pass>};

template <class W>
constexpr WinogradTransforms transforms = {W::kPoints* W::kPoints,
                                           W::kFilterPoints* W::kFilterPoints,
                                           filter_of<W>.data(),
                                           pass<W, typename W::Forward>,
                                           pass<W, typename W::InputGrad>,
                                           {gradient<W, float>, gradient<W, bfloat16>},
                                           filters<W>,
                                           filter_gradient<W>};

}  // namespace

namespace TESSERA_ISA {
extern const WinogradMicrokernels winograd_microkernels = {
    kLanes, kRows, transforms<F2>, transforms<F4>, transforms<F4Stride2>, product, sum};
}

}  // namespace tessera
