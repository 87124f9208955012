#include "tessera/layers/conv2d/cpu/depthwise_simd.h"

#include "tessera/layers/shared/vector_simd.h"

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

// R pixels by N vectors of channels, starting at channel k.
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

// N taps of one vector of channels.
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

}  // namespace

namespace TESSERA_ISA {
extern const DepthwiseMicrokernels depthwise_microkernels = {{gather<float>, outer<float>},
                                                             {gather<double>, outer<double>}};
}

}  // namespace tessera
