// A kernel for each precompiled program of GPUs, which keeps values in registers and reads and
// writes 16 bytes at a time.
#include <algorithm>
#include <bit>
#include <numeric>
#include <type_traits>
#include <utility>

#include "tessera/engine/pointwise_code_cuda.h"
#include "tessera/engine/pointwise_precompiled.h"

namespace tessera {
namespace {

constexpr int kPrecompiledThreads = 128;  // allows 80 registers; 64 are too few for some
// Blocks per multiprocessor: five allow 96 registers, for programs with many inputs.
constexpr int blocks_of(int program) {
  return kPrecompiledPrograms.list[program].inputs < 11 ? 6 : 5;
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

// Returns input k for element i of the output. A call, as it is compiled at many places.
__device__ __noinline__ float load_element(const PrecompiledCall& known, int k, int64_t i) {
  return read_element(known.call, k,
                      known.access[k] == Access::whole ? i : read_index(known.call, k, i));
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
  const float one = access == Access::one ? read_element(known.call, k, 0) : 0;
  for (int j = 0; j < N; ++j) {
    if (j >= count) continue;
    values[j] = access == Access::one ? one : load_element(known, k, i + j);
  }
}

// Executes the program on the registers that follow the inputs; bf16: rounds to bfloat16, else to
// float16.
template <int kProgram, int... J>
__device__ void compute(Values* r, bool bf16, std::integer_sequence<int, J...>) {
  constexpr int kInputs = kPrecompiledPrograms.list[kProgram].inputs;
  const auto step = [&]<int kStep>(std::integral_constant<int, kStep>) {
    constexpr Instruction s = kPrecompiledPrograms.list[kProgram].code[kStep];
    for (int j = 0; j < kVectorWidth; ++j)
      if constexpr (s.op == ScalarOp::bfloat16)
        r[kInputs + kStep][j] = bf16 ? to_float(to_stored<bfloat16>(r[s.a][j]))
                                     : to_float(to_stored<float16>(r[s.a][j]));
      else
        r[kInputs + kStep][j] =
            evaluate(s.op, static_cast<float>(s.value), r[s.a][j], r[s.b][j], r[s.c][j]);
  };
  (step(std::integral_constant<int, J>()), ...);
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
    compute<kProgram>(r, known.call.rounds == DType::bf16,
                      std::make_integer_sequence<int, program.length>());
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

// Return one of two numbers of 16 bits, and two together.
__device__ inline float half_of(uint32_t two, int which, bool bf16) {
  if (bf16) return half::float_of(which == 0 ? two << 16 : two & 0xffff0000);
  return to_float(__builtin_bit_cast(float16, static_cast<uint16_t>(two >> 16 * which)));
}
__device__ inline uint32_t halves_of(float low, float high, bool bf16) {
  const auto bits = [&](float x) {
    return uint32_t{bf16 ? to_stored<bfloat16>(x).bits : to_stored<float16>(x).bits};
  };
  return bits(high) << 16 | bits(low);
}

// A regular call: inputs with one value per channel, float32, are so for the same channels, and all
// others have the shape and the type of the output, whose elements are whole packs. The grid's
// stride is a multiple of the channels, so that a thread meets the same ones again: it loads their
// values once. It loads several packs before it computes, which keeps enough bytes in flight.
//
// kHalf: numbers of 16 bits, of call.result's type.
template <int kProgram, bool kHalf>
__global__ void __launch_bounds__(kPrecompiledThreads, blocks_of(kProgram))
    run_regular(const __grid_constant__ PointwiseCall<float> call, int64_t channels) {
  constexpr PrecompiledProgram program = kPrecompiledPrograms.list[kProgram];
  constexpr int N = kVectorWidth, kWhole = program.inputs - std::popcount(program.channels);
  constexpr int kAtOnce = kHalf && kWhole <= 2 ? 4 : 2;
  using Stored = std::conditional_t<kHalf, Pack<uint32_t, N / 2>, Pack<float, N>>;
  const bool bf16 = call.result == DType::bf16, rounds_bf16 = call.rounds == DType::bf16;
  const int64_t packs = call.total / N, stride = index_stride();
  Values r[program.inputs + program.length];
  const int64_t element = first_index() * N, at = element - quotient(element, channels) * channels;
  TESSERA_UNROLL
  for (int k = 0; k < program.inputs; ++k)
    if ((program.channels >> k & 1) != 0) {
      const Pack<float, N> values = load_pack<N>(static_cast<const float*>(call.in[k]) + at);
      for (int j = 0; j < N; ++j) r[k][j] = values[j];
    }
  for (int64_t first = first_index(); first < packs; first += kAtOnce * stride) {
    Stored loaded[kAtOnce][program.inputs];
    TESSERA_UNROLL
    for (int u = 0; u < kAtOnce; ++u) {
      TESSERA_UNROLL
      for (int k = 0; k < program.inputs; ++k)
        if ((program.channels >> k & 1) == 0 && first + u * stride < packs)
          loaded[u][k] = static_cast<const Stored*>(call.in[k])[first + u * stride];
    }
    TESSERA_UNROLL
    for (int u = 0; u < kAtOnce; ++u) {
      if (first + u * stride >= packs) continue;
      TESSERA_UNROLL
      for (int k = 0; k < program.inputs; ++k) {
        if ((program.channels >> k & 1) != 0) continue;
        for (int j = 0; j < N; ++j)
          if constexpr (!kHalf)
            r[k][j] = loaded[u][k][j];
          else
            r[k][j] = half_of(loaded[u][k][j / 2], j % 2, bf16);
      }
      compute<kProgram>(r, rounds_bf16, std::make_integer_sequence<int, program.length>());
      const Values& result = r[program.inputs + program.length - 1];
      Stored written;
      if constexpr (!kHalf)
        for (int j = 0; j < N; ++j) written[j] = result[j];
      else
        for (int j = 0; j < N; j += 2) written[j / 2] = halves_of(result[j], result[j + 1], bf16);
      static_cast<Stored*>(call.out)[first + u * stride] = written;
    }
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

// Programs of a few instructions wait for memory. For others the loads do not matter.
constexpr bool has_regular_code(int program, bool half) {
  const PrecompiledProgram& of = kPrecompiledPrograms.list[program];
  for (int j = 0; j < of.length; ++j) {
    const ScalarOp op = of.code[j].op;
    if (op == ScalarOp::exp || op == ScalarOp::erf || op == ScalarOp::sigmoid) return false;
  }
  return half || program < kPrecompiledPrograms.common;
}

// Returns the channels of a regular call, 1 if it has none; 0 if it is not regular.
int64_t channels_if_regular(int program, const PrecompiledCall& known) {
  const PrecompiledProgram& of = kPrecompiledPrograms.list[program];
  if (!known.aligned || known.call.total % kVectorWidth != 0) return 0;
  if (!has_regular_code(program, is_half(known.call.result))) return 0;
  int64_t channels = 1;
  for (int k = 0; k < of.inputs; ++k) {
    const PointwiseRead& read = known.call.reads[k];
    if ((of.channels >> k & 1) == 0) {
      if (known.access[k] != Access::whole || read.type != known.call.result) return 0;
      continue;
    }
    const bool fits = known.access[k] == Access::packs && read.stride == 0 &&
                      read.type == DType::f32 && (channels == 1 || channels == read.period);
    if (!fits) return 0;
    channels = read.period;
  }
  return channels;
}

// Returns the blocks of a regular call, whose threads have packs in steps of whole channels.
int64_t regular_blocks(const CudaContext& ctx, int64_t total, int64_t channels) {
  constexpr int64_t kThreadPacks = 8, kBlocksPerMultiprocessor = 32;
  const int64_t packs = std::max<int64_t>(channels / kVectorWidth, 1);
  const int64_t step = packs / std::gcd(packs, int64_t{kPrecompiledThreads});
  const int64_t wanted =
      std::min(ceil_div<int64_t>(total / kVectorWidth, kPrecompiledThreads * kThreadPacks),
               int64_t{ctx.multiprocessors()} * kBlocksPerMultiprocessor);
  return ceil_div(std::max<int64_t>(wanted, 1), step) * step;
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
  const int64_t channels = channels_if_regular(program, known);
  const int64_t blocks = channels > 0 ? regular_blocks(ctx, call.total, channels) : 0;
  const bool regular = blocks > 0 && blocks <= kMaxBlocks;
  const dim3 grid = regular ? dim3(static_cast<unsigned>(blocks))
                            : grid_for(ceil_div<int64_t>(call.total, kVectorWidth),
                                       kPrecompiledThreads, kMaxBlocks);
  const auto run = [&]<int P>(std::integral_constant<int, P>) {
    const auto start = [&](auto kernel, const auto&... arguments) {
      launch("pointwise", kernel, grid, kPrecompiledThreads, 0, ctx.cuda_stream(), arguments...);
    };
    if constexpr (kPrecompiledPrograms.is_for_gpus(P)) {
      if (P != program) return;
      if (!regular) return start(run_precompiled<P>, known);
      if constexpr (has_regular_code(P, true))
        if (is_half(call.result)) start(run_regular<P, true>, call, channels);
      if constexpr (has_regular_code(P, false))
        if (!is_half(call.result)) start(run_regular<P, false>, call, channels);
    }
  };
  [&]<int... P>(std::integer_sequence<int, P...>) { (run(std::integral_constant<int, P>()), ...); }
  (std::make_integer_sequence<int, kPrecompiledPrograms.count>());
}

}  // namespace tessera
