#include "tessera/layers/shared/gemm_tiles_simd.h"
#include "tessera/layers/shared/transpose_simd.h"

namespace tessera {
namespace {

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
  for (int64_t j = 0; j < lines; j += S)
    for (int64_t p = 0; p < whole; p += S)
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
constexpr GemmMicrokernelsOf<T> microkernels_of = {.lanes = Vector<T>::kLanes,
                                                   .gather = gather<T>,
                                                   .outer = outer<T>,
                                                   .pack_micro_panels = pack_micro_panels<T>,
                                                   .pack_transposed = pack_transposed<T>,
                                                   .copy_points = copy_points<T>,
                                                   .dots = dots<T>,
                                                   .gathers_panels = kGathersPanels<T>,
                                                   .activates = kGatherActivates<T>,
                                                   .scaled_rows = scaled_rows<T>};

}  // namespace

namespace TESSERA_ISA {
extern const GemmMicrokernels gemm_microkernels = {microkernels_of<float>, microkernels_of<double>};
}

}  // namespace tessera
