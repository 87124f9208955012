#include "tessera/engine/sum_run.h"

#include <algorithm>

#include <fmt/format.h>

#include "tessera/engine/kernels_cuda.h"
#include "tessera/engine/op_attributes.h"
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

// x as [outer, run, inner]; the run is cut into blocks.
struct Geometry {
  int64_t outer, run, inner, block_rows, blocks;
  Geometry(const Shape& x, const SumRunParams& p)
      : outer(x.elements(0, p.first)),
        run(x.elements(p.first, p.last)),
        inner(x.elements(p.last, x.rank())) {
    int64_t least = std::max<int64_t>(1, 4096 / std::max<int64_t>(1, inner));
    block_rows = std::max(least, (run + 63) / 64);
    blocks = std::max<int64_t>(1, (run + block_rows - 1) / block_rows);
  }
};

template <class T>
void sum_rows(const T* x, int64_t rows, int64_t inner, T* sum) {
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

class SumRun final : public OpBase<SumRun, SumRunParams>, public HasAttributes {
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

  std::vector<Algorithm> algorithms(SpecView in, const Target& target) const override {
    if (!target.device.is_cpu()) {
      const SumRunShape shape = gpu_shape(in[0].shape);
      if (shape.outer * shape.inner == 0) return {{}};
      return {{.scratch_bytes = SumRunPlan(shape).scratch_bytes()}};
    }
    Geometry g(in[0].shape, params);
    const int64_t partial = g.blocks == 1 ? 0 : g.outer * g.blocks * g.inner;
    return {{.scratch_bytes = static_cast<size_t>(partial) * size_of(in[0].dtype)}};
  }

  void run(CpuContext& ctx, Buffers in, Buffers out, Buffer scratch) const override {
    Geometry g(in[0].spec.shape, params);
    const auto sum = [&](auto zero) {
      using T = decltype(zero);
      const T* x = in[0].as<T>();
      T* y = out[0].as<T>();
      T* partial = g.blocks == 1 ? y : scratch.as<T>();
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
    if (in[0].spec.dtype == DType::i64) sum(int64_t{});
  }

  void run(CudaContext& ctx, Buffers in, Buffers out, Buffer scratch) const override {
    if constexpr (kCuda) sum_run_cuda(ctx, gpu_shape(in[0].spec.shape), in[0], out[0], scratch);
  }

  Cost cost(SpecView in) const override {
    return cost_with(in, is_float(in[0].dtype) ? in[0].shape.elements() : 0);
  }

 private:
  SumRunShape gpu_shape(const Shape& x) const {
    return {x.elements(0, params.first), x.elements(params.first, params.last),
            x.elements(params.last, x.rank())};
  }
};

}  // namespace

Tensor sum_run(const Tensor& x, int first, int last) {
  if (first < 0 || last < first || last > x.shape().rank())
    throw ShapeError(
        fmt::format("sum_run: axes [{}, {}) are not axes of {}", first, last, x.shape().text()));
  return apply1(std::make_shared<SumRun>(SumRunParams{first, last}), {x});
}

}  // namespace tessera
