#include "tessera/layers/ops/concat.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/engine/structural.h"
#include "tessera/layers/ops/slice.h"
#include "tessera/layers/shared/checks.h"
#include "tessera/layers/shared/kernels_cuda.h"
#include "tessera/runtime/cuda/cuda.h"
#include "tessera/runtime/error.h"

namespace tessera {
namespace {

[[noreturn]] void fail(std::string_view what, SpecView in) {
  std::vector<std::string> given;
  for (const TensorSpec& spec : in) given.push_back(spec.text());
  throw ShapeError(fmt::format("concat: {} ({})", what, fmt::join(given, ", ")));
}

// params: the axis, >= 0
class Concat final : public OpBase<Concat, int> {
 public:
  using OpBase::OpBase;
  std::string_view name() const override { return "concat"; }
  std::vector<OpAttribute> attributes() const override {
    return {{"axis", {static_cast<double>(params)}}};
  }

  Specs infer(SpecView in) const override {
    const int axis = params, rank = in[0].shape.rank();
    if (axis < 0 || axis >= rank)
      fail(fmt::format("axis must be between {} and {}, but is {}", -rank, rank - 1, axis), in);
    Shape y = in[0].shape;
    y[axis] = 0;
    for (const TensorSpec& x : in) {
      if (x.dtype != in[0].dtype) fail("the tensors must have the same dtype; use cast()", in);
      Shape rest = x.shape;
      if (rest.rank() == rank) rest[axis] = in[0].shape[axis];
      if (rest != in[0].shape)
        fail(fmt::format("the sizes must be equal along every axis except {}", axis), in);
      y[axis] += x.shape[axis];
    }
    return {{in[0].dtype, y, {}}};
  }

  void run(CpuContext& ctx, Buffers in, Buffers out, Buffer) const override {
    const Shape& y = out[0].spec.shape;
    const int64_t outer = y.elements(0, params);
    if (y.elements() == 0) return;
    ctx.pool().parallel_for(outer, [&](int64_t row) {
      char* to = out[0].as<char>() + static_cast<size_t>(row) * (out[0].spec.bytes() / outer);
      for (const Buffer& x : in) {
        const size_t bytes = x.spec.bytes() / static_cast<size_t>(outer);
        std::memcpy(to, x.as<char>() + static_cast<size_t>(row) * bytes, bytes);
        to += bytes;
      }
    });
  }
  void run(CudaContext& ctx, Buffers in, Buffers out, Buffer) const override {
    if constexpr (kCuda) concat_cuda(ctx, out[0].spec.shape.elements(0, params), in, out[0]);
  }
  bool takes_half(DeviceKind, SpecView) const override { return true; }

  bool differentiable() const override { return true; }

  Tensors grad(const GradArgs& args) const override {
    Tensors grads(args.input_specs.size());
    int64_t begin = 0;
    for (size_t i = 0; i < grads.size(); ++i) {
      const int64_t end = begin + args.input_specs[i].shape[params];
      if (args.needs(static_cast<int>(i)))
        grads[i] = slice(args.grad_outputs[0], params, begin, end);
      begin = end;
    }
    return grads;
  }
};

}  // namespace

Tensor concat(const Tensors& tensors, int axis) {
  // The GPU kernel takes no more tensors, and masks of inputs have 32 bits.
  if (tensors.empty() || tensors.size() > kMaxConcat)
    throw ShapeError(fmt::format("concat: needs 1 to 32 tensors, but got {}", tensors.size()));
  const int rank = tensors[0].shape().rank();
  return apply1(std::make_shared<Concat>(axis < 0 ? axis + rank : axis), tensors);
}

Tensor stack(const Tensors& tensors, int axis) {
  const int rank = tensors.empty() ? 0 : tensors[0].shape().rank();
  const int at = axis < 0 ? axis + rank + 1 : axis;
  if (tensors.empty()) throw ShapeError("stack: there must be at least one tensor");
  if (at < 0 || at > rank)
    throw ShapeError(fmt::format("stack: a new axis cannot be inserted at {} (x0 {})", axis,
                                 tensors[0].spec().text()));
  Tensors layers;
  for (const Tensor& x : tensors) {
    if (x.shape() != tensors[0].shape())
      throw ShapeError(fmt::format("stack: all tensors must have the same shape, but are {} and {}",
                                   tensors[0].spec().text(), x.spec().text()));
    std::vector<int64_t> sizes(x.shape().begin(), x.shape().end());
    sizes.insert(sizes.begin() + at, 1);
    layers.push_back(reshape(x, Shape(sizes)));
  }
  return concat(layers, at);
}

Tensor channel_shuffle(const Tensor& x, int64_t groups) {
  InputCheck check("channel_shuffle", std::span(&x.spec(), 1), {"x"});
  if (x.shape().rank() == 0) check.fail("x must have an axis of channels");
  const int64_t c = x.shape().back();
  if (groups < 1 || c % groups != 0)
    check.fail(fmt::format("{} groups do not divide {} channels", groups, c));
  const int64_t rows = x.elements() / std::max<int64_t>(c, 1);
  return reshape(transpose(reshape(x, Shape{rows, groups, c / groups})), x.shape());
}

}  // namespace tessera
