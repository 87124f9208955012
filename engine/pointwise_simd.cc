#include "tessera/engine/pointwise_simd.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#include "tessera/engine/bfloat16_simd.h"
#include "tessera/engine/float_functions.h"
#include "tessera/engine/half_numbers.h"
#include "tessera/engine/pointwise_precompiled.h"

namespace tessera {
namespace {

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif

using Register __attribute__((vector_size(kVectorBytes))) = float;
using Unaligned __attribute__((vector_size(kVectorBytes), aligned(alignof(float)), may_alias)) =
    float;
constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(float));

// Keeps -0.
[[gnu::always_inline]] inline Register filled(double value) {
  return static_cast<float>(value) - Register{};
}
Register load(const float* p) { return *reinterpret_cast<const Unaligned*>(p); }
void store(float* p, Register v) { *reinterpret_cast<Unaligned*>(p) = v; }

// Loads only the first `count` lanes, 0 < count < kLanes.
#if defined(__AVX512F__)
__mmask16 first_lanes(int64_t count) { return static_cast<__mmask16>((1u << count) - 1); }
Register load_first(const float* p, int64_t count) {
  return _mm512_maskz_loadu_ps(first_lanes(count), p);
}
#else
Register load_first(const float* p, int64_t count) {
  float lanes[kLanes] = {};
  for (int64_t i = 0; i < count; ++i) lanes[i] = p[i];
  return load(lanes);
}
#endif
// Copies `count` elements, followed by zeros up to `whole`, a multiple of kLanes.
void copy_first(const float* x, int64_t count, int64_t whole, float* y) {
  for (int64_t i = 0; i < whole; i += kLanes)
    store(y + i, i + kLanes <= count ? load(x + i)
                 : i < count         ? load_first(x + i, count - i)
                                     : Register{});
}

// Bits of 16-bit elements, in as many lanes as a register has.
using Halves = __attribute__((vector_size(kVectorBytes / 2))) uint16_t;
using Words = BitsOf<Register>;

#if defined(__AVX512F__)
Register from_halves(Halves h, const bfloat16*) { return widened(__builtin_bit_cast(__m256i, h)); }
Halves to_halves(Register x, const bfloat16*) {
  return __builtin_bit_cast(Halves, rounded_halves(x));
}
// Stores the numbers of two registers.
void store_halves(bfloat16* to, Register a, Register b) {
  _mm512_storeu_si512(to, rounded_halves(a, b));
}
#else
[[gnu::always_inline]] inline Register rounded(Register x) { return bfloat16_of(x); }
Register from_halves(Halves h, const bfloat16*) {
  return __builtin_bit_cast(Register, __builtin_convertvector(h, Words) << 16);
}
Halves to_halves(Register x, const bfloat16*) {
  const Words nan = x != x ? Words{} + 0x400000u : Words{};
  const Words rounded = __builtin_bit_cast(Words, bfloat16_of(x)) | nan;
  return __builtin_convertvector(rounded >> 16, Halves);
}
void store_halves(bfloat16* to, Register a, Register b) {
  const Halves both[] = {to_halves(a, to), to_halves(b, to)};
  __builtin_memcpy(static_cast<void*>(to), both, sizeof both);
}
#endif
Register from_halves(Halves h, const float16*) {
  const Words u = __builtin_convertvector(h, Words), size = u & 0x7fffu;
  // The exponent moves from a bias of 15 to one of 127 in a multiplication, which is exact.
  const Register finite = __builtin_bit_cast(Register, size << 13) * 0x1p112f;
  const Words special = (size << 13) | 0x7f800000u;
  const Words y = size >= 0x7c00u ? special : __builtin_bit_cast(Words, finite);
  return __builtin_bit_cast(Register, y | (u & 0x8000u) << 16);
}
Halves to_halves(Register x, const float16*) {
  const Words y = __builtin_bit_cast(Words, float16_of(x)), size = y & 0x7fffffffu;
  // A rounded number has at most 11 bits, so the multiplication is exact.
  const Words finite =
      __builtin_bit_cast(Words, __builtin_bit_cast(Register, size) * 0x1p-112f) >> 13;
  const Words special = size > 0x7f800000u ? Words{} + 0x7e00u : Words{} + 0x7c00u;
  return __builtin_convertvector((size >= 0x7f800000u ? special : finite) | (y >> 16 & 0x8000u),
                                 Halves);
}

// Compiled code for the precompiled programs.

// Evaluates an instruction on vectors or on scalars.
template <ScalarOp kOp, class V>
[[gnu::always_inline]] inline V evaluate(V a, V b, V c, V value) {
  const V zero{}, one = zero + 1;
  if constexpr (kOp == ScalarOp::constant) return value;
  if constexpr (kOp == ScalarOp::add) return a + b;
  if constexpr (kOp == ScalarOp::sub) return a - b;
  if constexpr (kOp == ScalarOp::mul) return a * b;
  if constexpr (kOp == ScalarOp::div) return a / b;
  // The second comparison is optimized away if b is a constant.
  if constexpr (kOp == ScalarOp::max) return ((a <= b) | (b != b)) ? b : a;
  if constexpr (kOp == ScalarOp::min) return ((a >= b) | (b != b)) ? b : a;
  if constexpr (kOp == ScalarOp::greater) return a > b ? one : zero;
  if constexpr (kOp == ScalarOp::less_equal) return a <= b ? one : zero;
  if constexpr (kOp == ScalarOp::select) return a != zero ? b : c;
  if constexpr (kOp == ScalarOp::neg) return -a;
  if constexpr (kOp == ScalarOp::abs) return a < zero ? -a : a;
  if constexpr (kOp == ScalarOp::exp) return exp_of(a);
  if constexpr (kOp == ScalarOp::erf) return erf_of(a);
  if constexpr (kOp == ScalarOp::sigmoid) return sigmoid_of(a);
  if constexpr (kOp == ScalarOp::float32) return a;
  if constexpr (kOp == ScalarOp::bfloat16 && std::is_same_v<V, Register>) return rounded(a);
  if constexpr (kOp == ScalarOp::bfloat16) return bfloat16_of(a);
  if constexpr (kOp == ScalarOp::float16) return float16_of(a);
  if constexpr (kOp == ScalarOp::pow) return pow_of(a, b);
  if constexpr (kOp == ScalarOp::log) return log_of(a);
  if constexpr (kOp == ScalarOp::sqrt) return std::sqrt(a);
  if constexpr (kOp == ScalarOp::tanh) return tanh_of(a);
  if constexpr (kOp == ScalarOp::sin) return std::sin(a);
  if constexpr (kOp == ScalarOp::cos) return std::cos(a);
}

// Returns the number of vector registers computed per iteration, to amortize the loop counter.
// Programs with functions have enough work with one; rare programs use two, to compile faster.
constexpr int unroll(int program) {
  const PrecompiledProgram& known = kPrecompiledPrograms.list[program];
  for (int j = 0; j < known.length; ++j)
    if (known.code[j].op >= ScalarOp::exp && known.code[j].op <= ScalarOp::sigmoid) return 1;
  return program < kPrecompiledPrograms.common ? 4 : 2;
}

// Computes one vector register of results; load(k) loads one of input k.
template <int kProgram, class Load>
[[gnu::always_inline]] inline Register compute(const Load& load) {
  constexpr PrecompiledProgram program = kPrecompiledPrograms.list[kProgram];
  Register r[program.inputs + program.length];
  for (int k = 0; k < program.inputs; ++k) r[k] = load(k);
  [&]<int... J>(std::integer_sequence<int, J...>) __attribute__((always_inline)) {
    ((r[program.inputs + J] =
          evaluate<program.code[J].op>(r[program.code[J].a], r[program.code[J].b],
                                       r[program.code[J].c], filled(program.code[J].value))),
     ...);
  }
  (std::make_integer_sequence<int, program.length>());
  return r[program.inputs + program.length - 1];
}

// Stores nothing but the result, as pending stores limit the memory throughput.
template <int kProgram, bool kMasked>
int64_t run_steps(const void* const* in, const int64_t* mask, const PointwiseNumbers*,
                  PointwiseNumbers, int64_t n, void* out) {
  constexpr int kUnroll = unroll(kProgram), kStep = kUnroll * kLanes;
  constexpr int kInputs = kPrecompiledPrograms.list[kProgram].inputs;
  const float* from[kInputs];  // a copy, as stores might alias `in`
  for (int k = 0; k < kInputs; ++k) from[k] = static_cast<const float*>(in[k]);
  auto* const to = static_cast<float*>(out);
  int64_t i = 0;
  for (; i + kStep <= n; i += kStep) {
    const float* x[kInputs];
    for (int k = 0; k < kInputs; ++k) x[k] = from[k] + (kMasked ? i & mask[k] : i);
    Register y[kUnroll];
    for (int u = 0; u < kUnroll; ++u)
      y[u] = compute<kProgram>([&](int k) { return load(x[k] + u * kLanes); });
    for (int u = 0; u < kUnroll; ++u) store(to + i + u * kLanes, y[u]);
  }
  return i;
}

constexpr int kHalfRegisters = 2;  // per iteration; their results are stored as one
#if defined(__AVX2__)
// Compiled code for numbers of bfloat16.

[[gnu::always_inline]] inline Register load_numbers(const void* p, int64_t at,
                                                    PointwiseNumbers numbers) {
  if (numbers == PointwiseNumbers::bf16) {
    const auto* x = static_cast<const bfloat16*>(p) + at;
    Halves h;
    __builtin_memcpy(&h, x, sizeof h);
    return from_halves(h, x);
  }
  const Register x = load(static_cast<const float*>(p) + at);
  return numbers == PointwiseNumbers::rounded ? rounded(x) : x;
}

[[gnu::always_inline]] inline void store_numbers(void* p, int64_t at, Register a, Register b,
                                                 PointwiseNumbers numbers) {
  if (numbers == PointwiseNumbers::bf16) return store_halves(static_cast<bfloat16*>(p) + at, a, b);
  const bool rounds = numbers == PointwiseNumbers::rounded;
  store(static_cast<float*>(p) + at, rounds ? rounded(a) : a);
  store(static_cast<float*>(p) + at + kLanes, rounds ? rounded(b) : b);
}

template <int kProgram>
int64_t run_half_steps(const void* const* in, const int64_t* mask, const PointwiseNumbers* numbers,
                       PointwiseNumbers result, int64_t n, void* out) {
  constexpr int kUnroll = kHalfRegisters, kStep = kUnroll * kLanes;
  constexpr int kInputs = kPrecompiledPrograms.list[kProgram].inputs;
  const void* from[kInputs];  // copies, as stores might alias the originals
  int64_t stays[kInputs];
  PointwiseNumbers stored[kInputs];
  for (int k = 0; k < kInputs; ++k) from[k] = in[k], stays[k] = mask[k], stored[k] = numbers[k];
  int64_t i = 0;
  for (; i + kStep <= n; i += kStep) {
    Register x[kInputs][kUnroll], y[kUnroll];
    for (int k = 0; k < kInputs; ++k)
      for (int u = 0; u < kUnroll; ++u)
        x[k][u] = load_numbers(from[k], (i & stays[k]) + u * kLanes, stored[k]);
    for (int u = 0; u < kUnroll; ++u) y[u] = compute<kProgram>([&](int k) { return x[k][u]; });
    store_numbers(out, i, y[0], y[1], result);
  }
  return i;
}
#endif

constexpr bool has_vectors(ScalarOp op) {
  return op != ScalarOp::sqrt && op != ScalarOp::sin && op != ScalarOp::cos;
}

// Executes one instruction on n elements; the result may overwrite an operand element by element.
template <ScalarOp kOp>
[[gnu::noinline]] int64_t execute_registers(const float* const (&in)[3], double value, int64_t n,
                                            float* y) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    Register x[3] = {};
    for (int k = 0; k < operand_count(kOp); ++k) x[k] = load(in[k] + i);
    store(y + i, evaluate<kOp>(x[0], x[1], x[2], filled(value)));
  }
  return i;
}

