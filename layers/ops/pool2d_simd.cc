#include "tessera/layers/ops/pool2d_simd.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace tessera {
namespace {

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
#else
constexpr int kVectorBytes = 32;
#endif

// A vector with channels of one pixel.
template <class T>
struct WholeVector;
template <>
struct WholeVector<float> {
  static constexpr int kLanes = kVectorBytes / 4;
  typedef float Values [[gnu::vector_size(kVectorBytes)]];
  typedef int32_t Integers [[gnu::vector_size(kVectorBytes)]];
  typedef uint8_t Bytes [[gnu::vector_size(kLanes)]];
};
template <>
struct WholeVector<double> {
  static constexpr int kLanes = kVectorBytes / 8;
  typedef double Values [[gnu::vector_size(kVectorBytes)]];
  typedef int64_t Integers [[gnu::vector_size(kVectorBytes)]];
  typedef uint8_t Bytes [[gnu::vector_size(kLanes)]];
};

// Convert positions from and to bytes.
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
#if defined(__AVX512F__)  // g++ 12 would convert them one by one
template <>
inline void load_bytes<WholeVector<float>>(const uint8_t* from,
                                           WholeVector<float>::Integers* positions) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  _mm512_storeu_si512(positions, _mm512_maskz_cvtepu8_epi32(0xffff, bytes));
}
template <>
inline void store_bytes<WholeVector<float>>(const WholeVector<float>::Integers* positions,
                                            uint8_t* to) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                   _mm512_maskz_cvtepi32_epi8(0xffff, _mm512_loadu_si512(positions)));
}
#elif defined(__AVX2__)
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

// The columns of a window that are inside the image.
struct Columns {
  int64_t begin, end;  // columns of the image
  int64_t skipped;     // columns of the window before begin
};

inline Columns columns_of(const PoolRow& p, int64_t j) {
  const int64_t start = j * p.stride_w - p.pad_w, end = start + p.kernel_w;
  const int64_t begin = start < 0 ? 0 : start;
  return {begin, end < p.w ? end : p.w, begin - start};
}

// Stores the first min(count, kLanes) lanes.
template <class V, class T>
inline void store_values(T* to, const typename V::Values& values, int64_t count) {
  if (count >= V::kLanes) {
    __builtin_memcpy(to, &values, sizeof values);
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = values[i];
  }
}
template <class V>
inline void store_positions(uint8_t* to, const typename V::Integers& positions, int64_t count) {
  if (count >= V::kLanes) return store_bytes<V>(&positions, to);
  uint8_t bytes[V::kLanes];
  store_bytes<V>(&positions, bytes);
  for (int64_t i = 0; i < count; ++i) to[i] = bytes[i];
}

// Computes a window's maximum for a vector of channels; `start` is the window's first pixel in the
// image. kSide: side of a square window inside the image; 0: any window.
template <int kSide, class T>
inline void max_vector(const PoolRow& p, const Columns& v, const T* start,
                       typename WholeVector<T>::Values* maximum,
                       typename WholeVector<T>::Integers* position) {
  using V = WholeVector<T>;
  typename V::Values best{};
  typename V::Integers at{};
  const auto first = static_cast<int>(p.first_row * p.kernel_w + v.skipped);
  const int64_t rows = kSide ? kSide : p.rows, columns = kSide ? kSide : v.end - v.begin;
  const auto take_larger = [](auto& best, auto& at, const auto& value, const auto& here) {
    const auto larger = ~(value <= best) & (best == best);  // NaN stays
    best = larger ? value : best;
    at = larger ? here : at;
  };
  for (int64_t u = 0; u < rows; ++u) {  // the rows' maxima do not wait for one another
    typename V::Values best_of_row, value;
    auto here = static_cast<int>(first + u * p.kernel_w);
    typename V::Integers at_of_row = here - typename V::Integers{};
    __builtin_memcpy(&best_of_row, start + u * p.w * p.c, sizeof value);
    for (int64_t i = 1; i < columns; ++i) {
      __builtin_memcpy(&value, start + (u * p.w + i) * p.c, sizeof value);
      take_larger(best_of_row, at_of_row, value, ++here - typename V::Integers{});
    }
    if (u == 0)
      best = best_of_row, at = at_of_row;
    else
      take_larger(best, at, best_of_row, at_of_row);
  }
  *maximum = best, *position = at;
}

