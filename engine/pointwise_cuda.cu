// Scalar programs on a GPU. Programs without compiled code are interpreted: each thread computes
// whole elements, with registers in local memory. All threads of a warp run the same instruction,
// so interpreting causes no divergence.
#include <algorithm>

#include "tessera/engine/kernels_cuda.h"
#include "tessera/engine/pointwise.h"
#include "tessera/engine/pointwise_code_cuda.h"
#include "tessera/engine/pointwise_precompiled.h"
#include "tessera/runtime/cuda/cuda.h"
#include "tessera/runtime/error.h"

namespace tessera {
namespace {

constexpr int kBlocksPerMultiprocessor = 8;

template <class T>
struct Step {
  ScalarOp op;
  uint8_t a, b, c;
  T value;
};

template <class T>
struct Program {
  PointwiseCall<T> call;
  Step<T> code[kMaxScalarRegisters];
  int inputs, instructions;
};
static_assert(sizeof(Program<double>) <= 4096, "the limit of a kernel's parameters");

template <class T>
__global__ void __launch_bounds__(kThreads)
    run_program(const __grid_constant__ Program<T> program) {
  T registers[kMaxScalarRegisters];
  for (int64_t i = first_index(); i < program.call.total; i += index_stride()) {
    for (int k = 0; k < program.inputs; ++k)
      registers[k] = read_element(program.call, k, read_index(program.call, k, i));
    for (int j = 0; j < program.instructions; ++j) {
      const Step<T>& step = program.code[j];
      registers[program.inputs + j] =
          evaluate(step.op, step.value, registers[step.a], registers[step.b], registers[step.c]);
    }
    const int last = program.inputs + program.instructions - 1;
    write_element(program.call, i, registers[program.instructions == 0 ? 0 : last]);
  }
}

// Returns the program with one rounding in place of another.
ScalarProgram with_rounding(ScalarProgram p, ScalarOp from, ScalarOp to) {
  for (Instruction& in : p.code)
    if (in.op == from) in.op = to;
  return p;
}

bool has(const ScalarProgram& p, ScalarOp op) {
  return std::ranges::any_of(p.code, [&](const Instruction& in) { return in.op == op; });
}

// Programs that round say bfloat16; PointwiseCall::rounds says to which type they do.
template <class T>
PrecompiledMatch compiled_program(const ScalarProgram& p) {
  const bool mixed = has(p, ScalarOp::float16) && has(p, ScalarOp::bfloat16);
  const PrecompiledMatch match =
      precompiled_program(mixed ? p : with_rounding(p, ScalarOp::float16, ScalarOp::bfloat16));
  const bool is_compiled = sizeof(T) == sizeof(float) && match.program >= 0 &&
                           kPrecompiledPrograms.is_for_gpus(match.program);
  return is_compiled ? match : PrecompiledMatch{};
}

// Returns the program without the roundings that storing the result in 16 bits makes superfluous.
ScalarProgram without_last_rounding(const ScalarProgram& p, DType result,
                                    std::span<const PointwiseRead> reads) {
  if (!is_half(result) || p.registers() > kMaxScalarRegisters) return p;
  if (has(p, result == DType::f16 ? ScalarOp::bfloat16 : ScalarOp::float16)) return p;
  bool numbers[kMaxScalarRegisters] = {};
  for (size_t k = 0; k < reads.size(); ++k) numbers[k] = reads[k].type == result;
  return with_needed_roundings(p, p.result(), result, numbers, true).value_or(p);
}

template <class T>
class PointwiseCudaKernel final : public Kernel {
 public:
  PointwiseCudaKernel(const ScalarProgram& p, DType result, int64_t total,
                      std::span<const PointwiseRead> reads)
      : match_(compiled_program<T>(p)) {
    program_.inputs = match_.program >= 0 ? match_.count : p.inputs;
    program_.instructions = static_cast<int>(p.code.size());
    program_.call.total = total;
    program_.call.result = result;
    program_.call.rounds = has(p, ScalarOp::float16) ? DType::f16 : DType::bf16;
    for (int k = 0; k < program_.inputs; ++k) {
      sources_[k] = match_.program >= 0 ? match_.inputs[k] : static_cast<uint8_t>(k);
      program_.call.reads[k] = reads[sources_[k]];
    }
    for (size_t j = 0; j < p.code.size(); ++j) {
      const Instruction& from = p.code[j];
      program_.code[j] = {from.op, from.a, from.b, from.c, static_cast<T>(from.value)};
    }
  }

  void run(Context& ctx, Buffers in, Buffers out, Buffer) override {
    if (program_.call.total == 0) return;
    for (int k = 0; k < program_.inputs; ++k) program_.call.in[k] = in[sources_[k]].data;
    program_.call.out = out[0].data;
    CudaContext& gpu = as_cuda(ctx);
    CudaDeviceGuard guard(gpu.index());
    if constexpr (sizeof(T) == sizeof(float))
      if (match_.program >= 0) return run_precompiled_program(gpu, match_.program, program_.call);
    const dim3 grid =
        grid_for(program_.call.total, kThreads, gpu.multiprocessors() * kBlocksPerMultiprocessor);
    launch("pointwise", run_program<T>, grid, kThreads, 0, gpu.cuda_stream(), program_);
  }

 private:
  const PrecompiledMatch match_;
  uint8_t sources_[kMaxScalarRegisters];  // the op's input for each input of the call
  Program<T> program_{};
};

}  // namespace

std::unique_ptr<Kernel> pointwise_cuda(const ScalarProgram& given, DType result, int64_t total,
                                       std::span<const PointwiseRead> reads) {
  const ScalarProgram program = without_last_rounding(given, result, reads);
  if (program.registers() > kMaxScalarRegisters)
    throw InternalError("a scalar program has more registers than kernels hold");
  if (reads[0].type == DType::f64)
    return std::make_unique<PointwiseCudaKernel<double>>(program, result, total, reads);
  return std::make_unique<PointwiseCudaKernel<float>>(program, result, total, reads);
}

std::unique_ptr<Kernel> pointwise_cuda(const ScalarProgram& program, SpecView in, DType result) {
  Shape out = in[0].shape;
  for (const TensorSpec& x : in) out = broadcast(out, x.shape, "pointwise");
  std::vector<PointwiseRead> reads;
  for (const TensorSpec& x : in) {
    Broadcast broadcast;
    if (!broadcast_of(x.shape, out, &broadcast))
      throw InternalError("a pointwise kernel does not support this broadcast of its inputs");
    reads.push_back({.repeat = broadcast.repeat, .period = broadcast.period, .type = x.dtype});
  }
  return pointwise_cuda(program, result, out.elements(), reads);
}

}  // namespace tessera
