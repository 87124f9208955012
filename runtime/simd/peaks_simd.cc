#include "tessera/runtime/simd/peaks_simd.h"

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

namespace tessera {
namespace {

#if defined(__AVX512F__)
using Register = __m512;
Register fill(float x) { return _mm512_set1_ps(x); }
Register multiply_add(Register a, Register b, Register c) { return _mm512_fmadd_ps(a, b, c); }
#elif defined(__AVX2__)
using Register = __m256;
Register fill(float x) { return _mm256_set1_ps(x); }
Register multiply_add(Register a, Register b, Register c) { return _mm256_fmadd_ps(a, b, c); }
#elif defined(__ARM_NEON)
using Register = float32x4_t;
Register fill(float x) { return vdupq_n_f32(x); }
Register multiply_add(Register a, Register b, Register c) { return vfmaq_f32(c, a, b); }
#else
using Register = float __attribute__((vector_size(16)));
Register fill(float x) { return Register{x, x, x, x}; }
Register multiply_add(Register a, Register b, Register c) { return a * b + c; }
#endif

// Enough sums to hide the latency of two units, within sixteen registers.
constexpr int kSums = 12;
constexpr int64_t kLanes = sizeof(Register) / sizeof(float);

float sum_of_lanes(const Register& r) {
  float lanes[kLanes], sum = 0;
  __builtin_memcpy(lanes, &r, sizeof(r));
  for (const float lane : lanes) sum += lane;
  return sum;
}

float multiply_add_rounds(int64_t rounds, float factor, float term) {
  const Register a = fill(factor), b = fill(term);
  Register sums[kSums];
  for (int i = 0; i < kSums; ++i) sums[i] = fill(static_cast<float>(i));
  for (int64_t r = 0; r < rounds; ++r)
    for (int i = 0; i < kSums; ++i) sums[i] = multiply_add(sums[i], a, b);
  Register all = sums[0];
  for (int i = 1; i < kSums; ++i) all = multiply_add(all, a, sums[i]);
  return sum_of_lanes(all);
}

#if defined(__AVX512F__)
__attribute__((target("avx512bf16"))) float multiply_add_pairs(int64_t rounds) {
  const auto ones = reinterpret_cast<__m512bh>(_mm512_set1_epi16(0x3f80));
  const auto quarters = reinterpret_cast<__m512bh>(_mm512_set1_epi16(0x3e80));
  Register sums[kSums];
  for (Register& sum : sums) sum = fill(0);
  for (int64_t r = 0; r < rounds; ++r)
    for (int i = 0; i < kSums; ++i) sums[i] = _mm512_dpbf16_ps(sums[i], ones, quarters);
  float result = 0;
  for (const Register& sum : sums) result += sum_of_lanes(sum);
  return result;
}
#else
constexpr float (*multiply_add_pairs)(int64_t) = nullptr;
#endif

void copy(const float* __restrict from, float* __restrict to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = from[i];
}

}  // namespace

namespace TESSERA_ISA {
const PeakMicrokernels peak_microkernels = {multiply_add_rounds, 2 * kSums* kLanes,
                                            multiply_add_pairs, copy};
}  // namespace TESSERA_ISA

}  // namespace tessera