template <ScalarOp kOp, class T>
void execute(const InterpretedStep& step, const T* const* registers, T* y, int64_t n) {
  constexpr int kOperands = operand_count(kOp);
  const uint8_t sources[] = {step.a, step.b, step.c};
  const T* in[3] = {};
  for (int k = 0; k < kOperands; ++k) in[k] = registers[sources[k]];
  if constexpr (sizeof(T) == sizeof(float) && has_vectors(kOp)) {
    const int64_t i = execute_registers<kOp>(in, step.value, n, y);
    if (i == n) return;
    float rest[4][kLanes];
    for (int k = 0; k < kOperands; ++k) {
      copy_first(in[k] + i, n - i, kLanes, rest[k]);
      in[k] = rest[k];
    }
    execute_registers<kOp>(in, step.value, kLanes, rest[3]);
    for (int64_t j = 0; j < n - i; ++j) y[i + j] = rest[3][j];
  } else {
#if !defined(__clang__)  // clang checks at run time
#pragma GCC ivdep
#endif
    for (int64_t i = 0; i < n; ++i)
      y[i] = evaluate<kOp, T>(kOperands > 0 ? in[0][i] : T(0), kOperands > 1 ? in[1][i] : T(0),
                              kOperands > 2 ? in[2][i] : T(0), static_cast<T>(step.value));
  }
}

