// Ops that read their input by strides or indices: expand, permute, gather and its gradient,
// one_hot.
#include <algorithm>
#include <array>
#include <limits>

#include <fmt/format.h>

#include "tessera/engine/kernels_cuda.h"
#include "tessera/engine/lines.h"
#include "tessera/engine/recorder.h"
#include "tessera/engine/structural.h"
#include "tessera/runtime/cuda/cuda.h"
#include "tessera/runtime/error.h"

namespace tessera {
namespace {

int positive_axis(std::string_view op_name, int axis, int rank, const TensorSpec& x) {
  if (axis < -rank || axis >= rank)
    throw ShapeError(fmt::format("{}: axis {} does not exist (x {})", op_name, axis, x.text()));
  return axis < 0 ? axis + rank : axis;
}

// Copies every element of the output, in order, from the input at these strides.
void copy_strided(CpuContext& ctx, const Buffer& in, const Strides& strides, const Buffer& out) {
  visit_dtype(in.spec.dtype, [&]<class T>(T) {
    for_lines(ctx.pool(), out.spec.shape, std::array<Strides, 1>{strides}, [&](const Line<1>& l) {
      const T* x = in.as<T>() + l.from[0];
      T* y = out.as<T>() + l.first;
      for (int64_t i = 0; i < l.size; ++i) y[i] = x[i * l.step[0]];
    });
  });
}

class Expand final : public OpBase<Expand, Shape> {
 public:
  using OpBase::OpBase;
  std::string_view name() const override { return "expand"; }
  Specs infer(SpecView in) const override {
    if (in[0].shape.rank() > params.rank() || broadcast(in[0].shape, params, "expand") != params)
      throw ShapeError(
          fmt::format("expand: {} cannot be expanded to {}", in[0].shape.text(), params.text()));
    return {{in[0].dtype, params, {}}};
  }
  bool differentiable() const override { return true; }
  Tensors grad(const GradArgs& args) const override {
    return {sum_to(args.grad_outputs[0], args.input_specs[0].shape)};
  }
  void run(CpuContext& ctx, Buffers in, Buffers out, Buffer) const override {
    copy_strided(ctx, in[0], broadcast_strides(in[0].spec.shape, params), out[0]);
  }
  bool takes_half(DeviceKind, SpecView) const override { return true; }
  void run(CudaContext& ctx, Buffers in, Buffers out, Buffer) const override {
    if constexpr (kCuda)
      copy_strided_cuda(ctx, in[0], broadcast_strides(in[0].spec.shape, params), out[0]);
  }
};

// The parameter is the input axis of each axis of the output.
class Permute final : public OpBase<Permute, std::vector<int>> {
 public:
  using OpBase::OpBase;
  std::string_view name() const override { return "permute"; }
  std::vector<OpAttribute> attributes() const override {
    return {{"axes", {params.begin(), params.end()}}};
  }
  Specs infer(SpecView in) const override {
    Shape shape = in[0].shape;
    for (int i = 0; i < shape.rank(); ++i) shape[i] = in[0].shape[params.at(size_t(i))];
    return {{in[0].dtype, shape, {}}};
  }
  void run(CpuContext& ctx, Buffers in, Buffers out, Buffer) const override {
    copy_strided(ctx, in[0], input_strides(in[0].spec.shape), out[0]);
  }
  // Drops the op if the axes that are not 1 keep their order: no element moves.
  std::optional<FusedOp> simplified(SpecView in) const override {
    int last = -1;
    for (const int axis : params) {
      if (in[0].shape[axis] == 1) continue;
      if (axis < last) return std::nullopt;
      last = axis;
    }
    if (infer(in)[0].shape != in[0].shape) return std::nullopt;
    return FusedOp{nullptr, {0}};
  }
  std::optional<FusedOp> fuse_producer(const Op& producer, int, SpecView, SpecView) const override {
    auto* first = dynamic_cast<const Permute*>(&producer);
    if (first == nullptr) return std::nullopt;
    std::vector<int> both;
    for (const int axis : params) both.push_back(first->params[axis]);
    return FusedOp{std::make_shared<Permute>(std::move(both)), {-1}};
  }
  bool differentiable() const override { return true; }
  Tensors grad(const GradArgs& args) const override {
    std::vector<int> back(params.size());
    for (size_t i = 0; i < back.size(); ++i) back[params[i]] = static_cast<int>(i);
    return {permute(args.grad_outputs[0], back)};
  }
  bool takes_half(DeviceKind, SpecView) const override { return true; }
  void run(CudaContext& ctx, Buffers in, Buffers out, Buffer) const override {
    if constexpr (kCuda) copy_strided_cuda(ctx, in[0], input_strides(in[0].spec.shape), out[0]);
  }

