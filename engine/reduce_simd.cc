#include "tessera/engine/reduce_simd.h"

namespace tessera {
namespace {

// A single column is summed in eight lanes.
template <class T>
Computed<T> sum_column(const T* x, int64_t rows) {
  using S = Computed<T>;
  double lanes[8] = {}, sum = 0;
  int64_t r = 0;
  for (; r + 8 <= rows; r += 8)
    for (int i = 0; i < 8; ++i) lanes[i] += static_cast<S>(x[r + i]);
  for (; r < rows; ++r) lanes[r % 8] += static_cast<S>(x[r]);
  for (const double lane : lanes) sum += lane;
  return static_cast<S>(sum);
}

// Sums a few columns as wide rows of several, so that vectors are full. Returns the number of rows
// summed. Trailing lanes, too few for a row, are read but not used.
template <class T>
int64_t sum_wide(const T* x, int64_t rows, int64_t inner, Computed<T>* sum) {
  using S = Computed<T>;
  constexpr int64_t kWide = 64, kVectors = kWide * sizeof(S) / 64, kLanes = kWide / kVectors;
  typedef S Values [[gnu::vector_size(64)]];
  Values lanes[kVectors] = {};
  const int64_t together = kWide / inner, width = together * inner;
  int64_t r = 0;
  for (; (rows - r) * inner >= kWide; r += together) {
    for (int v = 0; v < kVectors; ++v) {
      const T* from = x + r * inner + v * kLanes;
      S values[kLanes];
      if constexpr (!std::is_same_v<T, S>)
        for (int64_t i = 0; i < kLanes; ++i) values[i] = static_cast<S>(from[i]);
      Values all;
      __builtin_memcpy(&all, std::is_same_v<T, S> ? static_cast<const void*>(from) : values,
                       sizeof all);
      lanes[v] += all;
    }
  }
  S wide[kWide];
  __builtin_memcpy(wide, lanes, sizeof wide);
  for (; r + together <= rows; r += together)
    for (int64_t i = 0; i < width; ++i) wide[i] += static_cast<S>(x[r * inner + i]);
  for (int64_t i = 0; i < width; ++i) sum[i % inner] += wide[i];
  return r;
}

template <class T>
void sum_rows(const T* x, int64_t rows, int64_t inner, Computed<T>* __restrict sum) {
  using S = Computed<T>;
  if (inner == 1) {
    *sum = sum_column(x, rows);
    return;
  }
  for (int64_t i = 0; i < inner; ++i) sum[i] = 0;
  int64_t r = inner <= 32 ? sum_wide(x, rows, inner, sum) : 0;
  for (; r + 4 <= rows; r += 4) {  // sums are loaded and stored once per four rows
    const T *a = x + r * inner, *b = a + inner, *c = b + inner, *d = c + inner;
    for (int64_t i = 0; i < inner; ++i)
      sum[i] = (((sum[i] + static_cast<S>(a[i])) + static_cast<S>(b[i])) + static_cast<S>(c[i])) +
               static_cast<S>(d[i]);
  }
  for (; r < rows; ++r)
    for (int64_t i = 0; i < inner; ++i) sum[i] += static_cast<S>(x[r * inner + i]);
}

// The exponent of NaN and infinity is all ones: adding one in its last place carries into the sign.
// Integer arithmetic lets the compiler vectorise without reordering floats.
template <class T, class Bits, int kMantissa>
bool are_finite(const T* x, int64_t count) {
  constexpr Bits kSign = Bits{1} << (8 * sizeof(Bits) - 1), kLast = Bits{1} << kMantissa;
  constexpr Bits kExponent = kSign - kLast;
  Bits found = 0;
  for (int64_t i = 0; i < count; ++i) {
    Bits bits;
    __builtin_memcpy(&bits, x + i, sizeof bits);
    found |= (bits & kExponent) + kLast;
  }
  return (found & kSign) == 0;
}

}  // namespace

namespace TESSERA_ISA {
const SumRowsMicrokernels sum_rows_microkernels = {sum_rows<float>, sum_rows<double>,
                                                   sum_rows<bfloat16>};
const FiniteMicrokernels finite_microkernels = {are_finite<float, uint32_t, 23>,
                                                are_finite<double, uint64_t, 52>};
}  // namespace TESSERA_ISA

}  // namespace tessera