// Returns {code<0>(), .., code<kCount - 1>()}.
template <class Function, int kCount>
constexpr auto table_of(const auto& code) {
  return [&]<int... K>(std::integer_sequence<int, K...>) {
    return std::array<Function, kCount>{code.template operator()<K>()...};
  }
  (std::make_integer_sequence<int, kCount>());
}

template <class T>
constexpr auto kInstructions =
    table_of<void (*)(const InterpretedStep&, const T* const*, T*, int64_t),
             static_cast<int>(ScalarOp::float16) + 1>([]<int kOp>() {
      return execute<static_cast<ScalarOp>(kOp), T>;
    });

// Each instruction is one vector loop over a block in the L1 cache, so some hundred elements share
// the cost of interpreting.
template <class T>
void interpret(const InterpretedProgram& program, T (*blocks)[kPointwiseBlock<T>],
               const T* const* in, int64_t n, T* out) {
  const T* registers[2 * kMaxScalarRegisters];
  for (int k = 0; k < program.blocks; ++k) registers[kMaxScalarRegisters + k] = blocks[k];
  for (int64_t i = 0; i < n; i += kPointwiseBlock<T>) {
    const int64_t count = n - i < kPointwiseBlock<T> ? n - i : kPointwiseBlock<T>;
    for (int k = 0; k < program.inputs; ++k) registers[k] = in[k] + i;
    if (program.count == 0)
      for (int64_t j = 0; j < count; ++j) out[i + j] = in[0][i + j];
    for (int j = 0; j < program.count; ++j) {
      const InterpretedStep& step = program.steps[j];
      T* y = j + 1 == program.count ? out + i : blocks[step.to];
      kInstructions<T>[static_cast<size_t>(step.op)](step, registers, y, count);
    }
  }
}

