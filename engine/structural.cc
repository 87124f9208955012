#include "tessera/engine/structural.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include <fmt/format.h>

#include "tessera/engine/half_numbers.h"
#include "tessera/engine/kernels_cuda.h"
#include "tessera/engine/lines.h"
#include "tessera/engine/pointwise.h"
#include "tessera/engine/prepare.h"
#include "tessera/engine/recorder.h"
#include "tessera/runtime/cuda/context.h"
#include "tessera/runtime/cuda/cuda.h"
#include "tessera/runtime/error.h"

namespace tessera {
namespace {

struct FillParams {
  DType dtype;
  Shape shape;
  double value;
  bool operator==(const FillParams& other) const {  // 0 and -0 differ
    return dtype == other.dtype && shape == other.shape &&
           std::bit_cast<uint64_t>(value) == std::bit_cast<uint64_t>(other.value);
  }
};

class Fill final : public OpBase<Fill, FillParams> {
 public:
  using OpBase::OpBase;
  std::string_view name() const override { return "fill"; }
  Specs infer(SpecView) const override { return {{params.dtype, params.shape, {}}}; }
  void run(CpuContext& ctx, Buffers, Buffers out, Buffer) const override {
    visit_dtype(params.dtype, [&](auto zero) {
      using T = decltype(zero);
      T* y = out[0].as<T>();
      for_chunks(ctx.pool(), out[0].elements(), [&](int64_t first, int64_t count) {
        std::fill_n(y + first, count, static_cast<T>(params.value));
      });
    });
  }
  bool takes_half(DeviceKind, SpecView) const override { return true; }
  void run(CudaContext& ctx, Buffers, Buffers out, Buffer) const override {
    if constexpr (kCuda) fill_cuda(ctx, out[0], params.value);
  }
};

struct ViewParams {
  Shape shape;
  int64_t first = 0;  // element of the input at which the view begins
  bool operator==(const ViewParams&) const = default;
};

Tensor scatter_rows(const Tensor& rows, const Shape& whole, int64_t first);

// reshape and rows: a contiguous part of the input as another shape.
class View final : public OpBase<View, ViewParams> {
 public:
  using OpBase::OpBase;
  std::string_view name() const override { return "view"; }
  Specs infer(SpecView in) const override { return {{in[0].dtype, params.shape, {}}}; }
  bool runs_on(DeviceKind) const override { return true; }
  bool takes_half(DeviceKind, SpecView) const override { return true; }
  int view_of(int) const override { return 0; }
  int64_t view_offset(SpecView in) const override {
    return params.first * static_cast<int64_t>(size_of(in[0].dtype));
  }
  std::optional<FusedOp> simplified(SpecView in) const override {
    if (params.first != 0 || params.shape != in[0].shape) return std::nullopt;
    return FusedOp{nullptr, {0}};
  }
  std::optional<FusedOp> fuse_producer(const Op& producer, int, SpecView, SpecView) const override {
    auto* whole = dynamic_cast<const View*>(&producer);
    if (whole == nullptr) return std::nullopt;
    ViewParams both{params.shape, whole->params.first + params.first};
    return FusedOp{std::make_shared<View>(both), {-1}};
  }
  bool differentiable() const override { return true; }
  Tensors grad(const GradArgs& args) const override {
    const Shape& whole = args.input_specs[0].shape;
    const Tensor& dy = args.grad_outputs[0];
    if (whole.elements() == params.shape.elements()) return {reshape(dy, whole)};
    return {scatter_rows(dy, whole, params.first)};
  }
};

// Zeros except for a contiguous part: the gradient of rows.
class ScatterRows final : public OpBase<ScatterRows, ViewParams> {
 public:
  using OpBase::OpBase;
  std::string_view name() const override { return "scatter_rows"; }
  Specs infer(SpecView in) const override { return {{in[0].dtype, params.shape, {}}}; }
  bool differentiable() const override { return true; }
  Tensors grad(const GradArgs& args) const override {
    ViewParams part{args.input_specs[0].shape, params.first};
    return {apply1(std::make_shared<View>(part), {args.grad_outputs[0]})};
  }
  bool takes_half(DeviceKind, SpecView) const override { return true; }
  void run(CpuContext& ctx, Buffers in, Buffers out, Buffer) const override {
    scatter(ctx, in[0], out[0]);
  }
  void run(CudaContext& ctx, Buffers in, Buffers out, Buffer) const override {
    if constexpr (kCuda) scatter(ctx, in[0], out[0]);
  }

