// A kernel for each precompiled program of GPUs, which keeps values in registers and reads and
// writes 16 bytes at a time.
#include <utility>

#include "tessera/engine/pointwise_code_cuda.h"
#include "tessera/engine/pointwise_precompiled.h"

namespace tessera {
namespace {

constexpr int kPrecompiledThreads = 128;  // allows 80 registers; 64 are too few for some
// Blocks per multiprocessor: five allow 96 registers, for programs with many inputs.
constexpr int blocks_of(int program) {
  return kPrecompiledPrograms.list[program].inputs < 12 ? 6 : 5;
}

enum class Access : uint8_t { whole, one, packs, single };  // packs: neighbours stay adjacent

constexpr int kVectorWidth = kPack<float>;
using Values = float[kVectorWidth];

struct PrecompiledCall {
  PointwiseCall<float> call;
  Access access[kMaxScalarRegisters];
  bool like_last[kMaxScalarRegisters];  // same index as the input before it
  bool aligned;                         // all packs are aligned
};

// Calls fn with a value of the type of elements in memory.
template <class F>
__device__ void with_stored(DType type, F&& fn) {
  if (type == DType::f32) return fn(0.0f);
  type == DType::bf16 ? fn(bfloat16{}) : fn(float16{});
}

// Loads kVectorWidth elements of input k from i on, `count` of which exist. `at` is the index at
// which the last broadcast input was read.
__device__ void load_input(const PrecompiledCall& known, int k, int64_t i, int count, int64_t& at,
                           Values& values) {
  constexpr int N = kVectorWidth;
  const Access access = known.access[k];
  const bool vectorized = count == N && known.aligned;
  if (access == Access::packs && !known.like_last[k]) at = read_index(known.call, k, i);
  if (vectorized && (access == Access::whole || access == Access::packs))
    return with_stored(known.call.reads[k].type, [&]<class S>(S) {
      const auto* x = static_cast<const S*>(known.call.in[k]);
      const auto pack = load_pack<N>(x + (access == Access::whole ? i : at));
      for (int j = 0; j < N; ++j) values[j] = to_float(pack[j]);
    });
  for (int j = 0; j < N; ++j) {
    if (j >= count) continue;
    values[j] = read_element(known.call, k,
                             access == Access::one     ? 0
                             : access == Access::whole ? i + j
                                                       : read_index(known.call, k, i + j));
  }
}

template <int kProgram>
__global__ void __launch_bounds__(kPrecompiledThreads, blocks_of(kProgram))
    run_precompiled(const __grid_constant__ PrecompiledCall known) {
  constexpr PrecompiledProgram program = kPrecompiledPrograms.list[kProgram];
  constexpr int N = kVectorWidth;
  const int64_t total = known.call.total;
  for (int64_t i = first_index() * N; i < total; i += index_stride() * N) {
    const int count = total - i < N ? static_cast<int>(total - i) : N;
    Values r[program.inputs + program.length] = {};
    int64_t at = 0;
    [&]<int... K>(std::integer_sequence<int, K...>) {
      (load_input(known, K, i, count, at, r[K]), ...);
    }
    (std::make_integer_sequence<int, program.inputs>());
    const auto step = [&]<int J>(std::integral_constant<int, J>) {
      constexpr Instruction s = kPrecompiledPrograms.list[kProgram].code[J];
      for (int j = 0; j < N; ++j)
        r[program.inputs + J][j] =
            evaluate(s.op, static_cast<float>(s.value), r[s.a][j], r[s.b][j], r[s.c][j]);
    };
    [&]<int... J>(std::integer_sequence<int, J...>) {
      (step(std::integral_constant<int, J>()), ...);
    }
    (std::make_integer_sequence<int, program.length>());
    const Values& result = r[program.inputs + program.length - 1];
    if (count == N && known.aligned)
      with_stored(known.call.result, [&]<class S>(S) {
        Pack<S, N> pack;
        for (int j = 0; j < N; ++j) pack[j] = to_stored<S>(result[j]);
        store_pack(static_cast<S*>(known.call.out) + i, pack);
      });
    else
      for (int j = 0; j < N; ++j)
        if (j < count) write_element(known.call, i + j, result[j]);
  }
}

Access access_of(const PointwiseCall<float>& call, int k) {
  constexpr int64_t N = kVectorWidth;
  const PointwiseRead& read = call.reads[k];
  if (read.stride == 0 && read.period == 1) return Access::one;
  if (read.repeat > 1) return Access::single;
  if (read.stride == 0 && read.period == call.total) return Access::whole;
  const bool samples = read.stride == 0 || (read.sample % N == 0 && read.stride % N == 0);
  return read.period % N == 0 && samples ? Access::packs : Access::single;
}

}  // namespace

void run_precompiled_program(CudaContext& ctx, int program, const PointwiseCall<float>& call) {
  const auto aligned = [](const void* data) {
    return takes_packs<kVectorWidth>(static_cast<const float*>(data));
  };
  PrecompiledCall known{call, {}, {}, aligned(call.out)};
  int last = -1;
  for (int k = 0; k < kPrecompiledPrograms.list[program].inputs; ++k) {
    known.access[k] = access_of(call, k);
    if (known.access[k] == Access::whole || known.access[k] == Access::packs)
      known.aligned = known.aligned && aligned(call.in[k]);
    if (known.access[k] != Access::packs) continue;
    known.like_last[k] = last >= 0 && call.reads[k] == call.reads[last];
    last = k;
  }
  const dim3 grid =
      grid_for(ceil_div<int64_t>(call.total, kVectorWidth), kPrecompiledThreads, kMaxBlocks);
  const auto run = [&]<int P>(std::integral_constant<int, P>) {
    if constexpr (kPrecompiledPrograms.is_for_gpus(P))
      if (P == program)
        launch("pointwise", run_precompiled<P>, grid, kPrecompiledThreads, 0, ctx.cuda_stream(),
               known);
  };
  [&]<int... P>(std::integer_sequence<int, P...>) { (run(std::integral_constant<int, P>()), ...); }
  (std::make_integer_sequence<int, kPrecompiledPrograms.count>());
}

}  // namespace tessera
