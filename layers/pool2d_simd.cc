#include "tessera/layers/pool2d_simd.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace tessera {
namespace {

// What a pixel's channels are worked on with: a vector of 32 bytes, or one channel alone.
template <class T>
struct WholeVector;
template <>
struct WholeVector<float> {
  static constexpr int kLanes = 8;
  typedef float Values [[gnu::vector_size(32)]];
  typedef int32_t Integers [[gnu::vector_size(32)]];
  typedef uint8_t Bytes [[gnu::vector_size(8)]];
};
template <>
struct WholeVector<double> {
  static constexpr int kLanes = 4;
  typedef double Values [[gnu::vector_size(32)]];
  typedef int64_t Integers [[gnu::vector_size(32)]];
  typedef uint8_t Bytes [[gnu::vector_size(4)]];
};

// Positions to and from bytes.
template <class V>
inline void load_bytes(const uint8_t* from, typename V::Integers* positions) {
  typename V::Bytes bytes;
  __builtin_memcpy(&bytes, from, sizeof bytes);
  *positions = __builtin_convertvector(bytes, typename V::Integers);
}
template <class V>
inline void store_bytes(const typename V::Integers* positions, uint8_t* to) {
  const auto bytes = __builtin_convertvector(*positions, typename V::Bytes);
  __builtin_memcpy(to, &bytes, sizeof bytes);
}
#if defined(__AVX2__)  // g++ 12 would convert them one by one
template <>
inline void load_bytes<WholeVector<float>>(const uint8_t* from,
                                           WholeVector<float>::Integers* positions) {
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(positions), _mm256_cvtepu8_epi32(bytes));
}
template <>
inline void store_bytes<WholeVector<float>>(const WholeVector<float>::Integers* positions,
                                            uint8_t* to) {
  const __m256i all = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(positions));
  const __m128i halves =
      _mm_packus_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm_packus_epi16(halves, halves));
}
#endif

// The part of a window that lies in the image, and its position there.
struct Columns {
  int64_t begin, end;  // of the image
  int64_t skipped;     // of the window
};

inline Columns columns_of(const PoolRow& p, int64_t j) {
  const int64_t start = j * p.stride_w - p.pad_w, end = start + p.kernel_w;
  const int64_t begin = start < 0 ? 0 : start;
  return {begin, end < p.w ? end : p.w, begin - start};
}

// A window's maximum for whole vectors of channels, from the first pixel of the window in the
// image. kSide: of a square window that lies in the image; 0: any window.
template <int kSide, class T>
inline void max_vector(const PoolRow& p, const Columns& v, const T* start, T* y,
                       uint8_t* positions) {
  using V = WholeVector<T>;
  typename V::Values best, value;
  const auto first = static_cast<int>(p.first_row * p.kernel_w + v.skipped);
  typename V::Integers where = first - typename V::Integers{};
  __builtin_memcpy(&best, start, sizeof best);
  const int64_t rows = kSide ? kSide : p.rows, columns = kSide ? kSide : v.end - v.begin;
  for (int64_t u = 0; u < rows; ++u) {
    for (int64_t i = 0; i < columns; ++i) {
      __builtin_memcpy(&value, start + (u * p.w + i) * p.c, sizeof value);
      const auto larger = ~(value <= best) & (best == best);  // NaN stays
      const auto position = static_cast<int>(first + u * p.kernel_w + i);
      best = larger ? value : best;
      where = larger ? position - typename V::Integers{} : where;
    }
  }
  __builtin_memcpy(y, &best, sizeof best);
  if (positions == nullptr) return;
  store_bytes<V>(&where, positions);
}

template <class T>
inline void max_one(const PoolRow& p, const Columns& v, const T* start, T* y, uint8_t* positions) {
  const int64_t first = p.first_row * p.kernel_w + v.skipped;
  T best = *start;
  int64_t where = first;
  for (int64_t u = 0; u < p.rows; ++u) {
    for (int64_t i = 0; i < v.end - v.begin; ++i) {
      const T value = start[(u * p.w + i) * p.c];
      if (!(value <= best) && best == best) best = value, where = first + u * p.kernel_w + i;
    }
  }
  *y = best;
  if (positions) *positions = static_cast<uint8_t>(where);
}

// The channels of a pixel: whole vectors while there are channels and, to the end of the row, bytes
// enough. What the last vector writes too much belongs to the next pixel, which comes later.
template <class T>
inline int64_t whole_vectors(int64_t c, int64_t pixels_left) {
  constexpr int64_t L = WholeVector<T>::kLanes;
  const int64_t up = (c + L - 1) / L * L;
  return up <= pixels_left * c ? up : c / L * L;
}

template <int kSide, class T>
inline void max_vectors(const PoolRow& p, const Columns& v, const T* start, int64_t whole, T* y,
                        uint8_t* positions) {
  for (int64_t k = 0; k < whole; k += WholeVector<T>::kLanes)
    max_vector<kSide>(p, v, start + k, y + k, positions ? positions + k : nullptr);
}

template <class T>
void max_row(const T* x, const PoolRow& p, T* y, uint8_t* positions) {
  for (int64_t j = 0; j < p.out_w; ++j, y += p.c, positions += positions ? p.c : 0) {
    const Columns v = columns_of(p, j);
    const T* start = x + v.begin * p.c;
    const int64_t left = p.out_w - j, right = p.w - v.end + 1;
    const int64_t whole = whole_vectors<T>(p.c, left < right ? left : right);
    const int64_t side = v.end - v.begin == p.rows ? p.rows : 0;
    const auto vectors = side == 2   ? max_vectors<2, T>
                         : side == 3 ? max_vectors<3, T>
                                     : max_vectors<0, T>;
    vectors(p, v, start, whole, y, positions);
    for (int64_t k = whole; k < p.c; ++k)
      max_one(p, v, start + k, y + k, positions ? positions + k : nullptr);
  }
}

