// The scalar program as one CUDA kernel: a thread computes whole elements, its registers in local
// memory. All threads of a warp run the same instruction, so interpreting costs no divergence.
#include <algorithm>

#include "tessera/engine/pointwise.h"
#include "tessera/engine/pointwise_cuda.h"
#include "tessera/runtime/cuda/context.h"
#include "tessera/runtime/cuda/cuda.h"
#include "tessera/runtime/cuda/device_code.h"
#include "tessera/runtime/cuda/launch.h"
#include "tessera/runtime/error.h"

namespace tessera {
namespace {

constexpr int kThreads = 256, kBlocksPerMultiprocessor = 8;

template <class T>
struct Step {
  ScalarOp op;
  uint8_t a, b, c;
  T value;
};

// Passed to the kernel by value, so that a launch needs no memory of its own.
template <class T>
struct Program {
  const T* in[kMaxScalarRegisters];
  Broadcast broadcasts[kMaxScalarRegisters];
  Step<T> code[kMaxScalarRegisters];
  int inputs, instructions;
  int64_t total;
  T* out;
};
static_assert(sizeof(Program<double>) <= 4096, "the limit of a kernel's parameters");

// The results for NaN are those of the CPU: one in the first operand of max and min stays.
template <class T>
__device__ T evaluate(const Step<T>& step, T a, T b, T c) {
  switch (step.op) {
    case ScalarOp::constant:
      return step.value;
    case ScalarOp::add:
      return a + b;
    case ScalarOp::sub:
      return a - b;
    case ScalarOp::mul:
      return a * b;
    case ScalarOp::div:
      return a / b;
    case ScalarOp::max:
      return a <= b ? b : a;
    case ScalarOp::min:
      return a >= b ? b : a;
    case ScalarOp::pow:
      return ::pow(a, b);
    case ScalarOp::greater:
      return a > b ? T(1) : T(0);
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
    case ScalarOp::erf:
      return ::erf(a);
    case ScalarOp::sigmoid:
      return T(1) / (T(1) + ::exp(-a));
  }
  return T(0);
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    run_program(const __grid_constant__ Program<T> program) {
  T registers[kMaxScalarRegisters];
  for (int64_t i = first_index(); i < program.total; i += index_stride()) {
    for (int k = 0; k < program.inputs; ++k) {
      const Broadcast& broadcast = program.broadcasts[k];
      int64_t at = i;  // 64-bit divisions are slow: only where the input is broadcast
      if (broadcast.repeat > 1) at /= broadcast.repeat;
      if (broadcast.period < program.total) at %= broadcast.period;
      registers[k] = program.in[k][at];
    }
    for (int j = 0; j < program.instructions; ++j) {
      const Step<T>& step = program.code[j];
      registers[program.inputs + j] =
          evaluate(step, registers[step.a], registers[step.b], registers[step.c]);
    }
    const int last = program.inputs + program.instructions - 1;
    program.out[i] = registers[program.instructions == 0 ? 0 : last];
  }
}

template <class T>
class PointwiseCudaKernel final : public Kernel {
 public:
  PointwiseCudaKernel(const ScalarProgram& p, const std::vector<Broadcast>& broadcasts,
                      int64_t total) {
    program_.inputs = p.inputs;
    program_.instructions = static_cast<int>(p.code.size());
    program_.total = total;
    std::copy(broadcasts.begin(), broadcasts.end(), program_.broadcasts);
    for (size_t j = 0; j < p.code.size(); ++j) {
      const Instruction& from = p.code[j];
      program_.code[j] = {from.op, from.a, from.b, from.c, static_cast<T>(from.value)};
    }
  }

  void run(Context& where, Buffers in, Buffers out, Buffer) override {
    if (program_.total == 0) return;
    for (size_t k = 0; k < in.size(); ++k) program_.in[k] = in[k].as<const T>();
    program_.out = out[0].as<T>();
    CudaContext& gpu = as_cuda(where);
    CudaDeviceGuard guard(gpu.index());
    const dim3 grid =
        grid_for(program_.total, kThreads, gpu.multiprocessors() * kBlocksPerMultiprocessor);
    launch("pointwise", run_program<T>, grid, kThreads, 0, gpu.cuda_stream(), program_);
  }

 private:
  Program<T> program_{};
};

}  // namespace

std::unique_ptr<Kernel> pointwise_cuda(const ScalarProgram& program,
                                       std::span<const TensorSpec> in) {
  if (program.registers() > kMaxScalarRegisters)
    throw InternalError("a scalar program has more registers than kernels hold");
  Shape out = in[0].shape;
  for (const TensorSpec& x : in) out = broadcast(out, x.shape, "pointwise");
  std::vector<Broadcast> broadcasts(in.size());
  for (size_t k = 0; k < in.size(); ++k)
    if (!broadcast_of(in[k].shape, out, &broadcasts[k]))
      throw InternalError("a pointwise kernel was asked for a broadcast it cannot read");
  if (in[0].dtype == DType::f64)
    return std::make_unique<PointwiseCudaKernel<double>>(program, broadcasts, out.elements());
  return std::make_unique<PointwiseCudaKernel<float>>(program, broadcasts, out.elements());
}

}  // namespace tessera