 private:
  void scatter(Context& ctx, const Buffer& in, const Buffer& out) const {
    const size_t first = static_cast<size_t>(params.first) * size_of(in.spec.dtype);
    const size_t bytes = in.spec.bytes(), total = out.spec.bytes();
    char* y = out.as<char>();
    ctx.fill(y, 0, first);
    if (bytes > 0) ctx.copy_within(y + first, in.data, bytes);
    ctx.fill(y + first + bytes, 0, total - first - bytes);
  }
};

Tensor scatter_rows(const Tensor& rows, const Shape& whole, int64_t first) {
  return apply1(std::make_shared<ScatterRows>(ViewParams{whole, first}), {rows});
}

// Returns whether `to` can represent every value of `from`.
bool holds_all(DType to, DType from) {
  if (to == from || from == DType::u8) return true;
  if (to == DType::f64) return from != DType::i64;
  if (to == DType::f32) return is_half(from);
  return to == DType::i64 && from == DType::i32;
}

class Cast final : public OpBase<Cast, DType> {
 public:
  using OpBase::OpBase;
  std::string_view name() const override { return "cast"; }
  Specs infer(SpecView in) const override { return {{params, in[0].shape, {}}}; }
  std::optional<FusedOp> simplified(SpecView in) const override {
    if (params != in[0].dtype) return std::nullopt;
    return FusedOp{nullptr, {0}};
  }
  // Skips an intermediate dtype if it loses nothing. A floating-point value that is too large for
  // an integer dtype has no defined result, so such casts stay.
  std::optional<FusedOp> fuse_producer(const Op& producer, int, SpecView in,
                                       SpecView from) const override {
    const bool rounded = is_float(params) || !is_float(in[0].dtype);
    if (dynamic_cast<const Cast*>(&producer) == nullptr || !holds_all(in[0].dtype, from[0].dtype) ||
        !(rounded || holds_all(params, from[0].dtype)))
      return std::nullopt;
    return FusedOp{std::make_shared<Cast>(params), {-1}};
  }
  bool differentiable() const override { return is_float(params); }
  Tensors grad(const GradArgs& args) const override {
    return {cast(args.grad_outputs[0], args.input_specs[0].dtype)};
  }
  void run(CpuContext& ctx, Buffers in, Buffers out, Buffer) const override {
    cast_elements(ctx, in[0], out[0]);
  }
  bool takes_half(DeviceKind, SpecView) const override { return true; }
  void run(CudaContext& ctx, Buffers in, Buffers out, Buffer) const override {
    if constexpr (kCuda) cast_cuda(ctx, in[0], out[0]);
  }
};

// Issues the copy on the stream of the GPU involved; for two GPUs, that of the output. The caller
// synchronizes devices if one continues from the work of another (Op::crosses_devices()).
class CopyKernel final : public Kernel {
 public:
  void run(Context& ctx, Buffers in, Buffers out, Buffer) override {
    const Device from = in[0].spec.device, to = ctx.device();
    const char* x = in[0].as<char>();
    char* y = out[0].as<char>();
    const size_t bytes = in[0].spec.bytes();
    if (from.is_cpu() && to.is_cpu()) {
      for_chunks(static_cast<CpuContext&>(ctx).pool(), static_cast<int64_t>(bytes),
                 [&](int64_t first, int64_t count) {
                   std::memcpy(y + first, x + first, static_cast<size_t>(count));
                 });
    } else if (to.is_cpu()) {
      Context& source = context(from);
      source.issue_to_host(y, x, bytes, source.stream());
    } else if (from.is_cpu()) {
      ctx.issue_from_host(y, x, bytes, ctx.stream());
    } else {
      ctx.copy_within(y, x, bytes);
    }
  }
};

class Copy final : public OpBase<Copy, Device> {
 public:
  using OpBase::OpBase;
  std::string_view name() const override { return "copy"; }
  Specs infer(SpecView in) const override { return {in[0]}; }
  bool crosses_devices() const override { return true; }
  bool differentiable() const override { return true; }
  Tensors grad(const GradArgs& args) const override {
    return {copy(args.grad_outputs[0], args.input_specs[0].device)};
  }
  bool runs_on(DeviceKind) const override { return true; }
  bool takes_half(DeviceKind, SpecView) const override { return true; }
  std::unique_ptr<Kernel> prepare(SpecView, Context&, const Algorithm&) const override {
    return std::make_unique<CopyKernel>();
  }
};

}  // namespace

void cast_elements(Context& ctx, const Buffer& from, const Buffer& to) {
  if (!ctx.device().is_cpu()) {
    if constexpr (kCuda) cast_cuda(as_cuda(ctx), from, to);
    return;
  }
  ThreadPool& pool = static_cast<CpuContext&>(ctx).pool();
  const DType was = from.spec.dtype, is = to.spec.dtype;
  if (is_half(was) && is == DType::f32)
    return for_chunks(pool, to.elements(), [&](int64_t first, int64_t count) {
      widen_half(was, from.data, first, count, to.as<float>() + first);
    });
  if (was == DType::f32 && is_half(is))
    return for_chunks(pool, to.elements(), [&](int64_t first, int64_t count) {
      narrow_to_half(is, from.as<float>() + first, count, to.as<uint16_t>() + first);
    });
  visit_dtype(was, [&]<class From>(From) {
    visit_dtype(is, [&]<class To>(To) {
      for_chunks(pool, to.elements(), [&](int64_t first, int64_t count) {
        const From* x = from.as<From>();
        for (int64_t i = first; i < first + count; ++i) to.as<To>()[i] = static_cast<To>(x[i]);
      });
    });
  });
}

Tensor full(const Shape& shape, double value, DType dtype) {
  return apply1(std::make_shared<Fill>(FillParams{dtype, shape, value}), {});
}

Tensor reshape(const Tensor& x, const Shape& shape) {
  if (shape == x.shape()) return x;
  if (shape.elements() != x.elements())
    throw ShapeError(fmt::format("reshape: {} has {} elements, {} has {}", x.shape().text(),
                                 x.elements(), shape.text(), shape.elements()));
  return apply1(std::make_shared<View>(ViewParams{shape, 0}), {x});
}

Tensor reshape(const Tensor& x, std::initializer_list<int64_t> sizes) {
  std::vector<int64_t> known(sizes);
  const auto open = std::ranges::find(known, -1);
  if (open == known.end()) return reshape(x, Shape(known));
  *open = 1;
  const int64_t others = Shape(known).elements();  // a second -1 throws here
  if (others == 0 || x.elements() % others != 0)
    throw ShapeError(
        fmt::format("reshape: no size fits for -1: {} has {} elements, and the product of the "
                    "other sizes is {}",
                    x.shape().text(), x.elements(), others));
  *open = x.elements() / others;
  return reshape(x, Shape(known));
}

Tensor flatten(const Tensor& x) {
  if (x.shape().rank() < 1)
    throw ShapeError("flatten: x needs a first axis for the samples, but is a scalar");
  return reshape(x, {x.shape()[0], x.shape().elements(1, x.shape().rank())});
}

Tensor rows(const Tensor& x, int64_t begin, int64_t end) {
  const Shape& whole = x.shape();
  if (whole.rank() > 0 && begin < 0) begin += whole[0];
  if (whole.rank() > 0 && end < 0) end += whole[0];
  if (whole.rank() < 1 || begin < 0 || end < begin || end > whole[0])
    throw ShapeError(fmt::format("rows: [{}, {}) is not a range of the first axis of {}", begin,
                                 end, whole.text()));
  Shape part = whole;
  part[0] = end - begin;
  int64_t row = whole.elements(1, whole.rank());
  return apply1(std::make_shared<View>(ViewParams{part, begin * row}), {x});
}

Tensor cast(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  if (x.dtype() != DType::f64 && are_mixable(x.dtype(), dtype))  // a program, which fuses
    return pointwise("cast", {1, {{ScalarOp::float32}}}, {x},
                     {{{PointwiseGrad::kGradient}, {1, {}}}}, dtype);
  return apply1(std::make_shared<Cast>(dtype), {x});
}

// Synchronizes in eager mode; in a captured step the program does. A copy to eager host memory,
// which is pageable, is complete when the call returns.
Tensor copy(const Tensor& x, Device device) {
  const DeviceScope scope(device);
  const bool waits = current_recorder() == nullptr && x.device() != device && !device.is_cpu();
  if (waits && !x.device().is_cpu()) context(x.device()).synchronize();
  Tensor y = apply1(std::make_shared<Copy>(device), {x});
  if (waits) context(device).synchronize();
  return y;
}

}  // namespace tessera
