// slice on a GPU: a thread copies one unit of the result (units_cuda.h).
#include <cstdlib>

#include "tessera/layers/shared/kernels_cuda.h"
#include "tessera/layers/shared/units_cuda.h"
#include "tessera/runtime/cuda/check.h"
#include "tessera/runtime/cuda/context.h"

namespace tessera {
namespace {

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

// Calls run(Unit(), box counted in units, results) for whole units of the last axis.
template <class Run>
void with_box(const SliceParams& params, const Shape& x, size_t element, void* from, void* to,
              int64_t results, Run&& run) {
  UnitBox<int64_t> box = joined(params, x);
  BoxAxis<int64_t>& last = box.axes[box.rank - 1];
  const int64_t size = static_cast<int64_t>(element);
  const int64_t unit =
      last.step != 1
          ? size
          : largest_unit({last.begin * size, last.size * size, last.x_size * size}, {from, to});
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
    with_index(largest, [&](auto index) {
      run(one, counted_in<decltype(index)>(box), results * size / unit);
    });
  });
}

}  // namespace

void slice_cuda(CudaContext& ctx, const SliceParams& params, const Buffer& x, const Buffer& y) {
  if (y.elements() == 0) return;
  CudaDeviceGuard guard(ctx.index());
  const size_t element = size_of(x.spec.dtype);
  with_box(params, x.spec.shape, element, x.data, y.data, y.elements(),
           [&](auto unit, const auto& box, int64_t total) {
             using Unit = decltype(unit);
             using I = decltype(box.axes[0].begin + 0);
             launch("slice", read_box<Unit, I>, grid_for(total, kThreads, 1 << 20), kThreads, 0,
                    ctx.cuda_stream(), box, total, x.as<const Unit>(), y.as<Unit>());
           });
}

void slice_grad_cuda(CudaContext& ctx, const SliceParams& params, const Shape& x, const Buffer& dy,
                     const Buffer& dx) {
  if (dx.elements() == 0) return;
  CudaDeviceGuard guard(ctx.index());
  const size_t element = size_of(dx.spec.dtype);
  with_box(params, x, element, dy.data, dx.data, dx.elements(),
           [&](auto unit, const auto& box, int64_t total) {
             using Unit = decltype(unit);
             using I = decltype(box.axes[0].begin + 0);
             launch("slice_grad", write_box<Unit, I>, grid_for(total, kThreads, 1 << 20), kThreads,
                    0, ctx.cuda_stream(), box, total, dy.as<const Unit>(), dx.as<Unit>());
           });
}

}  // namespace tessera
