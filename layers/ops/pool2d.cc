// The maximum pooling ops, the adaptive ones, and the checks of all poolings.
#include <fmt/format.h>

#include "tessera/engine/prepare.h"
#include "tessera/engine/structural.h"
#include "tessera/engine/tape.h"
#include "tessera/layers/ops/concat.h"
#include "tessera/layers/ops/pool2d_cpu.h"
#include "tessera/layers/ops/reduce_max.h"
#include "tessera/layers/ops/slice.h"
#include "tessera/layers/shared/kernels_cuda.h"
#include "tessera/runtime/cuda/cuda.h"
#include "tessera/runtime/integers.h"

namespace tessera {

std::vector<OpAttribute> attributes_of(const Pool2dParams& p) {
  const auto pair = [](Size2 s) {
    return std::vector<double>{static_cast<double>(s.h), static_cast<double>(s.w)};
  };
  return {{"kernel", pair(p.kernel)},
          {"stride", pair(p.stride.value_or(p.kernel))},
          {"padding", pair(p.padding)},
          {"count_include_pad", {p.count_include_pad ? 1.0 : 0.0}},
          {"ceil_mode", {p.ceil_mode ? 1.0 : 0.0}}};
}

PoolShape pool_shape(const Pool2dParams& p, const Shape& x) {
  const Size2 stride = p.stride.value_or(p.kernel);
  return {.n = x[0],
          .h = x[1],
          .w = x[2],
          .c = x[3],
          .kernel_h = p.kernel.h,
          .kernel_w = p.kernel.w,
          .stride_h = stride.h,
          .stride_w = stride.w,
          .pad_h = p.padding.h,
          .pad_w = p.padding.w,
          .count_include_pad = p.count_include_pad,
          .ceil_mode = p.ceil_mode};
}

Shape pooled(const InputCheck& check, const Pool2dParams& p, const Shape& x) {
  const Size2 stride = p.stride.value_or(p.kernel);
  if (p.kernel.h < 1 || p.kernel.w < 1)
    check.fail(fmt::format("kernel must be at least 1, but is {}", p.kernel.text()));
  if (stride.h < 1 || stride.w < 1)
    check.fail(fmt::format("stride must be at least 1, but is {}", stride.text()));
  if (p.padding.h < 0 || p.padding.w < 0 || p.padding.h >= p.kernel.h || p.padding.w >= p.kernel.w)
    check.fail(fmt::format("padding must be 0 or more and smaller than the kernel {}, but is {}",
                           p.kernel.text(), p.padding.text()));
  if (x[1] < 1 || x[2] < 1) check.fail("x has no pixels, so its windows would lie in the padding");
  const Size2 padded{x[1] + 2 * p.padding.h, x[2] + 2 * p.padding.w};
  if (p.kernel.h > padded.h || p.kernel.w > padded.w)
    check.fail(
        fmt::format("the kernel has {} pixels, but x has {} with its padding; use a smaller kernel",
                    p.kernel.text(), padded.text()));
  const PoolShape s = pool_shape(p, x);
  return {s.n, s.out_h(), s.out_w(), s.c};
}

namespace {

constexpr int64_t kTaskElements = 4096;  // enough for an epilogue's loops, few enough for L1

[[gnu::always_inline]] inline PoolRow pool_row(const PoolShape& s, PoolRange rows,
                                               int64_t first_row, int64_t behind) {
  return {std::max<int64_t>(0, rows.end - rows.begin),
          first_row,
          s.w,
          s.c,
          s.out_w(),
          s.kernel_w,
          s.stride_w,
          s.pad_w,
          behind};
}

// The rows of x that a task of a gradient computes: of whole images, or of a part of one.
struct GradTasks {
  explicit GradTasks(const PoolShape& s) {
    const int64_t wanted = std::max<int64_t>(1, kTaskElements / std::max<int64_t>(1, s.w * s.c));
    images = std::clamp<int64_t>(wanted / std::max<int64_t>(1, s.h), 1, std::max<int64_t>(1, s.n));
    rows = std::min(wanted, s.h);
    parts = images > 1 ? 1 : ceil_div(s.h, std::max<int64_t>(1, rows));
    count = ceil_div(s.n, images) * parts;
  }
  // Returns the most rows of windows that contain the rows of a task.
  int64_t windows(const PoolShape& s) const {
    const int64_t under = (rows - 1) / s.stride_h + ceil_div(s.kernel_h, s.stride_h) + 1;
    return images > 1 ? images * s.out_h() : std::min(s.out_h(), under);
  }
  int64_t images, rows, parts, count;
};

class MaxPoolGradKernel final : public Kernel {
 public:
  MaxPoolGradKernel(const PoolShape& shape, PointwisePlan epilogue)
      : shape_(shape), epilogue_(std::move(epilogue)) {}

