// sum_run on a GPU; what is declared is defined only in builds with CUDA. Floating point is summed
// in double, in an order that follows from the shape.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "tessera/engine/op.h"

namespace tessera {

// x as [outer, run, inner].
struct SumRunShape {
  int64_t outer, run, inner;
};

// A block of threads sums `rows` rows, a thread `wide` columns of them: `across` threads stand side
// by side, the others take rows in turn and are added at last, by halves.
struct SumRunTiling {
  static constexpr int kThreads = 256;
  SumRunShape shape;
  int64_t tiles, blocks, rows;
  int32_t across, wide;

  SumRunTiling(const SumRunShape& s, int64_t most_blocks) : shape(s) {
    wide = s.inner % 4 == 0 ? 4 : 1;
    const int64_t columns = s.inner / wide;
    across =
        static_cast<int32_t>(std::bit_ceil(static_cast<uint64_t>(std::min<int64_t>(32, columns))));
    tiles = up(columns, across);
    const int64_t enough = up(1024, s.outer * tiles);  // blocks to fill a GPU
    const int64_t wanted = up(s.run, kThreads / across * 8);
    blocks = std::max<int64_t>(1, std::min({wanted, enough, most_blocks}));
    rows = up(s.run, blocks);
  }

 private:
  static int64_t up(int64_t a, int64_t b) { return (a + b - 1) / b; }
};

// How a sum is computed. Of long runs the first launch leaves sums of blocks, [outer, .., inner],
// in scratch. A long run of single elements is first read as four columns, 16 bytes at a time.
struct SumRunPlan {
  enum Kind { short_runs, one_launch, two_launches } kind;
  SumRunTiling first, second;

  explicit SumRunPlan(const SumRunShape& s)
      : first(in_columns(s) ? SumRunShape{s.outer, s.run / 4, 4} : s, 256),
        second({s.outer, first.blocks * first.shape.inner / s.inner, s.inner}, 1) {
    kind = s.run <= 32 ? short_runs : second.shape.run == 1 ? one_launch : two_launches;
  }
  size_t scratch_bytes() const {
    const SumRunShape& s = second.shape;
    return kind != two_launches ? 0
                                : static_cast<size_t>(s.outer * s.run * s.inner) * sizeof(double);
  }

 private:
  static bool in_columns(const SumRunShape& s) {
    return s.inner == 1 && s.run % 4 == 0 && s.run >= 4096;
  }
};

void sum_run_cuda(CudaContext& where, const SumRunShape& shape, const Buffer& in, const Buffer& out,
                  Buffer scratch);

}  // namespace tessera