// Windows [begin, end) of a row are those that pixel x lies in.
struct Windows {
  int64_t x, begin, end, stride_h;
};

inline int64_t position_in(const PoolRow& p, const Windows& in, int64_t u, int64_t q) {
  return (p.first_row - u * in.stride_h) * p.kernel_w + in.x + p.pad_w - q * p.stride_w;
}

template <class T>
inline void grad_vector(const PoolRow& p, const Windows& in, const T* dy, const uint8_t* positions,
                        T* dx) {
  using V = WholeVector<T>;
  typename V::Values sum{}, value;
  typename V::Integers where;
  for (int64_t u = 0; u < p.rows; ++u) {
    for (int64_t q = in.begin; q < in.end; ++q) {
      const int64_t from = (u * p.out_w + q) * p.c;
      __builtin_memcpy(&value, dy + from, sizeof value);
      load_bytes<V>(positions + from, &where);
      const auto here = where == static_cast<int>(position_in(p, in, u, q));
      sum += here ? value : typename V::Values{};
    }
  }
  __builtin_memcpy(dx, &sum, sizeof sum);
}

template <class T>
inline T grad_one(const PoolRow& p, const Windows& in, const T* dy, const uint8_t* positions) {
  T sum = 0;
  for (int64_t u = 0; u < p.rows; ++u) {
    for (int64_t q = in.begin; q < in.end; ++q) {
      const int64_t from = (u * p.out_w + q) * p.c;
      if (positions[from] == position_in(p, in, u, q)) sum += dy[from];
    }
  }
  return sum;
}

// Where windows do not overlap: each pixel of a window gets its dy or 0.
template <class T>
void max_row_grad_apart(const T* dy, const uint8_t* positions, const PoolRow& p, T* dx) {
  using V = WholeVector<T>;
  const auto first = static_cast<int>(p.first_row * p.kernel_w);
  typename V::Values value;
  typename V::Integers where;
  for (int64_t q = 0; q < p.out_w; ++q, dy += p.c, positions += p.c) {
    const int64_t left = p.w - (q + 1) * p.kernel_w + 1, right = p.out_w - q;
    const int64_t whole = whole_vectors<T>(p.c, left < right ? left : right);
    if (whole == V::kLanes && p.c <= V::kLanes) {  // all channels at once
      __builtin_memcpy(&value, dy, sizeof value);
      load_bytes<V>(positions, &where);
      for (int v = 0; v < p.kernel_w; ++v, dx += p.c) {
        const auto here = where == first + v;
        const auto kept = here ? value : typename V::Values{};
        __builtin_memcpy(dx, &kept, sizeof kept);
      }
      continue;
    }
    for (int v = 0; v < p.kernel_w; ++v, dx += p.c) {
      int64_t k = 0;
      for (; k < whole; k += V::kLanes) {
        __builtin_memcpy(&value, dy + k, sizeof value);
        load_bytes<V>(positions + k, &where);
        const auto here = where == first + v;
        value = here ? value : typename V::Values{};
        __builtin_memcpy(dx + k, &value, sizeof value);
      }
      for (; k < p.c; ++k) dx[k] = positions[k] == first + v ? dy[k] : T(0);
    }
  }
  const int64_t rest = (p.w - p.out_w * p.kernel_w) * p.c;
  for (int64_t k = 0; k < rest; ++k) dx[k] = T(0);
}

template <class T>
void max_row_grad(const T* dy, const uint8_t* positions, const PoolRow& p, int64_t stride_h,
                  T* dx) {
  if (p.rows == 1 && p.kernel_w == p.stride_w && p.pad_w == 0)
    return max_row_grad_apart(dy, positions, p, dx);
  Windows in{0, 0, 0, stride_h};
  for (; in.x < p.w; ++in.x, dx += p.c) {
    while (in.begin < p.out_w && in.begin * p.stride_w - p.pad_w + p.kernel_w <= in.x) ++in.begin;
    while (in.end < p.out_w && in.end * p.stride_w - p.pad_w <= in.x) ++in.end;
    const int64_t left = p.w - in.x, right = p.out_w - in.end + 1;
    const int64_t whole = whole_vectors<T>(p.c, left < right ? left : right);
    int64_t k = 0;
    for (; k < whole; k += WholeVector<T>::kLanes)
      grad_vector(p, in, dy + k, positions + k, dx + k);
    for (; k < p.c; ++k) dx[k] = grad_one(p, in, dy + k, positions + k);
  }
}

template <class T>
void add_quotient(const T* x, T divisor, int64_t c, T* y) {
  for (int64_t j = 0; j < c; ++j) y[j] += x[j] / divisor;
}

template <class T>
void divide(const T* x, T divisor, int64_t c, T* y) {
  for (int64_t j = 0; j < c; ++j) y[j] = x[j] / divisor;
}

template <class T>
constexpr PoolMicrokernelsOf<T> microkernels_of() {
  return {max_row<T>, max_row_grad<T>, add_quotient<T>, divide<T>};
}

}  // namespace

namespace TESSERA_ISA {
const PoolMicrokernels pool_microkernels = {microkernels_of<float>(), microkernels_of<double>()};
}  // namespace TESSERA_ISA

}  // namespace tessera
