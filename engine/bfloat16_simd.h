// Conversions between registers and bfloat16, rounding as engine/dtype.h does. For *_simd.cc files
// compiled for AVX-512; everything here is local to the including file.
#pragma once

#if defined(__AVX512F__)
#include <array>
#include <cstdint>

#include <immintrin.h>

namespace tessera {
namespace {

inline __m512 widened(__m256i halves) {  // maskz with all lanes avoids a g++ 12 warning
  const __m512i wide = _mm512_maskz_cvtepu16_epi32(0xffff, halves);
  return _mm512_castsi512_ps(_mm512_maskz_slli_epi32(0xffff, wide, 16));
}
// Widens 32 numbers to two registers. In large kernels g++ would call it, with registers in memory.
[[gnu::always_inline]] inline void widen(__m512i halves, __m512& a, __m512& b) {
  constexpr auto kOrder = [] {
    std::array<std::array<uint16_t, 32>, 2> order{};
    for (uint16_t i = 0; i < 32; ++i) order[0][i] = i / 2, order[1][i] = 16 + i / 2;
    return order;
  }();
  constexpr __mmask32 kUpper = 0xaaaaaaaa;
  const auto at = [&](size_t half) {
    return _mm512_castsi512_ps(
        _mm512_maskz_permutexvar_epi16(kUpper, _mm512_loadu_si512(kOrder[half].data()), halves));
  };
  a = at(0), b = at(1);
}
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
// Returns the upper halves of the lanes of a, then of b. A permutation and a store are faster than
// VPMOVDW to memory.
inline __m512i upper_halves(__m512i a, __m512i b) {
  constexpr auto kUpper = [] {
    std::array<uint16_t, 32> upper{};
    for (size_t i = 0; i < upper.size(); ++i) upper[i] = static_cast<uint16_t>(2 * i + 1);
    return upper;
  }();
  return _mm512_permutex2var_epi16(a, _mm512_loadu_si512(kUpper.data()), b);
}
// Return the numbers of one register, or of two.
inline __m256i rounded_halves(__m512 x) {
  const __m512i words = rounded_words(x);  // a cast of the lower half causes a g++ 12 warning
  return _mm512_maskz_extracti64x4_epi64(0xff, upper_halves(words, words), 0);
}
inline __m512i rounded_halves(__m512 a, __m512 b) {
  return upper_halves(rounded_words(a), rounded_words(b));
}

}  // namespace
}  // namespace tessera
#endif
