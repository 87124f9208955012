// Rounding of registers to bfloat16, as engine/dtype.h does it. For *_simd.cc files compiled for
// AVX-512; everything here is local to the including file.
#pragma once

#if defined(__AVX512F__)
#include <immintrin.h>

namespace tessera {
namespace {

// Returns x rounded, unless it is NaN, in the upper half of each lane; the lower is not 0.
inline __m512i near_words(__m512i x) {
  const __mmask16 odd = _mm512_test_epi32_mask(x, _mm512_set1_epi32(0x10000));
  const __m512i up = _mm512_add_epi32(x, _mm512_set1_epi32(0x7fff));
  return _mm512_mask_sub_epi32(up, odd, up, _mm512_set1_epi32(-1));
}
// Returns x rounded, likewise.
inline __m512i rounded_words(__m512 x) {
  const __m512i words = _mm512_castps_si512(x);
  return _mm512_mask_or_epi32(near_words(words), _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), words,
                              _mm512_set1_epi32(0x400000));
}
// bfloat16_of(), in fewer instructions
[[gnu::always_inline]] inline __m512 rounded(__m512 x) {
  const __m512i words = _mm512_castps_si512(x);
  return _mm512_castsi512_ps(_mm512_mask_and_epi32(words, _mm512_cmp_ps_mask(x, x, _CMP_ORD_Q),
                                                   near_words(words), _mm512_set1_epi32(-0x10000)));
}

}  // namespace
}  // namespace tessera
#endif