template <class T>
inline void max_one(const PoolRow& p, const Columns& v, const T* start, T* y, uint8_t* positions) {
  const int64_t first = p.first_row * p.kernel_w + v.skipped;
  T best = *start;
  int64_t at = first;
  for (int64_t u = 0; u < p.rows; ++u) {
    for (int64_t i = 0; i < v.end - v.begin; ++i) {
      const T value = start[(u * p.w + i) * p.c];
      if (!(value <= best) && best == best) best = value, at = first + u * p.kernel_w + i;
    }
  }
  *y = best;
  if (positions) *positions = static_cast<uint8_t>(at);
}

// Computes window j in whole vectors as long as they are readable, then by channels. Extra lanes of
// a vector belong to the next pixel, which overwrites them; after the last pixel they are not
// stored.
template <int kSide, class T>
inline void max_window(const PoolRow& p, const Columns& v, int64_t j, const T* x, T* y,
                       uint8_t* positions) {
  using V = WholeVector<T>;
  const T* start = x + v.begin * p.c;
  const int64_t readable = (p.w - v.end + 1) * p.c + p.behind, writable = (p.out_w - j) * p.c;
  int64_t k = 0;
  for (; k < p.c && k + V::kLanes <= readable; k += V::kLanes) {
    typename V::Values best;
    typename V::Integers at;
    max_vector<kSide>(p, v, start + k, &best, &at);
    store_values<V>(y + k, best, writable - k);
    if (positions) store_positions<V>(positions + k, at, writable - k);
  }
  for (; k < p.c; ++k) max_one(p, v, start + k, y + k, positions ? positions + k : nullptr);
}

// Computes the first windows if a vector holds a pixel, as long as they are inside the image and a
// whole vector can be read and written. Returns their number.
template <int kSide, class T>
inline int64_t max_narrow_windows(const T* x, const PoolRow& p, T* y, uint8_t* positions) {
  using V = WholeVector<T>;
  const PoolRow row = p;  // a copy, which no store can alias
  if (row.c > V::kLanes || row.pad_w != 0) return 0;
  const int64_t step = row.stride_w * row.c;
  Columns v{0, kSide, 0};
  int64_t j = 0;
  for (; (row.out_w - j) * row.c >= V::kLanes && v.end <= row.w;
       ++j, v.begin += row.stride_w, v.end += row.stride_w) {
    if ((row.w - v.end + 1) * row.c + row.behind < V::kLanes) break;
    typename V::Values best;
    typename V::Integers at;
    max_vector<kSide>(row, v, x + j * step, &best, &at);
    __builtin_memcpy(y + j * row.c, &best, sizeof best);
    if (positions) store_bytes<V>(&at, positions + j * row.c);
  }
  return j;
}

template <int kSide, class T>
void max_row_of(const T* x, const PoolRow& p, T* y, uint8_t* positions) {
  int64_t j = 0;
  if constexpr (kSide > 0) j = max_narrow_windows<kSide>(x, p, y, positions);
  y += j * p.c, positions += positions ? j * p.c : 0;
  for (; j < p.out_w; ++j, y += p.c, positions += positions ? p.c : 0) {
    const Columns v = columns_of(p, j);
    if (v.end - v.begin == kSide) {
      max_window<kSide>(p, v, j, x, y, positions);
    } else {
      max_window<0>(p, v, j, x, y, positions);
    }
  }
}

template <class T>
void max_row(const T* x, const PoolRow& p, T* y, uint8_t* positions) {
  const bool square = p.rows == p.kernel_w;
  const auto row = square && p.rows == 2   ? max_row_of<2, T>
                   : square && p.rows == 3 ? max_row_of<3, T>
                                           : max_row_of<0, T>;
  row(x, p, y, positions);
}

