// Reductions: sum, mean, variance, and whether all numbers are finite.
#include <algorithm>
#include <atomic>
#include <cmath>

#include <fmt/format.h>

#include "tessera/engine/finite.h"
#include "tessera/engine/kernels_cuda.h"
#include "tessera/engine/reduce_simd.h"
#include "tessera/engine/structural.h"
#include "tessera/runtime/cuda/cuda.h"
#include "tessera/runtime/error.h"

namespace tessera {
namespace {

struct SumRunParams {
  int first, last;
  bool operator==(const SumRunParams&) const = default;
};

// The run is cut into blocks.
struct Geometry : SumRunShape {
  int64_t block_rows, blocks;
  explicit Geometry(const SumRunShape& shape) : SumRunShape(shape) {
    int64_t least = std::max<int64_t>(1, 4096 / std::max<int64_t>(1, inner));
    block_rows = std::max(least, (run + 63) / 64);
    blocks = std::max<int64_t>(1, (run + block_rows - 1) / block_rows);
  }
};

template <class T>
void sum_rows(const T* x, int64_t rows, int64_t inner, Computed<T>* sum) {
  microkernels_for<T>(TESSERA_SELECT_MICROKERNELS(sum_rows_microkernels))(x, rows, inner, sum);
}

// Integers wrap around.
void sum_rows(const int64_t* x, int64_t rows, int64_t inner, int64_t* sum) {
  std::fill_n(sum, inner, 0);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < inner; ++i)
      sum[i] = static_cast<int64_t>(static_cast<uint64_t>(sum[i]) +
                                    static_cast<uint64_t>(x[r * inner + i]));
}

class SumRun final : public OpBase<SumRun, SumRunParams> {
 public:
  using OpBase::OpBase;
  std::string_view name() const override { return "sum_run"; }
  std::vector<OpAttribute> attributes() const override {
    return {{"range", {static_cast<double>(params.first), static_cast<double>(params.last)}}};
  }

  Specs infer(SpecView in) const override {
    const TensorSpec& x = in[0];
    if (!is_float(x.dtype) && x.dtype != DType::i64)
      throw ShapeError(
          fmt::format("sum: x must be floating point or int64, but is {}; use cast()", x.text()));
    Shape shape = x.shape;
    for (int axis = params.first; axis < params.last; ++axis) shape[axis] = 1;
    return {{compute_type(x.dtype), shape, {}}};
  }

  bool differentiable() const override { return true; }
  Tensors grad(const GradArgs& args) const override {
    return {expand(args.grad_outputs[0], args.input_specs[0].shape)};
  }
  bool takes_half(DeviceKind kind, SpecView in) const override {
    return kind == DeviceKind::cpu && in[0].dtype == DType::bf16;
  }
  // Sums 16 bits as float32: a conversion before is skipped.
  std::optional<FusedOp> fuse_producer(const Op& producer, int, SpecView,
                                       SpecView from) const override {
    static const ScalarProgram widening{1, {{ScalarOp::float32}}};
    if (!is_half(from[0].dtype) || producer.pointwise() != widening) return std::nullopt;
    return FusedOp{std::make_shared<SumRun>(params), {-1}};
  }

  std::vector<Algorithm> algorithms(SpecView in, const Target& target) const override {
    const SumRunShape shape = shape_of(in[0].shape);
    if (!target.device.is_cpu()) {
      if (shape.outer * shape.inner == 0) return {{}};
      return {{.scratch_bytes = SumRunPlan(shape).scratch_bytes()}};
    }
    const Geometry g(shape);
    const int64_t partial = g.blocks == 1 ? 0 : g.outer * g.blocks * g.inner;
    return {{.scratch_bytes = static_cast<size_t>(partial) * size_of(compute_type(in[0].dtype))}};
  }

  void run(CpuContext& ctx, Buffers in, Buffers out, Buffer scratch) const override {
    const Geometry g(shape_of(in[0].spec.shape));
    const auto sum = [&]<class T>(T) {
      using S = Computed<T>;
      const T* x = in[0].as<T>();
      S* y = out[0].as<S>();
      S* partial = g.blocks == 1 ? y : scratch.as<S>();
      ctx.pool().parallel_for(g.outer * g.blocks, g.outer * g.run * g.inner, [&](int64_t task) {
        int64_t o = task / g.blocks, first = task % g.blocks * g.block_rows;
        int64_t rows = std::min(g.block_rows, g.run - first);
        sum_rows(x + (o * g.run + first) * g.inner, rows, g.inner, partial + task * g.inner);
      });
      if (g.blocks == 1) return;
      ctx.pool().parallel_for(g.outer, g.outer * g.blocks * g.inner, [&](int64_t o) {
        sum_rows(partial + o * g.blocks * g.inner, g.blocks, g.inner, y + o * g.inner);
      });
    };
    visit_float(in[0].spec.dtype, sum);
    if (in[0].spec.dtype == DType::bf16) sum(bfloat16{});
    if (in[0].spec.dtype == DType::i64) sum(int64_t{});
  }

  void run(CudaContext& ctx, Buffers in, Buffers out, Buffer scratch) const override {
    if constexpr (kCuda) sum_run_cuda(ctx, shape_of(in[0].spec.shape), in[0], out[0], scratch);
  }

  Cost cost(SpecView in) const override {
    return cost_with(in, is_float(in[0].dtype) ? in[0].shape.elements() : 0);
  }

