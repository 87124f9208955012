// Transposes of square tiles in registers. For *_simd.cc files compiled for AVX2 or more.
#pragma once

#include "tessera/layers/shared/vector_simd.h"

namespace tessera {
namespace {

// Transposes in place: a[i] holds line i before, column i after.
inline __attribute__((always_inline)) void transpose(__m256* a) {
  __m256 b[8];
  for (int i = 0; i < 8; i += 2) {  // pairs of lines
    b[i] = _mm256_unpacklo_ps(a[i], a[i + 1]);
    b[i + 1] = _mm256_unpackhi_ps(a[i], a[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {  // groups of four lines
    a[i] = _mm256_shuffle_ps(b[i], b[i + 2], 0x44);
    a[i + 1] = _mm256_shuffle_ps(b[i], b[i + 2], 0xee);
    a[i + 2] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0x44);
    a[i + 3] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0xee);
  }
  for (int i = 0; i < 4; ++i) {  // halves
    b[i] = _mm256_permute2f128_ps(a[i], a[i + 4], 0x20);
    b[i + 4] = _mm256_permute2f128_ps(a[i], a[i + 4], 0x31);
  }
  for (int i = 0; i < 8; ++i) a[i] = b[i];
}

inline __attribute__((always_inline)) void transpose(__m256d* a) {
  __m256d b[4];
  for (int i = 0; i < 4; i += 2) {
    b[i] = _mm256_unpacklo_pd(a[i], a[i + 1]);
    b[i + 1] = _mm256_unpackhi_pd(a[i], a[i + 1]);
  }
  for (int i = 0; i < 2; ++i) {
    a[i] = _mm256_permute2f128_pd(b[i], b[i + 2], 0x20);
    a[i + 2] = _mm256_permute2f128_pd(b[i], b[i + 2], 0x31);
  }
}

#if defined(__AVX512F__)
// Shuffles quarters of two registers. The maskz form, with all lanes set, avoids a g++ 12 warning
// about undefined masked-out lanes.
template <int kWhich>
inline __m512 quarters(__m512 a, __m512 b) {
  return _mm512_maskz_shuffle_f32x4(0xffff, a, b, kWhich);
}

// The last stage, if each register has values of one part of the lines: quarter i of line l of
// `from` moves to quarter l of to[i * to_step].
inline __attribute__((always_inline)) void transpose_quarters(const __m512 (&from)[4], __m512* to,
                                                              int to_step) {
  const __m512 even_low = quarters<0x88>(from[0], from[1]);
  const __m512 odd_low = quarters<0xdd>(from[0], from[1]);
  const __m512 even_high = quarters<0x88>(from[2], from[3]);
  const __m512 odd_high = quarters<0xdd>(from[2], from[3]);
  to[0] = quarters<0x88>(even_low, even_high);
  to[to_step] = quarters<0x88>(odd_low, odd_high);
  to[2 * to_step] = quarters<0xdd>(even_low, even_high);
  to[3 * to_step] = quarters<0xdd>(odd_low, odd_high);
}

inline __attribute__((always_inline)) void transpose(__m512* a) {
  __m512 b[16];
  for (int i = 0; i < 16; i += 2) {
    b[i] = _mm512_maskz_unpacklo_ps(0xffff, a[i], a[i + 1]);
    b[i + 1] = _mm512_maskz_unpackhi_ps(0xffff, a[i], a[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    a[i] = _mm512_maskz_shuffle_ps(0xffff, b[i], b[i + 2], 0x44);
    a[i + 1] = _mm512_maskz_shuffle_ps(0xffff, b[i], b[i + 2], 0xee);
    a[i + 2] = _mm512_maskz_shuffle_ps(0xffff, b[i + 1], b[i + 3], 0x44);
    a[i + 3] = _mm512_maskz_shuffle_ps(0xffff, b[i + 1], b[i + 3], 0xee);
  }
  for (int j = 0; j < 4; ++j) transpose_quarters({a[j], a[j + 4], a[j + 8], a[j + 12]}, b + j, 4);
  for (int i = 0; i < 16; ++i) a[i] = b[i];
}

inline __attribute__((always_inline)) void transpose(__m512d* a) {
  __m512 b[8], c[8];
  for (int i = 0; i < 8; i += 2) {
    b[i] = _mm512_castpd_ps(_mm512_maskz_unpacklo_pd(0xff, a[i], a[i + 1]));
    b[i + 1] = _mm512_castpd_ps(_mm512_maskz_unpackhi_pd(0xff, a[i], a[i + 1]));
  }
  for (int j = 0; j < 2; ++j) transpose_quarters({b[j], b[j + 2], b[j + 4], b[j + 6]}, c + j, 2);
  for (int i = 0; i < 8; ++i) a[i] = _mm512_castps_pd(c[i]);
}
#endif

}  // namespace
}  // namespace tessera
