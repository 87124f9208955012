#include "tessera/layers/pool2d_simd.h"

namespace tessera {
namespace {

template <class T>
struct IntegerOf;
template <>
struct IntegerOf<float> {
  using Type = int32_t;
};
template <>
struct IntegerOf<double> {
  using Type = int64_t;
};

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

// Calls tile(k, count) for pieces of the c channels: constants where whole vectors serve, so that
// the loops over a piece are unrolled. Few channels are done as a whole vector too: what is too
// much belongs to the next pixel, which comes later and puts it right, and to the pixel after the
// one that is read. `room`: channels that there are from this pixel to the end of its row.
template <int N>
struct Constant {
  constexpr operator int() const { return N; }
};
template <class Tile>
inline void channels(int64_t c, int64_t room, Tile tile) {
  int64_t k = 0;
  for (; k + 32 <= c; k += 32) tile(k, Constant<32>());
  for (; k + 8 <= c; k += 8) tile(k, Constant<8>());
  if (k == c) return;
  if (k + 8 <= room)
    tile(k, Constant<8>());
  else
    tile(k, static_cast<int>(c - k));
}

template <class T>
void max_row(const T* x, const PoolRow& p, T* y, uint8_t* positions) {
  using Integer = typename IntegerOf<T>::Type;
  for (int64_t j = 0; j < p.out_w; ++j, y += p.c, positions += positions ? p.c : 0) {
    const Columns v = columns_of(p, j);
    const int64_t left = p.out_w - j, right = p.w - v.end + 1;  // pixels to the ends of both rows
    channels(p.c, (left < right ? left : right) * p.c, [&](int64_t k, auto count) {
      T best[32];
      Integer where[32];
      const T* start = x + v.begin * p.c + k;
      const Integer first = static_cast<Integer>(p.first_row * p.kernel_w + v.skipped);
      for (int l = 0; l < count; ++l) best[l] = start[l], where[l] = first;
      for (int64_t u = 0; u < p.rows; ++u) {
        for (int64_t i = 0; i < v.end - v.begin; ++i) {
          const T* from = start + (u * p.w + i) * p.c;
          const Integer position = static_cast<Integer>(first + u * p.kernel_w + i);
          for (int l = 0; l < count; ++l) {
            const T value = from[l];
            const bool larger = !(value <= best[l]) && best[l] == best[l];  // NaN stays
            best[l] = larger ? value : best[l];
            where[l] = larger ? position : where[l];
          }
        }
      }
      for (int l = 0; l < count; ++l) y[k + l] = best[l];
      if (positions == nullptr) return;
      for (int l = 0; l < count; ++l) positions[k + l] = static_cast<uint8_t>(where[l]);
    });
  }
}

template <class T>
void max_row_grad(const T* dy, const uint8_t* positions, const PoolRow& p, int64_t stride_h,
                  T* dx) {
  using Integer = typename IntegerOf<T>::Type;
  int64_t begin = 0, end = 0;  // the windows that pixel x lies in
  for (int64_t x = 0; x < p.w; ++x, dx += p.c) {
    while (begin < p.out_w && begin * p.stride_w - p.pad_w + p.kernel_w <= x) ++begin;
    while (end < p.out_w && end * p.stride_w - p.pad_w <= x) ++end;
    const int64_t left = p.w - x, right = p.out_w - end + 1;
    channels(p.c, (left < right ? left : right) * p.c, [&](int64_t k, auto count) {
      T sum[32];
      Integer where[32];
      for (int l = 0; l < count; ++l) sum[l] = T(0);
      for (int64_t u = 0; u < p.rows; ++u) {
        for (int64_t q = begin; q < end; ++q) {
          const int64_t from = (u * p.out_w + q) * p.c + k;
          const Integer position = static_cast<Integer>((p.first_row - u * stride_h) * p.kernel_w +
                                                        x + p.pad_w - q * p.stride_w);
          for (int l = 0; l < count; ++l) where[l] = positions[from + l];
          for (int l = 0; l < count; ++l) sum[l] += where[l] == position ? dy[from + l] : T(0);
        }
      }
      for (int l = 0; l < count; ++l) dx[k + l] = sum[l];
    });
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
constexpr PoolLeavesOf<T> leaves_of() {
  return {max_row<T>, max_row_grad<T>, add_quotient<T>, divide<T>};
}

}  // namespace

namespace TESSERA_ISA {
const PoolLeaves pool_leaves = {leaves_of<float>(), leaves_of<double>()};
}  // namespace TESSERA_ISA

}  // namespace tessera
