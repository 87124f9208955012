// The GPU kernels of the engine, defined only in builds with CUDA.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>

#include "tessera/engine/lines.h"
#include "tessera/engine/op.h"
#include "tessera/engine/shape.h"
#include "tessera/runtime/device.h"

namespace tessera {

// Structural ops.

void fill_cuda(CudaContext& ctx, const Buffer& out, double value);
void cast_cuda(CudaContext& ctx, const Buffer& in, const Buffer& out);
// Copies every element of the output, in order, from the input at these strides.
void copy_strided_cuda(CudaContext& ctx, const Buffer& in, const Strides& strides,
                       const Buffer& out);

// Element-wise ops of any dtype. Integers wrap around; division rounds down, and division by 0
// gives 0.

enum class IntegerOp : uint8_t {
  add,
  subtract,
  multiply,
  floor_divide,
  remainder,
  maximum,
  minimum,
};

// Applies op to one pair of elements.
template <class T>
TESSERA_HOST_DEVICE T evaluate(IntegerOp op, T a, T b) {
  using U = std::make_unsigned_t<std::conditional_t<sizeof(T) < 4, int32_t, T>>;
  const U x = static_cast<U>(a), y = static_cast<U>(b);
  switch (op) {
    case IntegerOp::add:
      return static_cast<T>(x + y);
    case IntegerOp::subtract:
      return static_cast<T>(x - y);
    case IntegerOp::multiply:
      return static_cast<T>(x * y);
    case IntegerOp::maximum:
      return a < b ? b : a;
    case IntegerOp::minimum:
      return b < a ? b : a;
    case IntegerOp::floor_divide:
    case IntegerOp::remainder:
      break;
  }
  const bool quotient = op == IntegerOp::floor_divide;
  if (b == 0) return 0;
  if constexpr (std::is_signed_v<T>)
    if (b == -1)
      return quotient ? static_cast<T>(U{0} - x) : 0;  // the smallest number has no negative
  const T rest = static_cast<T>(a % b);
  const bool down = rest != 0 && (rest ^ b) < 0;  // the signs differ
  if (quotient) return static_cast<T>(a / b - (down ? 1 : 0));
  return static_cast<T>(down ? rest + b : rest);
}

// The comparison operators, applied to each pair of elements.
enum class ComparisonDirection : uint8_t { equal, not_equal, less, less_equal };

template <class T>
TESSERA_HOST_DEVICE bool evaluate(ComparisonDirection relation, T a, T b) {
  switch (relation) {
    case ComparisonDirection::equal:
      return a == b;
    case ComparisonDirection::not_equal:
      return a != b;
    case ComparisonDirection::less:
      return a < b;
    case ComparisonDirection::less_equal:
      return a <= b;
  }
  return false;
}

void integer_arithmetic_cuda(CudaContext& ctx, IntegerOp op, Buffers in, const Buffer& out);
void comparison_cuda(CudaContext& ctx, ComparisonDirection relation, Buffers in, const Buffer& out);
void where_cuda(CudaContext& ctx, Buffers in, const Buffer& out);

// Index ops, with index arithmetic shared by CPU and GPU.

// x as [outer, size, inner], the indices as [outer, count, inner].
struct IndexGeometry {
  int64_t outer, count, inner;
  IndexGeometry(const Shape& index, int axis)
      : outer(index.elements(0, axis)),
        count(index[axis]),
        inner(index.elements(axis + 1, index.rank())) {}
};

// Returns the position along an axis of `size`; negative indices count from the end. -1 if out of
// range.
TESSERA_HOST_DEVICE inline int64_t wrap_index(int64_t index, int64_t size) {
  if (index < 0) index += size;
  return index >= 0 && index < size ? index : -1;
}

// `size` is the size of the axis in x and dx, as in wrap_index().
void gather_cuda(CudaContext& ctx, const Buffer& x, const Buffer& index,
                 const IndexGeometry& geometry, int64_t size, const Buffer& y);
void scatter_add_cuda(CudaContext& ctx, const Buffer& dy, const Buffer& index,
                      const IndexGeometry& geometry, int64_t size, const Buffer& dx);
void one_hot_cuda(CudaContext& ctx, const Buffer& labels, int64_t classes, const Buffer& y);

// sum_run. Floating point is summed in double, in an order that depends only on the shape.

// x as [outer, run, inner].
struct SumRunShape {
  int64_t outer, run, inner;
};

// Work split: a block of threads sums `rows` rows, each thread `wide` columns. `across` threads
// cover adjacent columns; the others take further rows, and their sums are added at the end by
// halves.
struct SumRunTiling {
  static constexpr int kThreads = 256;
  SumRunShape shape;
  int64_t tiles, blocks, rows;
  int32_t across, wide;