 private:
  SumRunShape shape_of(const Shape& x) const {
    return {x.elements(0, params.first), x.elements(params.first, params.last),
            x.elements(params.last, x.rank())};
  }
};

// y[o, 1.., i] = sum over r of x[o, r, i], where r runs through the axes [first, last) of x, which
// become size 1. The blocks of the sum depend on the shape alone, so on one computer the bits do
// not depend on the number of threads.
Tensor sum_run(const Tensor& x, int first, int last) {
  if (first < 0 || last < first || last > x.shape().rank())
    throw ShapeError(
        fmt::format("sum_run: axes [{}, {}) are not axes of {}", first, last, x.shape().text()));
  return apply1(std::make_shared<SumRun>(SumRunParams{first, last}), {x});
}

// Returns the summands; integers as int64.
Tensor summands(const Tensor& x) { return is_float(x.dtype()) ? x : cast(x, DType::i64); }

void check_mean(const char* op_name, const Tensor& x) {
  if (!is_float(x.dtype()))
    throw ShapeError(fmt::format("{}: x must be floating point, but is {}; use cast()", op_name,
                                 x.spec().text()));
}

template <class T>
bool are_finite(const T* x, int64_t count) {
  return microkernels_for<T>(TESSERA_SELECT_MICROKERNELS(finite_microkernels))(x, count);
}

}  // namespace

Tensor sum_to(const Tensor& x, const Shape& shape) {
  if (shape == x.shape()) return x;
  if (shape.rank() > x.shape().rank() || broadcast(shape, x.shape(), "sum_to") != x.shape())
    throw ShapeError(
        fmt::format("sum_to: {} cannot be summed to {}", x.shape().text(), shape.text()));
  // Sums one run of axes at a time, from the last; sum_run() returns 16 bits as float32.
  Tensor y = x;
  int rank = x.shape().rank();
  auto summed = [&](int axis) {
    int from_end = rank - axis;
    int64_t size = from_end <= shape.rank() ? shape[-from_end] : 1;
    return size == 1 && y.shape()[axis] != 1;
  };
  for (int last = rank; last > 0; --last) {
    if (!summed(last - 1)) continue;
    int first = last - 1;
    while (first > 0 && (summed(first - 1) || y.shape()[first - 1] == 1)) --first;
    y = sum_run(y, first, last);
  }
  return cast(reshape(y, shape), x.dtype());
}

Tensor sum(const Tensor& x) {
  const Tensor terms = summands(x), y = sum_run(terms, 0, x.shape().rank());
  return cast(reshape(y, Shape{}), terms.dtype());
}

Tensor mean(const Tensor& x) {
  check_mean("mean", x);
  return in_float32(
      x, [](const Tensor& wide) { return sum(wide) / static_cast<double>(wide.elements()); });
}

Tensor sum(const Tensor& x, const std::vector<int>& axes, bool keep) {
  const int rank = x.shape().rank();
  Shape kept = x.shape();
  std::vector<bool> summed(static_cast<size_t>(rank));
  for (int axis : axes) {
    const int positive = axis < 0 ? axis + rank : axis;
    if (positive < 0 || positive >= rank || summed[positive])
      throw ShapeError(
          fmt::format("sum: axis {} {} (x {})", axis,
                      positive < 0 || positive >= rank ? "is out of range" : "is named twice",
                      x.spec().text()));
    summed[positive] = true;
    kept[positive] = 1;
  }
  std::vector<int64_t> left;
  for (int i = 0; i < rank; ++i)
    if (!summed[i]) left.push_back(x.shape()[i]);
  const Tensor y = sum_to(summands(x), kept);
  return keep ? y : reshape(y, Shape(left));
}

Tensor mean(const Tensor& x, const std::vector<int>& axes, bool keep) {
  check_mean("mean", x);
  return in_float32(x, [&](const Tensor& wide) {
    const Tensor y = sum(wide, axes, keep);
    return y * (static_cast<double>(y.elements()) / static_cast<double>(x.elements()));
  });
}

Tensor var(const Tensor& x) { return var(reshape(x, {x.elements()}), {0}); }

Tensor var(const Tensor& x, const std::vector<int>& axes, bool keep, double correction) {
  check_mean("var", x);
  return in_float32(x, [&](const Tensor& wide) {
    const Tensor difference = wide - mean(wide, axes, true);
    const Tensor y = sum(difference * difference, axes, keep);
    const double n = static_cast<double>(x.elements()) / static_cast<double>(y.elements());
    return y / (n > correction ? n - correction : NAN);
  });
}

template <class T>
int64_t first_non_finite(std::span<const T> x) {
  if constexpr (sizeof(T) > 2)
    if (are_finite(x.data(), std::ssize(x))) return -1;
  const auto found = std::ranges::find_if_not(
      x, [](T value) { return std::isfinite(static_cast<double>(value)); });
  return found == x.end() ? -1 : found - x.begin();
}

template int64_t first_non_finite(std::span<const float>);
template int64_t first_non_finite(std::span<const double>);
template int64_t first_non_finite(std::span<const bfloat16>);
template int64_t first_non_finite(std::span<const float16>);

bool all_finite(CpuContext& ctx, std::span<const Buffer> buffers) {
  constexpr int64_t kBlock = 65536;
  std::atomic<bool> finite{true};
  for (const Buffer& buffer : buffers) {
    visit_float(buffer.spec.dtype, [&](auto zero) {
      const auto* x = buffer.as<decltype(zero)>();
      for_chunks<kBlock>(ctx.pool(), buffer.elements(), [&](int64_t first, int64_t count) {
        if (!are_finite(x + first, count)) finite.store(false, std::memory_order_relaxed);
      });
    });
  }
  return finite;
}

bool may_update(CpuContext& ctx, std::initializer_list<Buffer> from) {
  const bool finite = all_finite(ctx, {from.begin(), from.size()});
  if (!finite) ctx.count_skipped_update();
  return finite;
}

}  // namespace tessera