 private:
  Strides input_strides(const Shape& x) const {
    Strides strides{};
    for (size_t i = 0; i < params.size(); ++i) strides[i] = x.elements(params[i] + 1, x.rank());
    return strides;
  }
};

struct AxisParams {
  int axis = 0;
  int64_t size = 0;  // axis size in the input of gather or the output of scatter_add
  bool operator==(const AxisParams&) const = default;
};

// Calls fn(position, index) for each index of a slice of `outer`; index is -1 if out of range.
template <class F>
void for_indices(const Buffer& indices, const IndexGeometry& g, int64_t size, int64_t outer,
                 F&& fn) {
  visit_integer(indices.spec.dtype, [&](auto zero) {
    using I = decltype(zero);
    const I* index = indices.as<I>() + outer * g.count * g.inner;
    for (int64_t i = 0; i < g.count * g.inner; ++i)
      fn(i, wrap_index(static_cast<int64_t>(index[i]), size));
  });
}

void check_indices(std::string_view op_name, SpecView in, int axis) {
  const TensorSpec &x = in[0], &index = in[1];
  bool fits = !is_float(index.dtype) && index.shape.rank() == x.shape.rank();
  for (int i = 0; fits && i < x.shape.rank(); ++i) fits = i == axis || index.shape[i] == x.shape[i];
  if (!fits)
    throw ShapeError(fmt::format(
        "{}: the indices must be integers, shaped like x except on axis {} (x {}, indices {})",
        op_name, axis, x.text(), index.text()));
}

// dx[o, index[o, j, i], i] += dy[o, j, i], in the order of j
class ScatterAdd final : public OpBase<ScatterAdd, AxisParams> {
 public:
  using OpBase::OpBase;
  std::string_view name() const override { return "scatter_add"; }
  Specs infer(SpecView in) const override {
    Shape shape = in[0].shape;
    shape[params.axis] = params.size;
    return {{in[0].dtype, shape, {}}};
  }
  void run(CpuContext& ctx, Buffers in, Buffers out, Buffer) const override {
    const IndexGeometry g(in[1].spec.shape, params.axis);
    visit_float(in[0].spec.dtype, [&](auto zero) {
      using T = decltype(zero);
      ctx.pool().parallel_for(g.outer, [&](int64_t o) {
        const T* dy = in[0].as<T>() + o * g.count * g.inner;
        T* dx = out[0].as<T>() + o * params.size * g.inner;
        std::fill_n(dx, params.size * g.inner, T(0));
        for_indices(in[1], g, params.size, o, [&](int64_t i, int64_t at) {
          if (at >= 0) dx[at * g.inner + i % g.inner] += dy[i];
        });
      });
    });
  }
  void run(CudaContext& ctx, Buffers in, Buffers out, Buffer) const override {
    if constexpr (kCuda)
      scatter_add_cuda(ctx, in[0], in[1], IndexGeometry(in[1].spec.shape, params.axis), params.size,
                       out[0]);
  }
  bool differentiable() const override { return true; }
  Saved saved() const override { return {.inputs = 0b10}; }
  Tensors grad(const GradArgs& args) const override {
    return {gather(args.grad_outputs[0], params.axis, args.inputs[1]), {}};
  }
  Cost cost(SpecView in) const override { return cost_with(in, in[0].shape.elements()); }
};

// y[o, j, i] = x[o, index[o, j, i], i]
class Gather final : public OpBase<Gather, AxisParams> {
 public:
  using OpBase::OpBase;
  std::string_view name() const override { return "gather"; }
  Specs infer(SpecView in) const override {
    check_indices(name(), in, params.axis);
    return {{in[0].dtype, in[1].shape, {}}};
  }
  void run(CpuContext& ctx, Buffers in, Buffers out, Buffer) const override {
    const IndexGeometry g(in[1].spec.shape, params.axis);
    visit_dtype(in[0].spec.dtype, [&](auto zero) {
      using T = decltype(zero);
      ctx.pool().parallel_for(g.outer, [&](int64_t o) {
        const T* x = in[0].as<T>() + o * params.size * g.inner;
        T* y = out[0].as<T>() + o * g.count * g.inner;
        for_indices(in[1], g, params.size, o, [&](int64_t i, int64_t at) {
          y[i] = at < 0 ? std::numeric_limits<T>::quiet_NaN() : x[at * g.inner + i % g.inner];
        });
      });
    });
  }
  void run(CudaContext& ctx, Buffers in, Buffers out, Buffer) const override {
    if constexpr (kCuda)
      gather_cuda(ctx, in[0], in[1], IndexGeometry(in[1].spec.shape, params.axis), params.size,
                  out[0]);
  }
  bool differentiable() const override { return true; }
  Saved saved() const override { return {.inputs = 0b10}; }
  Tensors grad(const GradArgs& args) const override {
    return {apply1(std::make_shared<ScatterAdd>(params), {args.grad_outputs[0], args.inputs[1]}),
            {}};
  }
  Cost cost(SpecView in) const override {
    const auto taken = static_cast<int64_t>(infer(in)[0].bytes());
    return {.bytes_read = taken + static_cast<int64_t>(in[1].bytes()), .bytes_written = taken};
  }
};

struct OneHotParams {
  int64_t classes;
  DType dtype;
  bool operator==(const OneHotParams&) const = default;
};

class OneHot final : public OpBase<OneHot, OneHotParams> {
 public:
  using OpBase::OpBase;
  std::string_view name() const override { return "one_hot"; }
  Specs infer(SpecView in) const override {
    if (is_float(in[0].dtype))
      throw ShapeError(fmt::format("one_hot: labels must be integers, but are {}", in[0].text()));
    std::vector<int64_t> sizes(in[0].shape.begin(), in[0].shape.end());
    sizes.push_back(params.classes);
    return {{params.dtype, Shape(sizes), {}}};
  }
  void run(CpuContext&, Buffers in, Buffers out, Buffer) const override {
    visit_dtype(params.dtype, [&](auto zero) {
      using T = decltype(zero);
      T* y = out[0].as<T>();
      std::fill_n(y, out[0].elements(), T(0));
      const IndexGeometry all(Shape{in[0].elements()}, 0);
      for_indices(in[0], all, params.classes, 0, [&](int64_t i, int64_t at) {
        if (at >= 0) y[i * params.classes + at] = T(1);
      });
    });
  }
  bool takes_half(DeviceKind, SpecView) const override { return true; }
  void run(CudaContext& ctx, Buffers in, Buffers out, Buffer) const override {
    if constexpr (kCuda) one_hot_cuda(ctx, in[0], params.classes, out[0]);
  }
};

// Throws Error for an index out of range, as kernels cannot throw. Checks only eager CPU tensors.
void check_values(std::string_view op_name, const Tensor& index, int64_t size) {
  if (!index.device().is_cpu() || current_recorder() != nullptr) return;
  visit_integer(index.dtype(), [&](auto zero) {
    const auto values = index.to_vector<decltype(zero)>();
    for (size_t i = 0; i < values.size(); ++i) {
      const auto at = static_cast<int64_t>(values[i]);
      if (at < -size || at >= size)
        throw Error(
            fmt::format("{}: index {} is {}, but the axis has {} elements", op_name, i, at, size));
    }
  });
}

}  // namespace

Tensor expand(const Tensor& x, const Shape& shape) {
  if (shape == x.shape()) return x;
  return apply1(std::make_shared<Expand>(shape), {x});
}

Tensor permute(const Tensor& x, const std::vector<int>& axes) {
  const int rank = x.shape().rank();
  std::vector<int> params;
  std::vector<bool> seen(static_cast<size_t>(rank));
  for (int axis : axes) {
    const int positive = positive_axis("permute", axis, rank, x.spec());
    if (seen[positive])
      throw ShapeError(
          fmt::format("permute: axis {} is named twice (x {})", axis, x.spec().text()));
    seen[positive] = true;
    params.push_back(positive);
  }
  if (std::ssize(params) != rank)
    throw ShapeError(fmt::format("permute: {} axes are named, but x has {} ({})", axes.size(), rank,
                                 x.spec().text()));
  return apply1(std::make_shared<Permute>(std::move(params)), {x});
}

Tensor transpose(const Tensor& x, int first, int second) {
  const int rank = x.shape().rank();
  std::vector<int> axes;
  for (int i = 0; i < rank; ++i) axes.push_back(i);
  std::swap(axes[static_cast<size_t>(positive_axis("transpose", first, rank, x.spec()))],
            axes[static_cast<size_t>(positive_axis("transpose", second, rank, x.spec()))]);
  return permute(x, axes);
}

Tensor gather(const Tensor& x, int axis, const Tensor& index) {
  const int positive = positive_axis("gather", axis, x.shape().rank(), x.spec());
  const int64_t size = x.shape()[positive];
  Tensor y = apply1(std::make_shared<Gather>(AxisParams{positive, size}), {x, index});
  check_values("gather", index, size);
  return y;
}

Tensor one_hot(const Tensor& labels, int64_t classes, DType dtype) {
  if (classes < 1)
    throw ShapeError(fmt::format("one_hot: classes must be at least 1, but is {}", classes));
  Tensor y = apply1(std::make_shared<OneHot>(OneHotParams{classes, dtype}), {labels});
  check_values("one_hot", labels, classes);
  return y;
}

}  // namespace tessera
