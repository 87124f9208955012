#include "tessera/layers/ops/slice.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "tessera/layers/shared/checks.h"
#include "tessera/layers/shared/for_rows.h"
#include "tessera/layers/shared/kernels_cuda.h"
#include "tessera/runtime/cuda/cuda.h"

namespace tessera {
namespace {

// The last axis of a box: a row has `size` elements, and [first, last) of them are inside x.
struct Row {
  int64_t begin, step, size, first, last;
  Row(int64_t begin, int64_t step, int64_t size, int64_t x_size)
      : begin(begin), step(step), size(size) {
    first = std::min(begin >= 0 ? 0 : (-begin + step - 1) / step, size);
    last = begin >= x_size ? first : std::clamp((x_size - begin + step - 1) / step, first, size);
  }
};

// Maps rows of a box to rows of x and back. A scalar counts as [1].
class Box {
 public:
  Box(const SliceParams& params, const Shape& x) : params_(params), x_(x) {}

  int64_t rows() const { return params_.size.elements(0, outer()); }
  int64_t x_rows() const { return x_.elements(0, outer()); }
  Row last_axis() const {
    if (x_.rank() == 0) return {0, 1, 1, 1};
    return {params_.begin[outer()], params_.step[outer()], params_.size.back(), x_.back()};
  }

  // Calls fn(row, source) for rows [first, end) of the box: the row of x that it reads, or -1.
  template <class F>
  void for_sources(int64_t first, int64_t end, F&& fn) const {
    walk(params_.size, x_, first, end, fn, [&](int axis, int64_t i) -> int64_t {
      const int64_t at = params_.begin[axis] + i * params_.step[axis];
      return at < x_[axis] ? at : -1;
    });
  }

  // Calls fn(row, reader) for rows [first, end) of x: the row of the box that reads it, or -1.
  template <class F>
  void for_readers(int64_t first, int64_t end, F&& fn) const {
    walk(x_, params_.size, first, end, fn, [&](int axis, int64_t i) -> int64_t {
      const int64_t distance = i - params_.begin[axis], at = distance / params_.step[axis];
      return distance % params_.step[axis] == 0 && at < params_.size[axis] ? at : -1;
    });
  }

 private:
  int outer() const { return std::max(x_.rank() - 1, 0); }

  // Calls fn(row, other) for rows [first, end) of a shape: the row of the other shape, of index
  // at(axis, i) along each axis, or -1 if one of these is negative.
  template <class F, class At>
  void walk(const Shape& own, const Shape& others, int64_t first, int64_t end, F&& fn,
            At&& at) const {
    const int inner = outer() - 1;
    const int64_t run = inner < 0 ? 1 : own[inner];
    for (int64_t row = first; row < end;) {
      int64_t before = 0, stride = inner < 0 ? 1 : others[inner], rest = row / run;
      for (int axis = inner - 1; axis >= 0 && before >= 0; rest /= own[axis--]) {
        const int64_t index = at(axis, rest % own[axis]);
        before = index < 0 ? -1 : before + index * stride;
        stride *= others[axis];
      }
      for (int64_t i = row % run; i < run && row < end; ++i, ++row) {
        const int64_t index = before < 0 || inner < 0 ? before : at(inner, i);
        fn(row, index < 0 || inner < 0 ? index : before + index);
      }
    }
  }

