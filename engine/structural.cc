#include "tessera/engine/structural.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "tessera/engine/kernels_cuda.h"
#include "tessera/engine/lines.h"
#include "tessera/engine/pointwise.h"
#include "tessera/engine/pointwise_run.h"
#include "tessera/engine/prepare.h"
#include "tessera/engine/recorder.h"
#include "tessera/engine/sum_run.h"
#include "tessera/runtime/cuda/context.h"
#include "tessera/runtime/cuda/cuda.h"
#include "tessera/runtime/error.h"

namespace tessera {
namespace {

constexpr int64_t kChunk = 1 << 14;

// Calls fn(first, count) for chunks of [0, total) on the pool.
template <class F>
void in_chunks(CpuContext& ctx, int64_t total, F&& fn) {
  ctx.pool().parallel_for((total + kChunk - 1) / kChunk, [&](int64_t chunk) {
    fn(chunk * kChunk, std::min(kChunk, total - chunk * kChunk));
  });
}

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
      in_chunks(ctx, out[0].elements(), [&](int64_t first, int64_t count) {
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

struct ShapeParams {
  Shape shape;
  bool operator==(const ShapeParams&) const = default;
};

class Expand final : public OpBase<Expand, ShapeParams> {
 public:
  using OpBase::OpBase;
  std::string_view name() const override { return "expand"; }
  Specs infer(SpecView in) const override {
    if (in[0].shape.rank() > params.shape.rank() ||
        broadcast(in[0].shape, params.shape, "expand") != params.shape)
      throw ShapeError(fmt::format("expand: {} cannot be expanded to {}", in[0].shape.text(),
                                   params.shape.text()));
    return {{in[0].dtype, params.shape, {}}};
  }
  bool differentiable() const override { return true; }
  Tensors grad(const GradArgs& args) const override {
    return {sum_to(args.grad_outputs[0], args.input_specs[0].shape)};
  }
  void run(CpuContext& ctx, Buffers in, Buffers out, Buffer) const override {
    const std::array<Strides, 1> strides{broadcast_strides(in[0].spec.shape, params.shape)};
    visit_dtype(in[0].spec.dtype, [&](auto zero) {
      using T = decltype(zero);
      for_lines(ctx.pool(), params.shape, strides, [&](const Line<1>& l) {
        const T* x = in[0].as<T>() + l.from[0];
        T* y = out[0].as<T>() + l.first;
        for (int64_t i = 0; i < l.size; ++i) y[i] = x[i * l.step[0]];
      });
    });
  }
  bool takes_half(DeviceKind, SpecView) const override { return true; }
  void run(CudaContext& ctx, Buffers in, Buffers out, Buffer) const override {
    if constexpr (kCuda)
      copy_strided_cuda(ctx, in[0], broadcast_strides(in[0].spec.shape, params.shape), out[0]);
  }
};

struct CastParams {
  DType dtype;
  bool operator==(const CastParams&) const = default;
};

// Returns whether `to` can represent every value of `from`.
bool holds_all(DType to, DType from) {
  if (to == from || from == DType::u8) return true;
  if (to == DType::f64) return from != DType::i64;
  if (to == DType::f32) return is_half(from);
  return to == DType::i64 && from == DType::i32;
}

class Cast final : public OpBase<Cast, CastParams> {
 public:
  using OpBase::OpBase;
  std::string_view name() const override { return "cast"; }
  Specs infer(SpecView in) const override { return {{params.dtype, in[0].shape, {}}}; }
  std::optional<FusedOp> simplified(SpecView in) const override {
    if (params.dtype != in[0].dtype) return std::nullopt;
    return FusedOp{nullptr, {0}};
  }
  // Skips an intermediate dtype if it loses nothing. A floating-point value that is too large for
  // an integer dtype has no defined result, so such casts stay.
  std::optional<FusedOp> fuse_producer(const Op& producer, int, SpecView in,
                                       SpecView from) const override {
    const bool rounded = is_float(params.dtype) || !is_float(in[0].dtype);
    if (dynamic_cast<const Cast*>(&producer) == nullptr || !holds_all(in[0].dtype, from[0].dtype) ||
        !(rounded || holds_all(params.dtype, from[0].dtype)))
      return std::nullopt;
    return FusedOp{std::make_shared<Cast>(params), {-1}};
  }
  bool differentiable() const override { return is_float(params.dtype); }
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

struct CopyParams {
  Device to;
  bool operator==(const CopyParams&) const = default;
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
      in_chunks(static_cast<CpuContext&>(ctx), static_cast<int64_t>(bytes),
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

class Copy final : public OpBase<Copy, CopyParams> {
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
  auto& cpu = static_cast<CpuContext&>(ctx);
  const DType was = from.spec.dtype, is = to.spec.dtype;
  if (is_half(was) && is == DType::f32)
    return in_chunks(cpu, to.elements(), [&](int64_t first, int64_t count) {
      widen_half(was, from.data, first, count, to.as<float>() + first);
    });
  if (was == DType::f32 && is_half(is))
    return in_chunks(cpu, to.elements(), [&](int64_t first, int64_t count) {
      narrow_to_half(is, from.as<float>() + first, count, to.as<uint16_t>() + first);
    });
  visit_dtype(was, [&]<class From>(From) {
    visit_dtype(is, [&]<class To>(To) {
      in_chunks(cpu, to.elements(), [&](int64_t first, int64_t count) {
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
  const auto open = std::find(known.begin(), known.end(), -1);
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

Tensor expand(const Tensor& x, const Shape& shape) {
  if (shape == x.shape()) return x;
  return apply1(std::make_shared<Expand>(ShapeParams{shape}), {x});
}

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

Tensor cast(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  if (x.dtype() != DType::f64 && are_mixable(x.dtype(), dtype))  // a program, which fuses
    return pointwise("cast", {1, {{ScalarOp::float32}}}, {x},
                     {{{PointwiseGrad::kGradient}, {1, {}}}}, dtype);
  return apply1(std::make_shared<Cast>(CastParams{dtype}), {x});
}

// Synchronizes in eager mode; in a captured step the program does. A copy to eager host memory,
// which is pageable, is complete when the call returns.
Tensor copy(const Tensor& x, Device device) {
  const DeviceScope scope(device);
  const bool waits = current_recorder() == nullptr && x.device() != device && !device.is_cpu();
  if (waits && !x.device().is_cpu()) context(x.device()).synchronize();
  Tensor y = apply1(std::make_shared<Copy>(CopyParams{device}), {x});
  if (waits) context(device).synchronize();
  return y;
}

namespace {

// Returns the summands; integers as int64.
Tensor summands(const Tensor& x) { return is_float(x.dtype()) ? x : cast(x, DType::i64); }

void check_mean(const char* op_name, const Tensor& x) {
  if (!is_float(x.dtype()))
    throw ShapeError(fmt::format("{}: x must be floating point, but is {}; use cast()", op_name,
                                 x.spec().text()));
}

}  // namespace

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
    if (positive < 0 || positive >= rank || summed[static_cast<size_t>(positive)])
      throw ShapeError(
          fmt::format("sum: axis {} {} (x {})", axis,
                      positive < 0 || positive >= rank ? "is out of range" : "is named twice",
                      x.spec().text()));
    summed[static_cast<size_t>(positive)] = true;
    kept[positive] = 1;
  }
  std::vector<int64_t> left;
  for (int i = 0; i < rank; ++i)
    if (!summed[static_cast<size_t>(i)]) left.push_back(x.shape()[i]);
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

}  // namespace tessera
