// Vector: the widest vector of the instruction set for which a *_simd.cc file is compiled.
// Everything here is local to the including file. load_first and store_first access only the first
// `count` lanes, 0 < count < kLanes. bfloat16 is widened as it is loaded.
#pragma once

#include <cstdint>

#include "tessera/engine/bfloat16_simd.h"
#include "tessera/engine/dtype.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

// For loops over registers: otherwise g++ unrolls too late to keep their array out of memory.
#define TESSERA_UNROLL _Pragma("GCC unroll 16")

namespace tessera {
namespace {

template <class T>
struct Vector;

#if defined(__AVX512F__)
template <>
struct Vector<float> {
  using Register = __m512;
  static constexpr int kLanes = 16;
  static Register zero() { return _mm512_setzero_ps(); }
  static Register load(const float* p) { return _mm512_loadu_ps(p); }
  static Register fill(const float* p) { return _mm512_set1_ps(*p); }
  static void store(float* p, Register v) { _mm512_storeu_ps(p, v); }
  static Register load(const bfloat16* p) {
    return widened(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  [[gnu::always_inline]] static Register load_first(const bfloat16* p, int count) {
    return widened(_mm256_maskz_loadu_epi16(first(count), p));
  }
#if defined(__AVX512BF16__)
  [[gnu::always_inline]] static __mmask16 denormal(Register x) {
    return _mm512_fpclass_ps_mask(x, 0x20);
  }
  // Return numbers rounded to bfloat16, which are not denormal.
  [[gnu::always_inline]] static __m256i normal_halves(Register x) {
    return reinterpret_cast<__m256i>(_mm512_maskz_cvtneps_pbh(0xffff, x));
  }
  [[gnu::always_inline]] static __m512i normal_halves(Register a, Register b) {
    return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(b, a));
  }
#endif
  // Return any numbers rounded to bfloat16.
  [[gnu::always_inline]] static __m256i halves(Register x) {
#if defined(__AVX512BF16__)
    if (__builtin_expect(denormal(x) == 0, 1)) return normal_halves(x);
#endif
    return rounded_halves(x);
  }
  [[gnu::always_inline]] static __m512i halves(Register a, Register b) {
#if defined(__AVX512BF16__)
    if (__builtin_expect(_mm512_kortestz(denormal(a), denormal(b)), 1)) return normal_halves(a, b);
#endif
    return rounded_halves(a, b);
  }
  // Loads two registers.
  [[gnu::always_inline]] static void load(const bfloat16* p, Register& a, Register& b) {
    widen(_mm512_loadu_si512(p), a, b);
  }
  [[gnu::always_inline]] static void store(bfloat16* p, __m256i halves) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), halves);
  }
  [[gnu::always_inline]] static void store(bfloat16* p, Register v) { store(p, halves(v)); }
  // Return those of one of two registers; shuffles avoid a g++ 12 warning.
  [[gnu::always_inline]] static __m256i lower(__m512i halves) {
    return __builtin_shufflevector(halves, halves, 0, 1, 2, 3);
  }
  [[gnu::always_inline]] static __m256i upper(__m512i halves) {
    return __builtin_shufflevector(halves, halves, 4, 5, 6, 7);
  }
  // Stores in parts: some processors take long to mask elements of 16 bits.
  [[gnu::always_inline]] static void store_first(bfloat16* p, __m256i halves, int count) {
    __m128i part = _mm256_castsi256_si128(halves);
    if (count & 8) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(p), part);
      part = _mm256_extracti128_si256(halves, 1), p += 8;
    }
    if (count & 4) {
      _mm_storel_epi64(reinterpret_cast<__m128i*>(p), part);
      part = _mm_unpackhi_epi64(part, part), p += 4;
    }
    if (count & 2) {
      _mm_storeu_si32(p, part);
      part = _mm_srli_epi64(part, 32), p += 2;
    }
    if (count & 1) _mm_storeu_si16(p, part);
  }
  static void store_first(bfloat16* p, Register v, int count) { store_first(p, halves(v), count); }
  // Stores those of a register, and the first `count` of another.
  [[gnu::always_inline]] static void store_first(bfloat16* p, __m512i halves, int count) {
    if (count == kLanes) return _mm512_storeu_si512(p, halves);
    store(p, lower(halves)), store_first(p + kLanes, upper(halves), count);
  }
  static Register fma(Register a, Register b, Register c) { return _mm512_fmadd_ps(a, b, c); }
  // b if one is NaN or both are 0
  static Register max(Register a, Register b) { return _mm512_maskz_max_ps(0xffff, a, b); }
  static Register min(Register a, Register b) { return _mm512_maskz_min_ps(0xffff, a, b); }
  static __mmask16 first(int count) { return static_cast<__mmask16>((1u << count) - 1); }
  static Register load_first(const float* p, int count) {
    return _mm512_maskz_loadu_ps(first(count), p);
  }
  static void store_first(float* p, Register v, int count) {
    _mm512_mask_storeu_ps(p, first(count), v);
  }
};
template <>
struct Vector<double> {
  using Register = __m512d;
  static constexpr int kLanes = 8;
  static Register zero() { return _mm512_setzero_pd(); }
  static Register load(const double* p) { return _mm512_loadu_pd(p); }
  static Register fill(const double* p) { return _mm512_set1_pd(*p); }
  static void store(double* p, Register v) { _mm512_storeu_pd(p, v); }
  static Register fma(Register a, Register b, Register c) { return _mm512_fmadd_pd(a, b, c); }
  static __mmask8 first(int count) { return static_cast<__mmask8>((1u << count) - 1); }
  static Register load_first(const double* p, int count) {
    return _mm512_maskz_loadu_pd(first(count), p);
  }
  static void store_first(double* p, Register v, int count) {
    _mm512_mask_storeu_pd(p, first(count), v);
  }
};
#elif defined(__AVX2__)
template <>
struct Vector<float> {
  using Register = __m256;
  static constexpr int kLanes = 8;
  static Register zero() { return _mm256_setzero_ps(); }
  static Register load(const float* p) { return _mm256_loadu_ps(p); }
  static Register fill(const float* p) { return _mm256_set1_ps(*p); }
  static void store(float* p, Register v) { _mm256_storeu_ps(p, v); }
  static Register load(const bfloat16* p) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
  }
  static Register load_first(const bfloat16* p, int count) {
    bfloat16 lanes[kLanes] = {};
    for (int i = 0; i < count; ++i) lanes[i] = p[i];
    return load(lanes);
  }
  static Register fma(Register a, Register b, Register c) { return _mm256_fmadd_ps(a, b, c); }
  static Register max(Register a, Register b) { return _mm256_max_ps(a, b); }
  static Register min(Register a, Register b) { return _mm256_min_ps(a, b); }
  static __m256i first(int count) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  static Register load_first(const float* p, int count) {
    return _mm256_maskload_ps(p, first(count));
  }
  // Stores in parts: a masked store takes a dozen cycles on some processors.
  static void store_first(float* p, Register v, int count) {
    __m128 part = _mm256_castps256_ps128(v);
    if (count & 4) _mm_storeu_ps(p, part), part = _mm256_extractf128_ps(v, 1), p += 4;
    if (count & 2) {
      _mm_storel_pi(reinterpret_cast<__m64*>(p), part);
      part = _mm_movehl_ps(part, part), p += 2;
    }
    if (count & 1) _mm_store_ss(p, part);
  }
};
template <>
struct Vector<double> {
  using Register = __m256d;
  static constexpr int kLanes = 4;
  static Register zero() { return _mm256_setzero_pd(); }
  static Register load(const double* p) { return _mm256_loadu_pd(p); }
  static Register fill(const double* p) { return _mm256_set1_pd(*p); }
  static void store(double* p, Register v) { _mm256_storeu_pd(p, v); }
  static Register fma(Register a, Register b, Register c) { return _mm256_fmadd_pd(a, b, c); }
  static __m256i first(int count) {
    return _mm256_cmpgt_epi64(_mm256_set1_epi64x(count), _mm256_setr_epi64x(0, 1, 2, 3));
  }
  static Register load_first(const double* p, int count) {
    return _mm256_maskload_pd(p, first(count));
  }
  static void store_first(double* p, Register v, int count) {
    __m128d part = _mm256_castpd256_pd128(v);
    if (count & 2) _mm_storeu_pd(p, part), part = _mm256_extractf128_pd(v, 1), p += 2;
    if (count & 1) _mm_store_sd(p, part);
  }
};
#else
// Multiplies, then adds, as FMA may be missing (-ffp-contract=off keeps both apart everywhere).
template <class T>
struct Vector {
  using Register __attribute__((vector_size(16))) = T;
  using Unaligned __attribute__((vector_size(16), aligned(alignof(T)), may_alias)) = T;
  static constexpr int kLanes = 16 / sizeof(T);
  static Register zero() { return Register{}; }
  static Register load(const T* p) { return *reinterpret_cast<const Unaligned*>(p); }
  static Register fill(const T* p) { return Register{} + *p; }
  static void store(T* p, Register v) { *reinterpret_cast<Unaligned*>(p) = v; }
  static Register fma(Register a, Register b, Register c) { return a * b + c; }
  static Register load_first(const T* p, int count) {
    Register v{};
    for (int i = 0; i < count; ++i) v[i] = p[i];
    return v;
  }
  static void store_first(T* p, Register v, int count) {
    for (int i = 0; i < count; ++i) p[i] = v[i];
  }
};
#endif

}  // namespace
}  // namespace tessera