// Windows [begin, end) of a row contain pixel x.
struct Windows {
  int64_t x, begin, end, stride_h;
};

inline int64_t position_in(const PoolRow& p, const Windows& in, int64_t u, int64_t q) {
  return (p.first_row - u * in.stride_h) * p.kernel_w + in.x + p.pad_w - q * p.stride_w;
}

template <class T>
inline void grad_vector(const PoolRow& p, const Windows& in, const T* dy, const uint8_t* positions,
                        T* dx, int64_t writable) {
  using V = WholeVector<T>;
  typename V::Values sum{}, value;
  typename V::Integers at;
  for (int64_t u = 0; u < p.rows; ++u) {
    for (int64_t q = in.begin; q < in.end; ++q) {
      const int64_t from = (u * p.out_w + q) * p.c;
      __builtin_memcpy(&value, dy + from, sizeof value);
      load_bytes<V>(positions + from, &at);
      const auto here = at == static_cast<int>(position_in(p, in, u, q));
      sum += here ? value : typename V::Values{};
    }
  }
  store_values<V>(dx, sum, writable);
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

// Computes dx for windows that do not overlap: each pixel gets the dy of its window or 0.
template <class T>
void max_row_grad_apart(const T* dy, const uint8_t* positions, const PoolRow& p, T* dx) {
  using V = WholeVector<T>;
  const auto first = static_cast<int>(p.first_row * p.kernel_w);
  const T* const end = dx + p.w * p.c;
  int64_t readable = p.out_w * p.c + p.behind, q = 0;
  if (p.c <= V::kLanes) {  // one vector per pixel, while more pixels follow
    const int64_t c = p.c, kernel_w = p.kernel_w, window = (kernel_w - 1) * c + V::kLanes;
    for (; q < p.out_w && readable >= V::kLanes && end - dx >= window;
         ++q, dy += c, positions += c, readable -= c) {
      typename V::Values value;
      typename V::Integers at;
      __builtin_memcpy(&value, dy, sizeof value);
      load_bytes<V>(positions, &at);
      for (int v = 0; v < kernel_w; ++v, dx += c) {
        const auto here = at == first + v;
        const typename V::Values to = here ? value : typename V::Values{};
        __builtin_memcpy(dx, &to, sizeof to);
      }
    }
  }
  for (; q < p.out_w; ++q, dy += p.c, positions += p.c, readable -= p.c) {
    for (int v = 0; v < p.kernel_w; ++v, dx += p.c) {
      int64_t k = 0;
      for (; k < p.c && k + V::kLanes <= readable; k += V::kLanes) {
        typename V::Values value;
        typename V::Integers at;
        __builtin_memcpy(&value, dy + k, sizeof value);
        load_bytes<V>(positions + k, &at);
        const auto here = at == first + v;
        store_values<V>(dx + k, here ? value : typename V::Values{}, end - (dx + k));
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
  if (p.rows == 1 && p.kernel_w == p.stride_w && p.pad_w == 0 && p.out_w * p.kernel_w <= p.w)
    return max_row_grad_apart(dy, positions, p, dx);
  Windows in{0, 0, 0, stride_h};
  for (; in.x < p.w; ++in.x, dx += p.c) {
    while (in.begin < p.out_w && in.begin * p.stride_w - p.pad_w + p.kernel_w <= in.x) ++in.begin;
    while (in.end < p.out_w && in.end * p.stride_w - p.pad_w <= in.x) ++in.end;
    const int64_t readable = (p.out_w - in.end + 1) * p.c + p.behind;
    const int64_t writable = (p.w - in.x) * p.c;
    int64_t k = 0;
    for (; k < p.c && k + WholeVector<T>::kLanes <= readable; k += WholeVector<T>::kLanes)
      grad_vector(p, in, dy + k, positions + k, dx + k, writable - k);
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