  void run(Context& ctx, Buffers in, Buffers out, Buffer scratch) override {
    const EpilogueRun epilogue(epilogue_, in.subspan(2), out[0]);
    visit_any_float(out[0].spec.dtype, [&]<class S>(S) {
      compute<S>(static_cast<CpuContext&>(ctx).pool(), in[0].as<S>(), in[1].as<uint8_t>(),
                 out[0].as<S>(), epilogue, scratch.as<Computed<S>>());
    });
  }

 private:
  // Gathers each row of dx from the windows that contain it, so no two threads write one element.
  // 16 bits need an epilogue, which writes dx.
  template <class S>
  void compute(ThreadPool& pool, const S* dy, const uint8_t* positions, S* dx,
               const EpilogueRun& epilogue, Computed<S>* scratch) const {
    using T = Computed<S>;
    const PoolShape& s = shape_;
    const GradTasks tasks(s);
    const int64_t out_h = s.out_h(), length = s.w * s.c, out_length = s.out_w() * s.c;
    const int64_t dy_elements = tasks.windows(s) * out_length;
    const int64_t own = dy_elements + tasks.images * tasks.rows * length;
    pool.parallel_for_thread(tasks.count, s.n * s.h * length, [&](int64_t task, int thread) {
      const int64_t image = task / tasks.parts * tasks.images,
                    row = task % tasks.parts * tasks.rows;
      const int64_t images = std::min(tasks.images, s.n - image);
      const int64_t rows = std::min(tasks.rows, s.h - row);
      const int64_t top = image * out_h + s.rows_over(row).begin;
      const int64_t bottom = (image + images - 1) * out_h + s.rows_over(row + rows - 1).end;
      T* const strip = kHalf<S> ? scratch + thread * own : nullptr;
      const int64_t windows = std::max<int64_t>(0, bottom - top);
      const T* const gradients = read_strip(dy + top * out_length, windows * out_length, strip);
      const int64_t first = (image * s.h + row) * length, count = images * rows * length;
      T* const to = own_or_strip(dx + first, strip + dy_elements);
      for (int64_t k = 0; k < images * rows; ++k) {
        const int64_t b = image + k / rows, i = row + k % rows;
        const PoolRange u = s.rows_over(i);
        const int64_t at = b * out_h + u.begin, end = kHalf<S> ? bottom : s.n * out_h;
        const PoolRow windows_of = pool_row(s, u, i + s.pad_h - u.begin * s.stride_h,
                                            (end - b * out_h - u.end) * out_length);
        pool_microkernels_of<T>().max_row_grad(gradients + (at - top) * out_length,
                                               positions + at * out_length, windows_of, s.stride_h,
                                               to + k * length);
      }
      epilogue.apply(first, count, to);
    });
  }

  const PoolShape shape_;
  const PointwisePlan epilogue_;
};

class MaxPool2dGrad final : public PoolOp<MaxPool2dGrad>, public HasEpilogue {
 public:
  using PoolOp::PoolOp;
  PoolShape shape_of(const Shape& dy) const override {
    return pool_shape(params.pool, image_of(dy, params.image));
  }
  int64_t strip_elements(const PoolShape& s, bool half) const override {
    const GradTasks tasks(s);
    return half ? tasks.windows(s) * s.out_w() * s.c + tasks.images * tasks.rows * s.w * s.c : 0;
  }
  std::string_view name() const override { return "max_pool2d_grad"; }

