// A kernel for each known program: its registers are the machine's, and it reads and writes 16
// bytes at a time.
#include <utility>

#include "tessera/engine/pointwise_code_cuda.h"
#include "tessera/engine/pointwise_known.h"

namespace tessera {
namespace {

constexpr int kKnownThreads = 128;  // so that up to 80 registers are there: 64 are too few for some
// Blocks of a multiprocessor at once: with five 96 registers are there, for programs that read
// much.
constexpr int blocks_of(int program) { return kKnownPrograms.list[program].inputs < 12 ? 6 : 5; }

enum class Access : uint8_t { whole, one, packs, single };  // packs: neighbours stay neighbours

constexpr int kTogether = kPack<float>;

struct KnownCall {
  PointwiseCall<float> call;
  Access access[kMaxScalarRegisters];
  bool like_last[kMaxScalarRegisters];  // read where the input before it is
  bool aligned;                         // all that is read or written as packs
};

// Loads input k of kTogether elements from i on, `count` of which are there. `at` is where the last
// input that is broadcast was read.
__device__ void load_input(const KnownCall& known, int k, int64_t i, int count, int64_t& at,
                           float (&values)[kTogether]) {
  constexpr int N = kTogether;
  const float* x = known.call.in[k];
  const Access access = known.access[k];
  const bool together = count == N && known.aligned;
  if (access == Access::packs && !known.like_last[k]) at = read_index(known.call, k, i);
  if (together && (access == Access::whole || access == Access::packs)) {
    const Pack<float, N> pack = load_pack<N>(x + (access == Access::whole ? i : at));
    for (int j = 0; j < N; ++j) values[j] = pack[j];
    return;
  }
  for (int j = 0; j < N; ++j) {
    if (j >= count) continue;
    values[j] = access == Access::one     ? x[0]
                : access == Access::whole ? x[i + j]
                                          : x[read_index(known.call, k, i + j)];
  }
}

template <int kProgram>
__global__ void __launch_bounds__(kKnownThreads, blocks_of(kProgram))
    run_known(const __grid_constant__ KnownCall known) {
  constexpr KnownProgram program = kKnownPrograms.list[kProgram];
  constexpr int N = kTogether;
  const int64_t total = known.call.total;
  for (int64_t i = first_index() * N; i < total; i += index_stride() * N) {
    const int count = total - i < N ? static_cast<int>(total - i) : N;
    float r[program.inputs + program.length][N] = {};
    int64_t at = 0;
    [&]<int... K>(std::integer_sequence<int, K...>) {
      (load_input(known, K, i, count, at, r[K]), ...);
    }
    (std::make_integer_sequence<int, program.inputs>());
    const auto step = [&]<int J>(std::integral_constant<int, J>) {
      constexpr Instruction s = kKnownPrograms.list[kProgram].code[J];
      for (int j = 0; j < N; ++j)
        r[program.inputs + J][j] =
            evaluate(s.op, static_cast<float>(s.value), r[s.a][j], r[s.b][j], r[s.c][j]);
    };
    [&]<int... J>(std::integer_sequence<int, J...>) {
      (step(std::integral_constant<int, J>()), ...);
    }
    (std::make_integer_sequence<int, program.length>());
    const float* result = r[program.inputs + program.length - 1];
    if (count == N && known.aligned) {
      Pack<float, N> pack;
      for (int j = 0; j < N; ++j) pack[j] = result[j];
      store_pack(known.call.out + i, pack);
    } else {
      for (int j = 0; j < N; ++j)
        if (j < count) known.call.out[i + j] = result[j];
    }
  }
}

Access access_of(const PointwiseCall<float>& call, int k) {
  constexpr int64_t N = kTogether;
  const PointwiseRead& read = call.reads[k];
  if (read.stride == 0 && read.period == 1) return Access::one;
  if (read.repeat > 1) return Access::single;
  if (read.stride == 0 && read.period == call.total) return Access::whole;
  const bool samples = read.stride == 0 || (read.sample % N == 0 && read.stride % N == 0);
  return read.period % N == 0 && samples ? Access::packs : Access::single;
}

}  // namespace

void run_known_program(CudaContext& where, int program, const PointwiseCall<float>& call) {
  KnownCall known{call, {}, {}, takes_packs<kTogether>(call.out)};
  int last = -1;
  for (int k = 0; k < kKnownPrograms.list[program].inputs; ++k) {
    known.access[k] = access_of(call, k);
    if (known.access[k] == Access::whole || known.access[k] == Access::packs)
      known.aligned = known.aligned && takes_packs<kTogether>(call.in[k]);
    if (known.access[k] != Access::packs) continue;
    known.like_last[k] = last >= 0 && call.reads[k] == call.reads[last];
    last = k;
  }
  const dim3 grid = grid_for(ceil_div<int64_t>(call.total, kTogether), kKnownThreads, kMostBlocks);
  [&]<int... P>(std::integer_sequence<int, P...>) {
    ((P == program
          ? launch("pointwise", run_known<P>, grid, kKnownThreads, 0, where.cuda_stream(), known)
          : void()),
     ...);
  }
  (std::make_integer_sequence<int, kKnownPrograms.common>());
}

}  // namespace tessera
