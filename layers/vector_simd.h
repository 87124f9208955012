// The widest vector of the instruction set a *_simd.cc file is compiled for, behind one spelling.
// For those files only: everything here is local to the file that includes it.
#pragma once

#include <cstdint>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

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
  static Register fill(float v) { return _mm512_set1_ps(v); }
  static void store(float* p, Register v) { _mm512_storeu_ps(p, v); }
  static Register fma(Register a, Register b, Register c) { return _mm512_fmadd_ps(a, b, c); }
};
template <>
struct Vector<double> {
  using Register = __m512d;
  static constexpr int kLanes = 8;
  static Register zero() { return _mm512_setzero_pd(); }
  static Register load(const double* p) { return _mm512_loadu_pd(p); }
  static Register fill(double v) { return _mm512_set1_pd(v); }
  static void store(double* p, Register v) { _mm512_storeu_pd(p, v); }
  static Register fma(Register a, Register b, Register c) { return _mm512_fmadd_pd(a, b, c); }
};
#elif defined(__AVX2__)
template <>
struct Vector<float> {
  using Register = __m256;
  static constexpr int kLanes = 8;
  static Register zero() { return _mm256_setzero_ps(); }
  static Register load(const float* p) { return _mm256_loadu_ps(p); }
  static Register fill(float v) { return _mm256_broadcast_ss(&v); }
  static void store(float* p, Register v) { _mm256_storeu_ps(p, v); }
  static Register fma(Register a, Register b, Register c) { return _mm256_fmadd_ps(a, b, c); }
};
template <>
struct Vector<double> {
  using Register = __m256d;
  static constexpr int kLanes = 4;
  static Register zero() { return _mm256_setzero_pd(); }
  static Register load(const double* p) { return _mm256_loadu_pd(p); }
  static Register fill(double v) { return _mm256_broadcast_sd(&v); }
  static void store(double* p, Register v) { _mm256_storeu_pd(p, v); }
  static Register fma(Register a, Register b, Register c) { return _mm256_fmadd_pd(a, b, c); }
};
#else
// No FMA to count on: a product, then a sum (-ffp-contract=off keeps it so everywhere).
template <class T>
struct Vector {
  using Register __attribute__((vector_size(16))) = T;
  using Unaligned __attribute__((vector_size(16), aligned(alignof(T)), may_alias)) = T;
  static constexpr int kLanes = 16 / sizeof(T);
  static Register zero() { return Register{}; }
  static Register load(const T* p) { return *reinterpret_cast<const Unaligned*>(p); }
  static Register fill(T v) { return Register{} + v; }
  static void store(T* p, Register v) { *reinterpret_cast<Unaligned*>(p) = v; }
  static Register fma(Register a, Register b, Register c) { return a * b + c; }
};
#endif

}  // namespace
}  // namespace tessera