  Specs infer(SpecView in) const override {
    InputCheck check(name(), in.first(std::min<size_t>(in.size(), 2)), {"dy", "positions"});
    check.floats({0});
    check.dtype(1, DType::u8);
    check.rank(0, 4);
    check.shape(1, in[0].shape, "like dy");
    const Shape x = image_of(in[0].shape, params.image);
    check.shape(0, pooled(check, params.pool, x), "the output shape of max_pool2d");
    return {{result_type(params.epilogue, compute_type(in[0].dtype)), x, {}}};
  }

  std::unique_ptr<Kernel> prepare(SpecView in, Context& ctx,
                                  const Algorithm& chosen) const override {
    if (!ctx.device().is_cpu()) return Op::prepare(in, ctx, chosen);
    const TensorSpec dx = infer(in)[0], sums = computed(dx);
    const DType stored = takes_half(DeviceKind::cpu, in) ? dx.dtype : sums.dtype;
    return std::make_unique<MaxPoolGradKernel>(
        shape_of(in[0].shape), epilogue_plan(params.epilogue, in.subspan(2), sums, stored));
  }
  void run(CudaContext& ctx, Buffers in, Buffers out, Buffer) const override {
    if constexpr (kCuda)
      max_pool2d_grad_cuda(ctx, shape_of(in[0].spec.shape), in[0], in[1], out[0]);
  }

  const ScalarProgram& epilogue() const override { return params.epilogue; }
  std::optional<FusedOp> fuse_epilogue(const ScalarProgram& p, int fused_input, SpecView in,
                                       SpecView p_in) const override {
    if (!in[0].device.is_cpu()) return std::nullopt;
    auto whole = join_epilogue(params.epilogue, p, fused_input, infer(in)[0], p_in);
    if (!whole) return std::nullopt;
    return FusedOp{with_epilogue(*whole), join_inputs(in.size(), p, fused_input)};
  }
  std::optional<FusedOp> fuse_prologue(const ScalarProgram& p, int input, SpecView in,
                                       SpecView p_in, const Target&) const override {
    if (!in[0].device.is_cpu() || input < 2) return std::nullopt;
    const TensorSpec& made = in[static_cast<size_t>(input)];
    if (made.shape != infer(in)[0].shape || primary_input(p, made, p_in) < 0) return std::nullopt;
    auto whole = join_prologue(params.epilogue, p, input - 1);
    if (!whole) return std::nullopt;
    FusedOp fused{with_epilogue(*whole), {}};
    for (int i = 0; i < static_cast<int>(in.size()); ++i)
      if (i != input) fused.inputs.push_back(i);
    for (int k = 0; k < p.inputs; ++k) fused.inputs.push_back(-1 - k);
    return fused;
  }
  Cost cost(SpecView in) const override {
    return cost_with(in, in[0].shape.elements() + epilogue_flops(params.epilogue, infer(in)[0]));
  }

 private:
  OpPtr with_epilogue(const ScalarProgram& epilogue) const {
    PoolOpParams joined = params;
    joined.epilogue = epilogue;
    return std::make_shared<MaxPool2dGrad>(joined);
  }
};

constexpr int64_t kRowsTogether = 2;  // rows of y per task, which share rows of x in scratch

class MaxPoolKernel final : public Kernel {
 public:
  // `prologue`: computes x, if set
  MaxPoolKernel(const PoolShape& shape, std::optional<PointwisePlan> prologue)
      : shape_(shape), prologue_(std::move(prologue)) {}

  void run(Context& ctx, Buffers in, Buffers out, Buffer scratch) override {
    std::optional<EpilogueRun> prologue;
    if (prologue_) prologue.emplace(*prologue_, in.subspan(1), in[0]);
    visit_any_float(out[0].spec.dtype, [&]<class S>(S) {
      compute<S>(static_cast<CpuContext&>(ctx).pool(), in[0].as<S>(),
                 prologue ? &*prologue : nullptr, out[0].as<S>(),
                 out.size() > 1 ? out[1].as<uint8_t>() : nullptr, scratch.as<Computed<S>>());
    });
  }