constexpr auto kPrecompiledCode =
    table_of<PrecompiledCode, kPrecompiledPrograms.count>([]<int kProgram>() {
      constexpr int kUnroll = unroll(kProgram);
      PrecompiledCode code{.step = kUnroll * kLanes,
                           .half_step = kHalfRegisters * kLanes,
                           .linear = run_steps<kProgram, kUnroll == 1>,  // one serves both
                           .masked = run_steps<kProgram, true>,
                           .half = nullptr};
#if defined(__AVX2__)
      if constexpr (kPrecompiledPrograms.is_for_bfloat16(kProgram))
        code.half = run_half_steps<kProgram>;
#endif
      return code;
    });

template <class H>
void from_half(const H* x, int64_t n, float* y) {
  Halves h{};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    __builtin_memcpy(&h, x + i, sizeof h);
    store(y + i, from_halves(h, x));
  }
  if (i == n) return;
  __builtin_memcpy(&h, x + i, static_cast<size_t>(n - i) * sizeof(H));
  const Register last = from_halves(h, x);
  __builtin_memcpy(y + i, &last, static_cast<size_t>(n - i) * sizeof(float));
}

template <class H>
void to_half(const float* x, int64_t n, H* y) {
  int64_t i = 0;
  if constexpr (std::is_same_v<H, bfloat16>)
    for (; i + 2 * kLanes <= n; i += 2 * kLanes)
      store_halves(y + i, load(x + i), load(x + i + kLanes));
  for (; i + kLanes <= n; i += kLanes) {
    const Halves h = to_halves(load(x + i), y);
    __builtin_memcpy(&y[i].bits, &h, sizeof h);
  }
  if (i == n) return;
  const Halves h = to_halves(load_first(x + i, n - i), y);
  __builtin_memcpy(&y[i].bits, &h, static_cast<size_t>(n - i) * sizeof(H));
}

template <ScalarOp kOp>
void round_to(const float* x, int64_t n, float* y) {
  const float* const registers[] = {x};
  execute<kOp>(InterpretedStep{.op = kOp}, registers, y, n);
}

}  // namespace

namespace TESSERA_ISA {
extern const HalfMicrokernels half_microkernels;
const HalfMicrokernels half_microkernels = {
    {from_half<bfloat16>, to_half<bfloat16>, round_to<ScalarOp::bfloat16>},
    {from_half<float16>, to_half<float16>, round_to<ScalarOp::float16>}};
extern const PointwiseMicrokernels pointwise_microkernels;
const PointwiseMicrokernels pointwise_microkernels = {kPrecompiledCode.data(), interpret<float>,
                                                      interpret<double>};
}  // namespace TESSERA_ISA

}  // namespace tessera
