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

// `count` channels, at most kChannels; a constant count is vectorised without a remainder.
constexpr int kChannels = 32;

template <class T>
inline void max_some(const T* x, const PoolWindow& window, int64_t c, int count, T* y,
                     uint8_t* positions) {
  using Integer = typename IntegerOf<T>::Type;
  T best[kChannels];
  Integer where[kChannels];
  for (int j = 0; j < count; ++j) best[j] = x[j], where[j] = window.first;
  for (int64_t u = 0; u < window.rows; ++u) {
    for (int64_t v = 0; v < window.columns; ++v) {
      const T* from = x + u * window.row_step + v * c;
      const Integer position = static_cast<Integer>(window.first + u * window.kernel_w + v);
      for (int j = 0; j < count; ++j) {
        const T value = from[j];
        const bool larger = !(value <= best[j]) && best[j] == best[j];  // NaN stays
        best[j] = larger ? value : best[j];
        where[j] = larger ? position : where[j];
      }
    }
  }
  for (int j = 0; j < count; ++j) y[j] = best[j];
  if (positions == nullptr) return;
  for (int j = 0; j < count; ++j) positions[j] = static_cast<uint8_t>(where[j]);
}

template <class T>
void max(const T* x, const PoolWindow& window, int64_t c, T* y, uint8_t* positions) {
  int64_t j = 0;
  for (; j + kChannels <= c; j += kChannels)
    max_some(x + j, window, c, kChannels, y + j, positions ? positions + j : nullptr);
  if (j < c)
    max_some(x + j, window, c, static_cast<int>(c - j), y + j, positions ? positions + j : nullptr);
}

template <class T>
void add_where(const T* dy, const uint8_t* positions, int position, int64_t c, T* dx) {
  for (int64_t j = 0; j < c; ++j) dx[j] += positions[j] == position ? dy[j] : T(0);
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
  return {max<T>, add_where<T>, add_quotient<T>, divide<T>};
}

}  // namespace

namespace TESSERA_ISA {
const PoolLeaves pool_leaves = {leaves_of<float>(), leaves_of<double>()};
}  // namespace TESSERA_ISA

}  // namespace tessera