  const SliceParams& params_;
  const Shape& x_;
};

// Reads row y of the box from x, `element` bytes per element; x may be null (all zeros).
void read_row(const Row& r, size_t element, const char* x, char* y) {
  if (x == nullptr || r.first > 0 || r.last < r.size)
    std::memset(y, 0, static_cast<size_t>(r.size) * element);
  if (x == nullptr || r.first == r.last) return;
  const int64_t bytes = static_cast<int64_t>(element);
  if (r.step == 1) {
    std::memcpy(y + r.first * bytes, x + (r.begin + r.first) * bytes,
                static_cast<size_t>(r.last - r.first) * element);
    return;
  }
  for (int64_t i = r.first; i < r.last; ++i)
    std::memcpy(y + i * bytes, x + (r.begin + i * r.step) * bytes, element);
}

// Writes row dy of the box to dx, a row of x that holds zeros.
void write_row(const Row& r, size_t element, const char* dy, char* dx) {
  const int64_t bytes = static_cast<int64_t>(element);
  for (int64_t i = r.first; i < r.last; ++i) {
    const int64_t run = r.step == 1 ? r.last - i : 1;
    std::memcpy(dx + (r.begin + i * r.step) * bytes, dy + i * bytes,
                static_cast<size_t>(run) * element);
    i += run - 1;
  }
}

constexpr int64_t kTask = 1 << 13;  // elements that a task copies

struct SliceGradParams {
  SliceParams slice;
  Shape x;
  bool operator==(const SliceGradParams&) const = default;
};

class SliceGrad final : public OpBase<SliceGrad, SliceGradParams> {
 public:
  using OpBase::OpBase;
  std::string_view name() const override { return "slice_grad"; }

  Specs infer(SpecView in) const override {
    InputCheck check(name(), in, {"dy"});
    check.shape(0, params.slice.size, "the output shape of slice");
    return {{in[0].dtype, params.x, {}}};
  }

  void run(CpuContext& ctx, Buffers in, Buffers out, Buffer) const override {
    const Box box(params.slice, params.x);
    const Row row = box.last_axis();
    const size_t element = size_of(in[0].spec.dtype);
    const int64_t from_bytes = row.size * static_cast<int64_t>(element);
    const int64_t x_size = params.x.back(), to_bytes = x_size * static_cast<int64_t>(element);
    for_row_ranges(ctx.pool(), box.x_rows(), x_size, kTask, [&](int64_t first, int64_t end) {
      char* const dx = out[0].as<char>();
      std::memset(dx + first * to_bytes, 0, static_cast<size_t>((end - first) * to_bytes));
      box.for_readers(first, end, [&](int64_t r, int64_t from) {
        if (from >= 0)
          write_row(row, element, in[0].as<char>() + from * from_bytes, dx + r * to_bytes);
      });
    });
  }
  void run(CudaContext& ctx, Buffers in, Buffers out, Buffer) const override {
    if constexpr (kCuda) slice_grad_cuda(ctx, params.slice, in[0], out[0]);
  }
  bool takes_half(DeviceKind, SpecView) const override { return true; }

  bool differentiable() const override { return true; }
  Tensors grad(const GradArgs& args) const override {
    return {slice(args.grad_outputs[0], params.slice)};
  }
};

class Slice final : public OpBase<Slice, SliceParams> {
 public:
  using OpBase::OpBase;
  std::string_view name() const override { return "slice"; }
  std::vector<OpAttribute> attributes() const override {
    const auto rank = static_cast<ptrdiff_t>(params.size.rank());
    return {{"begin", {params.begin.begin(), params.begin.begin() + rank}},
            {"step", {params.step.begin(), params.step.begin() + rank}}};
  }

  Specs infer(SpecView in) const override {
    InputCheck check(name(), in, {"x"});
    if (in[0].shape.rank() != params.size.rank())
      check.fail(fmt::format("the box {} must have as many axes as x", params.size.text()));
    for (int axis = 0; axis < params.size.rank(); ++axis)
      if (params.step[axis] < 1)
        check.fail(fmt::format("the step along axis {} must be at least 1, but is {}", axis,
                               params.step[axis]));
    return {{in[0].dtype, params.size, {}}};
  }