 private:
  // Reads x through the prologue unless that is null. `positions` may be null.
  template <class S>
  void compute(ThreadPool& pool, const S* x, const EpilogueRun* prologue, S* y, uint8_t* positions,
               Computed<S>* scratch) const {
    using T = Computed<S>;
    const PoolShape& s = shape_;
    const bool strips = kHalf<S> || prologue != nullptr;
    const int64_t out_h = s.out_h(), length = s.w * s.c, out_length = s.out_w() * s.c;
    const int64_t together = kRowsTogether, tasks = ceil_div(out_h, together);
    const int64_t strip_elements = rows_of_x(s, together) * length;
    pool.parallel_for_thread(s.n * tasks, s.n * s.h * length, [&](int64_t task, int thread) {
      const int64_t b = task / tasks, first = task % tasks * together;
      const int64_t last = std::min(first + together, out_h);
      const int64_t top = s.rows_under(first).begin, bottom = s.rows_under(last - 1).end;
      T* const strip = scratch + thread * (strip_elements + (kHalf<S> ? out_length : 0));
      const int64_t from = (b * s.h + top) * length, count = (bottom - top) * length;
      const T* rows = strip;
      if (prologue != nullptr)
        prologue->apply_to(strip, from, count);
      else
        rows = read_strip(x + from, count, strip);
      for (int64_t i = first; i < last; ++i) {
        const PoolRange u = s.rows_under(i);
        const int64_t end = strips ? bottom : (s.n - b) * s.h;
        const PoolRow row =
            pool_row(s, u, u.begin - (i * s.stride_h - s.pad_h), (end - u.end) * length);
        const int64_t to = (b * out_h + i) * out_length;
        T* const maxima = own_or_strip(y + to, strip + strip_elements);
        pool_microkernels_of<T>().max_row(rows + (u.begin - top) * length, row, maxima,
                                          positions ? positions + to : nullptr);
        write_strip(maxima, out_length, y + to);
      }
    });
  }

  const PoolShape shape_;
  const std::optional<PointwisePlan> prologue_;
};

class MaxPool2d final : public PoolOp<MaxPool2d> {
 public:
  using PoolOp::PoolOp;
  PoolShape shape_of(const Shape& x) const override { return pool_shape(params.pool, x); }
  int64_t strip_elements(const PoolShape& s, bool half) const override {
    if (!half && !computes_input()) return 0;
    return rows_of_x(s, kRowsTogether) * s.w * s.c + (half ? s.out_w() * s.c : 0);
  }
  bool computes_input() const { return !params.prologue.code.empty(); }
  std::string_view name() const override { return "max_pool2d"; }
  std::vector<OpAttribute> attributes() const override { return attributes_of(params.pool); }

  Specs infer(SpecView in) const override {
    InputCheck check(name(), in.first(std::min<size_t>(in.size(), 1)), {"x"});
    check.floats();
    check.rank(0, 4);
    const Shape y = pooled(check, params.pool, in[0].shape);
    if (params.pool.kernel.h * params.pool.kernel.w > 256)
      check.fail(fmt::format(
          "a window may have at most 256 pixels, but the kernel {} has {}; pool in two steps",
          params.pool.kernel.text(), params.pool.kernel.h * params.pool.kernel.w));
    // The maximum needs no rounding.
    const DType type =
        computes_input() ? result_type(params.prologue, compute_type(in[0].dtype)) : in[0].dtype;
    Specs out = {{type, y, {}}};
    if (params.positions) out.push_back({DType::u8, y, {}});
    return out;
  }