  SumRunTiling(const SumRunShape& s, int64_t max_blocks) : shape(s) {
    wide = s.inner % 4 == 0 ? 4 : 1;
    const int64_t columns = s.inner / wide;
    across =
        static_cast<int32_t>(std::bit_ceil(static_cast<uint64_t>(std::min<int64_t>(32, columns))));
    tiles = up(columns, across);
    const int64_t enough = up(1024, s.outer * tiles);  // number of blocks that fills a GPU
    const int64_t wanted = up(s.run, kThreads / across * 8);
    blocks = std::max<int64_t>(1, std::min({wanted, enough, max_blocks}));
    rows = up(s.run, blocks);
  }

 private:
  static int64_t up(int64_t a, int64_t b) { return (a + b - 1) / b; }
};

// The launches of a sum. For long runs the first launch writes sums of blocks, [outer, .., inner],
// to scratch. A long run of single elements is first read as four columns, 16 bytes at a time.
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

void sum_run_cuda(CudaContext& ctx, const SumRunShape& shape, const Buffer& in, const Buffer& out,
                  Buffer scratch);

// Scalar programs.

// How an input is read for element i of the output: x[(i / repeat) % period + (i / sample) stride].
struct PointwiseRead {
  int64_t repeat = 1, period = 1, sample = 1, stride = 0;
  DType type = DType::f32;  // 16 bits are converted to float32 as they are read
  bool operator==(const PointwiseRead&) const = default;
};

// Returns a kernel that broadcasts its inputs as the pointwise op does (engine/pointwise.h).
std::unique_ptr<Kernel> pointwise_cuda(const ScalarProgram& program, SpecView in, DType result);
// Returns a kernel for an output of `total` elements of type `result`.
std::unique_ptr<Kernel> pointwise_cuda(const ScalarProgram& program, DType result, int64_t total,
                                       std::span<const PointwiseRead> reads);

// Check for non-finite numbers. Tensors are cut into parts by their sizes alone. A first launch
// writes a flag for each part to scratch; a later launch reads the flags.

// The parts of one tensor: each has `elements`, the last one fewer. There is at least one part, so
// that an empty tensor has a flag, and at most 1024, whose flags a block reads at once.
struct FiniteParts {
  int32_t elements, count;
  explicit FiniteParts(int64_t total) {
    constexpr int64_t kMinElements = 4096, kMaxParts = 1024, kStep = 1024;
    const int64_t wanted = (total + kMaxParts - 1) / kMaxParts;
    const int64_t part = std::max(kMinElements, (wanted + kStep - 1) / kStep * kStep);
    elements = static_cast<int32_t>(part);
    count = static_cast<int32_t>(std::max<int64_t>(1, (total + part - 1) / part));
  }
};

// Returns the bytes of the flags of all tensors.
inline size_t finite_scratch(SpecView tensors) {
  size_t count = 0;
  for (const TensorSpec& spec : tensors)
    count += static_cast<size_t>(FiniteParts(spec.shape.elements()).count);
  return count * sizeof(int32_t);
}

// Sets flags[k] = 1 if part k, counted through all tensors, has a NaN or an infinity, else 0.
// Tensors are floating point.
void flag_non_finite(CudaContext& ctx, Buffers tensors, int32_t* flags);

}  // namespace tessera