  void run(CpuContext& ctx, Buffers in, Buffers out, Buffer) const override {
    const Box box(params, in[0].spec.shape);
    const Row row = box.last_axis();
    const size_t element = size_of(in[0].spec.dtype);
    const int64_t from_bytes = in[0].spec.shape.back() * static_cast<int64_t>(element);
    const int64_t to_bytes = row.size * static_cast<int64_t>(element);
    for_row_ranges(ctx.pool(), box.rows(), row.size, kTask, [&](int64_t first, int64_t end) {
      box.for_sources(first, end, [&](int64_t r, int64_t from) {
        read_row(row, element, from < 0 ? nullptr : in[0].as<char>() + from * from_bytes,
                 out[0].as<char>() + r * to_bytes);
      });
    });
  }
  void run(CudaContext& ctx, Buffers in, Buffers out, Buffer) const override {
    if constexpr (kCuda) slice_cuda(ctx, params, in[0], out[0]);
  }
  bool takes_half(DeviceKind, SpecView) const override { return true; }

  bool differentiable() const override { return true; }
  Tensors grad(const GradArgs& args) const override {
    return {apply1(std::make_shared<SliceGrad>(SliceGradParams{params, args.input_specs[0].shape}),
                   {args.grad_outputs[0]})};
  }

  Cost cost(SpecView in) const override {
    const auto part = static_cast<int64_t>(infer(in)[0].bytes());
    return {.bytes_read = std::min(part, static_cast<int64_t>(in[0].bytes())),
            .bytes_written = part};
  }
};

// Returns the box of all of x, to be changed along `axis`; makes a negative `axis` positive.
SliceParams whole(const InputCheck& check, const Shape& x, int& axis) {
  if (axis < -x.rank() || axis >= x.rank())
    check.fail(fmt::format("axis must be in [{}, {}], but is {}", -x.rank(), x.rank() - 1, axis));
  if (axis < 0) axis += x.rank();
  SliceParams params{.size = x};
  params.step.fill(1);
  return params;
}

}  // namespace

Tensor slice(const Tensor& x, const SliceParams& params) {
  return apply1(std::make_shared<Slice>(params), {x});
}

Tensor slice(const Tensor& x, int axis, int64_t begin, int64_t end, int64_t step) {
  InputCheck check("slice", std::span(&x.spec(), 1), {"x"});
  SliceParams params = whole(check, x.shape(), axis);
  if (begin < 0) begin += x.shape()[axis];
  if (end < 0) end += x.shape()[axis];
  if (begin < 0 || begin > end || end > x.shape()[axis])
    check.fail(fmt::format("[{}, {}) must be within axis {}, which has {} elements", begin, end,
                           axis, x.shape()[axis]));
  if (step < 1) check.fail(fmt::format("the step must be at least 1, but is {}", step));
  params.begin[axis] = begin;
  params.step[axis] = step;
  params.size[axis] = (end - begin + step - 1) / step;
  return slice(x, params);
}

Tensor pad(const Tensor& x, int axis, int64_t before, int64_t after) {
  InputCheck check("pad", std::span(&x.spec(), 1), {"x"});
  SliceParams params = whole(check, x.shape(), axis);
  if (before < 0 || after < 0)
    check.fail(fmt::format("counts of zeros must be >= 0, but are {} and {}", before, after));
  params.begin[axis] = -before;
  params.size[axis] += before + after;
  return slice(x, params);
}

Tensor shortcut(const Tensor& x, const ShortcutParams& params) {
  InputCheck check("shortcut", std::span(&x.spec(), 1), {"x"});
  check.floats();
  check.rank(0, 4);
  const Shape& s = x.shape();
  const int64_t stride = params.stride, missing = params.channels - s[3];
  if (stride < 1) check.fail(fmt::format("stride must be at least 1, but is {}", stride));
  if (missing < 0)
    check.fail(fmt::format("y must not have fewer channels than x, but has {}", params.channels));
  return slice(x, {.begin = {0, 0, 0, -(missing / 2)},
                   .step = {1, stride, stride, 1},
                   .size = {s[0], (s[1] + stride - 1) / stride, (s[2] + stride - 1) / stride,
                            params.channels}});
}

}  // namespace tessera