  std::unique_ptr<Kernel> prepare(SpecView in, Context& ctx,
                                  const Algorithm& chosen) const override {
    if (!ctx.device().is_cpu()) return Op::prepare(in, ctx, chosen);
    std::optional<PointwisePlan> prologue;
    if (computes_input())
      prologue = epilogue_plan(params.prologue, in.subspan(1), in[0], compute_type(in[0].dtype));
    if (prologue && prologue->is_identity()) prologue.reset();  // a cast of converted inputs
    return std::make_unique<MaxPoolKernel>(shape_of(in[0].shape), std::move(prologue));
  }
  void run(CudaContext& ctx, Buffers in, Buffers out, Buffer) const override {
    if constexpr (kCuda) max_pool2d_cuda(ctx, shape_of(in[0].spec.shape), in[0], out);
  }

  bool differentiable() const override { return params.positions; }
  Saved saved() const override { return {.outputs = 0b10}; }

  Tensors grad(const GradArgs& args) const override {
    const Shape& x = args.input_specs[0].shape;
    const DType dtype = args.input_specs[0].dtype;
    return {
        apply1(std::make_shared<MaxPool2dGrad>(PoolOpParams{
                   .pool = params.pool, .image = {x[1], x[2]}, .epilogue = plain_epilogue(dtype)}),
               {args.grad_outputs[0], args.outputs[1]})};
  }

  std::optional<FusedOp> fuse_prologue(const ScalarProgram& p, int input, SpecView in,
                                       SpecView p_in, const Target&) const override {
    if (!in[0].device.is_cpu() || input != 0 || computes_input()) return std::nullopt;
    const int main = primary_input(p, in[0], p_in);
    if (main < 0) return std::nullopt;
    PoolOpParams joined = params;
    joined.prologue = move_input_first(p, main);
    FusedOp fused{std::make_shared<MaxPool2d>(joined), {-1 - main}};
    for (int k = 0; k < p.inputs; ++k)
      if (k != main) fused.inputs.push_back(-1 - k);
    return fused;
  }

  Cost cost(SpecView in) const override {
    return cost_with(
        in, window_flops(params.pool, infer(in)[0].shape) + epilogue_flops(params.prologue, in[0]));
  }
};

// Reduces `out` windows along one axis to one value each; the axis stays.
template <class Reduce>
Tensor pooled_along(const Tensor& x, int axis, int64_t out, const Reduce& reduce) {
  const int64_t size = x.shape()[axis];
  Tensors windows;
  for (int64_t i = 0; i < out; ++i) {
    if (windows.size() == kMaxConcat) windows = {concat(windows, axis)};
    const int64_t begin = i * size / out, end = ((i + 1) * size + out - 1) / out;
    windows.push_back(reduce(slice(x, axis, begin, end), axis));
  }
  return concat(windows, axis);
}

template <class Pool, class Reduce>
Tensor adaptive(const char* name, const Tensor& x, Size2 out, const Pool& pool,
                const Reduce& reduce) {
  InputCheck check(name, std::span(&x.spec(), 1), {"x"});
  check.floats();
  check.rank(0, 4);
  if (out.h < 1 || out.w < 1) check.fail(fmt::format("out must be >= 1, but is {}", out.text()));
  const int64_t h = x.shape()[1], w = x.shape()[2];
  if (h < 1 || w < 1) check.fail("x must have at least one pixel");
  if (h % out.h == 0 && w % out.w == 0) return pool(x, {.kernel = {h / out.h, w / out.w}});
  return pooled_along(pooled_along(x, 1, out.h, reduce), 2, out.w, reduce);
}

}  // namespace

Tensor max_pool2d(const Tensor& x, const Pool2dParams& params) {
  const bool positions = should_record(std::span(&x, 1));  // only the gradient reads them
  return apply1(std::make_shared<MaxPool2d>(PoolOpParams{params, 0, positions}), {x});
}

Tensor adaptive_max_pool2d(const Tensor& x, Size2 out) {
  return adaptive("adaptive_max_pool2d", x, out, max_pool2d,
                  [](const Tensor& part, int axis) { return max(part, axis, true); });
}

Tensor adaptive_average_pool2d(const Tensor& x, Size2 out) {
  return in_float32(x, [&](const Tensor& wide) {
    return adaptive("adaptive_average_pool2d", wide, out, average_pool2d,
                    [](const Tensor& part, int axis) { return mean(part, {axis}, true); });
  });
}

}  // namespace tessera
