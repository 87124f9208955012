#include "tessera/engine/sum_run.h"

#include <algorithm>

#include <fmt/format.h>

#include "tessera/engine/structural.h"
#include "tessera/engine/sum_run_cuda.h"
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
T wrapping_sum(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  else
    return a + b;
}

// Sums rows of x into acc, both `inner` wide. A single column is summed in eight lanes; a few are
// summed as wide rows of several, so that vectors are full.
template <class T>
void sum_rows(const T* x, int64_t rows, int64_t inner, T* acc) {
  if (std::is_integral_v<T>) {
    std::fill_n(acc, inner, T(0));
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t i = 0; i < inner; ++i) acc[i] = wrapping_sum(acc[i], x[r * inner + i]);
    return;
  }
  if (inner == 1) {
    double lanes[8] = {};
    for (int64_t r = 0; r < rows; ++r) lanes[r % 8] += static_cast<double>(x[r]);
    double sum = 0;
    for (double lane : lanes) sum += lane;
    acc[0] = static_cast<T>(sum);
    return;
  }
  std::fill_n(acc, inner, T(0));
  int64_t r = 0;
  if (constexpr int64_t kWide = 64; inner <= kWide / 2) {
    const int64_t together = kWide / inner, width = together * inner;
    T wide[kWide] = {};
    for (; r + together <= rows; r += together)
      for (int64_t i = 0; i < width; ++i) wide[i] += x[r * inner + i];
    for (int64_t i = 0; i < width; ++i) acc[i % inner] += wide[i];
  }
  for (; r < rows; ++r)
    for (int64_t i = 0; i < inner; ++i) acc[i] += x[r * inner + i];
}

class SumRun final : public OpBase<SumRun> {
 public:
  explicit SumRun(SumRunParams p) : params(p) {}
  std::string_view name() const override { return "sum_run"; }

  Specs infer(std::span<const TensorSpec> in) const override {
    const TensorSpec& x = in[0];
    if (!is_float(x.dtype) && x.dtype != DType::i64)
      throw ShapeError(
          fmt::format("sum: x must be floating point or int64, given {}; use cast()", x.text()));
    Shape shape = x.shape;
    for (int axis = params.first; axis < params.last; ++axis) shape[axis] = 1;
    return {{x.dtype, shape, {}}};
  }

  bool differentiable() const override { return true; }
  Tensors grad(const GradArgs& args) const override {
    return {expand(args.grad_outputs[0], args.input_specs[0].shape)};
  }

  bool runs_on(DeviceKind kind) const override { return kind == DeviceKind::cpu || kCuda; }

  std::vector<Algorithm> algorithms(std::span<const TensorSpec> in,
                                    const Target& target) const override {
    if (!target.device.is_cpu()) {
      const SumRunShape shape = gpu_shape(in[0].shape);
      if (shape.outer * shape.inner == 0) return {{}};
      return {{.scratch_bytes = SumRunPlan(shape).scratch_bytes()}};
    }
    Geometry g(in[0].shape, params);
    const int64_t partial = g.blocks == 1 ? 0 : g.outer * g.blocks * g.inner;
    return {{.scratch_bytes = static_cast<size_t>(partial) * size_of(in[0].dtype)}};
  }

  void run(CpuContext& where, Buffers in, Buffers out, Buffer scratch) const override {
    Geometry g(in[0].spec.shape, params);
    const auto sum = [&](auto zero) {
      using T = decltype(zero);
      const T* x = in[0].as<T>();
      T* y = out[0].as<T>();
      T* partial = g.blocks == 1 ? y : scratch.as<T>();
      where.pool().parallel_for(g.outer * g.blocks, g.outer * g.run * g.inner, [&](int64_t task) {
        int64_t o = task / g.blocks, first = task % g.blocks * g.block_rows;
        int64_t rows = std::min(g.block_rows, g.run - first);
        sum_rows(x + (o * g.run + first) * g.inner, rows, g.inner, partial + task * g.inner);
      });
      if (g.blocks == 1) return;
      where.pool().parallel_for(g.outer, g.outer * g.blocks * g.inner, [&](int64_t o) {
        sum_rows(partial + o * g.blocks * g.inner, g.blocks, g.inner, y + o * g.inner);
      });
    };
    visit_float(in[0].spec.dtype, sum);
    if (in[0].spec.dtype == DType::i64) sum(int64_t{});
  }

  void run(CudaContext& where, Buffers in, Buffers out, Buffer scratch) const override {
    if constexpr (kCuda) sum_run_cuda(where, gpu_shape(in[0].spec.shape), in[0], out[0], scratch);
  }

  Cost cost(std::span<const TensorSpec> in) const override {
    return cost_with(in, is_float(in[0].dtype) ? in[0].shape.elements() : 0);
  }

  const SumRunParams params;

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
