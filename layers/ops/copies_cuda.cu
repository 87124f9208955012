// concat, slice and flip_left_right on a GPU. They copy elements of any dtype. A thread of concat
// and slice copies one unit of the result: the most bytes that sizes and addresses allow.
#include <cstdlib>
#include <numeric>

#include "tessera/layers/shared/kernels_cuda.h"
#include "tessera/runtime/cuda/check.h"
#include "tessera/runtime/cuda/context.h"
#include "tessera/runtime/cuda/device_code.h"

namespace tessera {
namespace {

using Unit16 = Pack<uint32_t, 4>;

// Returns the largest of 16, 8, 4, 2 and 1 bytes that divides all sizes and addresses.
int64_t largest_unit(std::initializer_list<int64_t> bytes, std::initializer_list<void*> at) {
  int64_t unit = 16;
  for (const int64_t size : bytes) unit = std::gcd(unit, size);
  for (const void* address : at)
    unit = std::gcd(unit, static_cast<int64_t>(reinterpret_cast<uintptr_t>(address) % 16));
  return unit;
}

// Calls run(Unit()) with a type of `bytes`, a result of largest_unit().
template <class Run>
void with_unit(int64_t bytes, Run&& run) {
  if (bytes == 16) return run(Unit16{});
  if (bytes == 8) return run(uint64_t{});
  if (bytes == 4) return run(uint32_t{});
  if (bytes == 2) return run(uint16_t{});
  run(uint8_t{});
}

// A row of the result: input k is at [begin[k], begin[k + 1]), in units.
template <class Unit, class I>
struct Parts {
  const Unit* from[kMaxConcat];
  I begin[kMaxConcat + 1];
  int count;
};

template <class Unit, class I>
__global__ void __launch_bounds__(kThreads)
    put_side_by_side(const __grid_constant__ Parts<Unit, I> parts, int64_t total, Unit* y) {
  const I width = parts.begin[parts.count];
  for (int64_t i = first_index(); i < total; i += index_stride()) {
    const I row = static_cast<I>(i) / width, at = static_cast<I>(i) - row * width;
    int k = 0;
    while (at >= parts.begin[k + 1]) ++k;
    const I begin = parts.begin[k];
    y[i] = parts.from[k][row * (parts.begin[k + 1] - begin) + at - begin];
  }
}

// One axis of the box: element i < size is element begin + i step of x, if x has it.
template <class I>
struct BoxAxis {
  I begin, step, size, x_size;
};

template <class I>
struct UnitBox {
  BoxAxis<I> axes[kMaxRank];
  int rank;
};

template <class Unit, class I>
__global__ void __launch_bounds__(kThreads)
    read_box(const __grid_constant__ UnitBox<I> box, int64_t total, const Unit* x, Unit* y) {
  for (int64_t i = first_index(); i < total; i += index_stride()) {
    I rest = static_cast<I>(i), from = 0, stride = 1;
    bool inside = true;
    for (int axis = box.rank - 1; axis >= 0; --axis) {
      const BoxAxis<I>& a = box.axes[axis];
      const I left = axis == 0 ? 0 : rest / a.size, at = a.begin + (rest - left * a.size) * a.step;
      inside = inside && at >= 0 && at < a.x_size;
      from += at * stride;
      stride *= a.x_size;
      rest = left;
    }
    y[i] = inside ? x[from] : Unit{};
  }
}

template <class Unit, class I>
__global__ void __launch_bounds__(kThreads)
    write_box(const __grid_constant__ UnitBox<I> box, int64_t total, const Unit* dy, Unit* dx) {
  for (int64_t i = first_index(); i < total; i += index_stride()) {
    I rest = static_cast<I>(i), from = 0, stride = 1;
    bool inside = true;
    for (int axis = box.rank - 1; axis >= 0; --axis) {
      const BoxAxis<I>& a = box.axes[axis];
      const I left = axis == 0 ? 0 : rest / a.x_size;
      const I distance = rest - left * a.x_size - a.begin;
      const I at = a.step == 1 ? distance : distance / a.step;
      inside = inside && distance >= 0 && at * a.step == distance && at < a.size;
      from += at * stride;
      stride *= a.size;
      rest = left;
    }
    dx[i] = inside ? dy[from] : Unit{};
  }
}

// Returns the box with the fewest axes: merges an axis that is whole with the one before it.
UnitBox<int64_t> joined(const SliceParams& box, const Shape& x) {
  UnitBox<int64_t> out{};
  for (int axis = 0; axis < x.rank(); ++axis) {
    const auto k = static_cast<size_t>(axis);
    const BoxAxis<int64_t> next{box.begin[k], box.step[k], box.size[axis], x[axis]};
    const bool whole = next.begin == 0 && next.step == 1 && next.size == next.x_size;
    if (whole && out.rank > 0 && out.axes[out.rank - 1].step == 1) {
      BoxAxis<int64_t>& last = out.axes[out.rank - 1];
      last = {last.begin * next.size, 1, last.size * next.size, last.x_size * next.size};
    } else {
      out.axes[out.rank++] = next;
    }
  }
  if (out.rank == 0) out.axes[out.rank++] = {0, 1, 1, 1};  // a scalar
  return out;
}

template <class I>
UnitBox<I> counted_in(const UnitBox<int64_t>& box) {
  const auto in = [](int64_t size) { return static_cast<I>(size); };
  UnitBox<I> out{};
  out.rank = box.rank;
  for (int k = 0; k < box.rank; ++k) {
    const BoxAxis<int64_t>& a = box.axes[k];
    out.axes[k] = {in(a.begin), in(a.step), in(a.size), in(a.x_size)};
  }
  return out;
}

// Calls run(Unit(), box counted in units, units of `to`) for the largest units of the last axis of
// the box, or of x for its gradient, unless `to` is empty.
template <class Run>
void with_box(CudaContext& ctx, const SliceParams& params, const Shape& x, const Buffer& from,
              const Buffer& to, Run&& run) {
  if (to.elements() == 0) return;
  CudaDeviceGuard guard(ctx.index());
  UnitBox<int64_t> box = joined(params, x);
  BoxAxis<int64_t>& last = box.axes[box.rank - 1];
  const auto size = static_cast<int64_t>(size_of(to.spec.dtype));
  const int64_t unit = last.step != 1
                           ? size
                           : largest_unit({last.begin * size, last.size * size, last.x_size * size},
                                          {from.data, to.data});
  if (last.step == 1)
    last = {last.begin * size / unit, 1, last.size * size / unit, last.x_size * size / unit};
  // Counts elements outside of x too, because the kernel computes their indices as well.
  int64_t largest = 1;
  for (int k = 0; k < box.rank; ++k) {
    const BoxAxis<int64_t>& a = box.axes[k];
    largest *= std::abs(a.begin) + a.size * a.step + a.x_size + 1;
    if (largest >= int64_t{1} << 31) break;
  }
  with_unit(unit, [&](auto one) {
    with_index(largest,
               [&]<class I>(I) { run(one, counted_in<I>(box), to.elements() * size / unit); });
  });
}

__global__ void __launch_bounds__(kThreads)
    flip_left_right(const uint8_t* x, uint8_t* y, int64_t total, int width, int channels) {
  for (int64_t i = first_index(); i < total; i += index_stride()) {
    const int64_t pixel = quotient(i, channels), row = quotient(pixel, width);
    const int64_t c = i - pixel * channels, column = pixel - row * width;
    y[i] = x[(row * width + width - 1 - column) * channels + c];
  }
}

}  // namespace

void concat_cuda(CudaContext& ctx, int64_t outer, Buffers in, const Buffer& y) {
  if (y.elements() == 0) return;
  CudaDeviceGuard guard(ctx.index());
  int64_t unit = largest_unit({}, {y.data});
  for (const Buffer& x : in)
    if (x.elements() != 0)
      unit = std::gcd(unit, largest_unit({static_cast<int64_t>(x.spec.bytes()) / outer}, {x.data}));
  const int64_t total = static_cast<int64_t>(y.spec.bytes()) / unit;
  with_unit(unit, [&]<class Unit>(Unit) {
    with_index(total, [&]<class I>(I) {
      Parts<Unit, I> parts{};
      for (const Buffer& x : in) {
        if (x.elements() == 0) continue;
        parts.from[parts.count] = x.as<const Unit>();
        const int64_t width = static_cast<int64_t>(x.spec.bytes()) / outer / unit;
        parts.begin[parts.count + 1] = static_cast<I>(parts.begin[parts.count] + width);
        ++parts.count;
      }
      launch("concat", put_side_by_side<Unit, I>, grid_for(total, kThreads, 1 << 20), kThreads, 0,
             ctx.cuda_stream(), parts, total, y.as<Unit>());
    });
  });
}

void slice_cuda(CudaContext& ctx, const SliceParams& params, const Buffer& x, const Buffer& y) {
  with_box(ctx, params, x.spec.shape, x, y,
           [&]<class Unit, class I>(Unit, const UnitBox<I>& box, int64_t total) {
             launch("slice", read_box<Unit, I>, grid_for(total, kThreads, 1 << 20), kThreads, 0,
                    ctx.cuda_stream(), box, total, x.as<const Unit>(), y.as<Unit>());
           });
}

void slice_grad_cuda(CudaContext& ctx, const SliceParams& params, const Buffer& dy,
                     const Buffer& dx) {
  with_box(ctx, params, dx.spec.shape, dy, dx,
           [&]<class Unit, class I>(Unit, const UnitBox<I>& box, int64_t total) {
             launch("slice_grad", write_box<Unit, I>, grid_for(total, kThreads, 1 << 20), kThreads,
                    0, ctx.cuda_stream(), box, total, dy.as<const Unit>(), dx.as<Unit>());
           });
}

void flip_left_right_cuda(CudaContext& ctx, const Buffer& x, const Buffer& y) {
  const int64_t total = x.elements();
  if (total == 0) return;
  CudaDeviceGuard guard(ctx.index());
  const Shape& shape = x.spec.shape;
  launch("flip_left_right", flip_left_right, grid_for(total, kThreads, 1 << 16), kThreads, 0,
         ctx.cuda_stream(), x.as<const uint8_t>(), y.as<uint8_t>(), total,
         static_cast<int>(shape[2]), static_cast<int>(shape[3]));
}

}  // namespace tessera
