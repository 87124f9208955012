// Device code shared by the compiled and interpreted kernels for scalar programs. For .cu files.
#pragma once

#include <vector>

#include "tessera/engine/half_cuda.h"
#include "tessera/engine/kernels_cuda.h"
#include "tessera/engine/scalar_program.h"
#include "tessera/runtime/cuda/context.h"
#include "tessera/runtime/cuda/device_code.h"

namespace tessera {

// Passed to kernels by value, so a launch allocates nothing.
template <class T>
struct PointwiseCall {
  const void* in[kMaxScalarRegisters];
  PointwiseRead reads[kMaxScalarRegisters];
  int64_t total;
  void* out;
  DType result;
  DType rounds;  // the type to which a precompiled program rounds between its stages
};

// Returns the index in `input` for element i of the output. Divides only if necessary, as divisions
// are slow.
template <class T>
__device__ int64_t read_index(const PointwiseCall<T>& call, int input, int64_t i) {
  const PointwiseRead& read = call.reads[input];
  int64_t at = read.repeat > 1 ? quotient(i, read.repeat) : i;
  if (read.period < call.total) at -= quotient(at, read.period) * read.period;
  if (read.stride > 0) at += quotient(i, read.sample) * read.stride;
  return at;
}

// Returns the same results as the CPU. What is NaN is NaN in both, with other bits.
template <class T>
__device__ T evaluate(ScalarOp op, T value, T a, T b, T c) {
  switch (op) {
    case ScalarOp::constant:
      return value;
    case ScalarOp::add:
      return a + b;
    case ScalarOp::sub:
      return a - b;
    case ScalarOp::mul:
      return a * b;
    case ScalarOp::div:
      return a / b;
    case ScalarOp::max:
      return a <= b || b != b ? b : a;
    case ScalarOp::min:
      return a >= b || b != b ? b : a;
    case ScalarOp::pow:
      return ::pow(a, b);
    case ScalarOp::greater:
      return a > b ? T(1) : T(0);
    case ScalarOp::less_equal:
      return a <= b ? T(1) : T(0);
    case ScalarOp::select:
      return a != T(0) ? b : c;
    case ScalarOp::neg:
      return -a;
    case ScalarOp::abs:
      return a < T(0) ? -a : a;
    case ScalarOp::exp:
      return ::exp(a);
    case ScalarOp::log:
      return ::log(a);
    case ScalarOp::sqrt:
      return ::sqrt(a);
    case ScalarOp::tanh:
      return ::tanh(a);
    case ScalarOp::sin:
      return ::sin(a);
    case ScalarOp::cos:
      return ::cos(a);
    case ScalarOp::erf:
      return ::erf(a);
    case ScalarOp::sigmoid:
      return T(1) / (T(1) + ::exp(-a));
    case ScalarOp::float32:
      return a;
    case ScalarOp::bfloat16:
      return static_cast<T>(to_float(to_stored<bfloat16>(a)));
    case ScalarOp::float16:
      return static_cast<T>(to_float(to_stored<float16>(a)));
  }
  return T(0);
}

// Calls fn with a value of the type that elements of a program in float32 have in memory.
template <class F>
__device__ void with_stored(DType type, F&& fn) {
  if (type == DType::f32) return fn(0.0f);
  type == DType::bf16 ? fn(bfloat16{}) : fn(float16{});
}

// Returns element `at` of input k.
template <class T>
__device__ T read_element(const PointwiseCall<T>& call, int k, int64_t at) {
  if constexpr (std::is_same_v<T, double>) {
    return static_cast<const double*>(call.in[k])[at];
  } else {
    float value = 0;
    with_stored(call.reads[k].type,
                [&]<class S>(S) { value = to_float(static_cast<const S*>(call.in[k])[at]); });
    return value;
  }
}
template <class T>
__device__ void write_element(const PointwiseCall<T>& call, int64_t at, T value) {
  if constexpr (std::is_same_v<T, double>)
    static_cast<double*>(call.out)[at] = value;
  else
    with_stored(call.result,
                [&]<class S>(S) { static_cast<S*>(call.out)[at] = to_stored<S>(value); });
}

// Runs a program of kPrecompiledPrograms. float32 only, as float64 is for checking gradients.
void run_precompiled_program(CudaContext& ctx, int program, const PointwiseCall<float>& call);

}  // namespace tessera
