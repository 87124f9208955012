#include "tessera/layers/ops/pool2d_cpu.h"

#include <algorithm>

#include "tessera/engine/pointwise_run.h"
#include "tessera/layers/ops/pool2d_simd.h"
#include "tessera/layers/shared/channel_reduce_simd.h"
#include "tessera/runtime/integers.h"

namespace tessera {
namespace {

constexpr int64_t kTaskElements = 4096;  // enough for an epilogue's loops, few enough for L1

template <class T>
const PoolMicrokernelsOf<T>& pool_microkernels_of() {
  return microkernels_for<T>(TESSERA_SELECT_MICROKERNELS(pool_microkernels));
}

PoolRow pool_row(const PoolShape& s, PoolRange rows, int64_t first_row, int64_t behind) {
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

template <class S>
constexpr bool kHalf = is_half(dtype_of<S>);

// Elements as the numbers that are computed with: where they are, or converted to `strip`.
template <class S>
const Computed<S>* read(const S* x, [[maybe_unused]] int64_t count,
                        [[maybe_unused]] Computed<S>* strip) {
  if constexpr (kHalf<S>) {
    widen_half(dtype_of<S>, x, 0, count, strip);
    return strip;
  } else {
    return x;
  }
}

// The place to which `count` elements of a result are computed; write() takes them to `to`.
template <class S>
Computed<S>* own_or_strip([[maybe_unused]] S* to, [[maybe_unused]] Computed<S>* strip) {
  if constexpr (kHalf<S>)
    return strip;
  else
    return to;
}
template <class S>
void write([[maybe_unused]] const Computed<S>* from, [[maybe_unused]] int64_t count,
           [[maybe_unused]] S* to) {
  if constexpr (kHalf<S>) narrow_to_half(dtype_of<S>, from, count, to);
}

constexpr int64_t kRowsTogether = 2;  // rows of y per task, which share rows of x in scratch

// The rows of x for `rows` rows of y.
int64_t rows_of_x(const PoolShape& s, int64_t rows) {
  return std::min(s.h, (rows - 1) * s.stride_h + s.kernel_h);
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
  // The most rows of windows that contain the rows of a task.
  int64_t windows(const PoolShape& s) const {
    const int64_t under = (rows - 1) / s.stride_h + ceil_div(s.kernel_h, s.stride_h) + 1;
    return images > 1 ? images * s.out_h() : std::min(s.out_h(), under);
  }
  int64_t images, rows, parts, count;
};

}  // namespace

int64_t pool2d_scratch(PoolPass pass, const PoolShape& s, bool half, bool computed, int threads) {
  const int64_t x = s.w * s.c, y = s.out_w() * s.c;
  if (pass == PoolPass::max && (half || computed))
    return threads * (rows_of_x(s, kRowsTogether) * x + (half ? y : 0));
  if (!half) return 0;
  const GradTasks tasks(s);
  switch (pass) {
    case PoolPass::average:
      return threads * (rows_of_x(s, 1) * x + y);
    case PoolPass::max_grad:
      return threads * (tasks.windows(s) * y + tasks.images * tasks.rows * x);
    default:
      return threads * (std::min(s.out_h(), s.kernel_h) * y + x);
  }
}

template <class S>
void max_pool2d(ThreadPool& pool, const PoolShape& s, const S* x,
                const Prologue<Computed<S>>& computed, S* y, uint8_t* positions,
                Computed<S>* scratch) {
  using T = Computed<S>;
  const bool strips = kHalf<S> || computed.read != nullptr;
  const int64_t out_h = s.out_h(), length = s.w * s.c, out_length = s.out_w() * s.c;
  const int64_t together = strips ? kRowsTogether : 1, tasks = ceil_div(out_h, together);
  const int64_t strip_elements = rows_of_x(s, together) * length;
  pool.parallel_for_thread(s.n * tasks, s.n * s.h * length, [&](int64_t task, int thread) {
    const int64_t b = task / tasks, first = task % tasks * together;
    const int64_t last = std::min(first + together, out_h);
    const int64_t top = s.rows_under(first).begin, bottom = s.rows_under(last - 1).end;
    T* const strip = scratch + thread * (strip_elements + (kHalf<S> ? out_length : 0));
    const int64_t from = (b * s.h + top) * length, count = (bottom - top) * length;
    const T* rows = strip;
    if (computed.read)
      computed.read(computed.context, strip, from, count);
    else
      rows = read(x + from, count, strip);
    for (int64_t i = first; i < last; ++i) {
      const PoolRange u = s.rows_under(i);
      const int64_t end = strips ? bottom : (s.n - b) * s.h;
      const PoolRow row =
          pool_row(s, u, u.begin - (i * s.stride_h - s.pad_h), (end - u.end) * length);
      const int64_t to = (b * out_h + i) * out_length;
      T* const maxima = own_or_strip(y + to, strip + strip_elements);
      pool_microkernels_of<T>().max_row(rows + (u.begin - top) * length, row, maxima,
                                        positions ? positions + to : nullptr);
      write(maxima, out_length, y + to);
    }
  });
}

// Gathers each row of dx from the windows that contain it, so no two threads write one element.
template <class S>
void max_pool2d_grad(ThreadPool& pool, const PoolShape& s, const S* dy, const uint8_t* positions,
                     S* dx, const Epilogue<Computed<S>>& epilogue, Computed<S>* scratch) {
  using T = Computed<S>;
  const GradTasks tasks(s);
  const int64_t out_h = s.out_h(), length = s.w * s.c, out_length = s.out_w() * s.c;
  const int64_t dy_elements = tasks.windows(s) * out_length;
  const int64_t own = dy_elements + tasks.images * tasks.rows * length;
  pool.parallel_for_thread(tasks.count, s.n * s.h * length, [&](int64_t task, int thread) {
    const int64_t image = task / tasks.parts * tasks.images, row = task % tasks.parts * tasks.rows;
    const int64_t images = std::min(tasks.images, s.n - image);
    const int64_t rows = std::min(tasks.rows, s.h - row);
    const int64_t top = image * out_h + s.rows_over(row).begin;
    const int64_t bottom = (image + images - 1) * out_h + s.rows_over(row + rows - 1).end;
    T* const strip = kHalf<S> ? scratch + thread * own : nullptr;
    const int64_t windows = std::max<int64_t>(0, bottom - top);
    const T* const gradients = read(dy + top * out_length, windows * out_length, strip);
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
    if (epilogue.apply) epilogue.apply(epilogue.context, to, first, count);
  });
}

template <class S>
void average_pool2d(ThreadPool& pool, const PoolShape& s, const S* x, S* y, Computed<S>* scratch) {
  using T = Computed<S>;
  const int64_t out_h = s.out_h(), out_w = s.out_w(), length = s.w * s.c;
  const int64_t strip_elements = rows_of_x(s, 1) * length;
  pool.parallel_for_thread(s.n * out_h, s.n * s.h * length, [&](int64_t row, int thread) {
    const int64_t b = row / out_h, i = row % out_h;
    const PoolRange u = s.rows_under(i);
    T* const strip = kHalf<S> ? scratch + thread * (strip_elements + out_w * s.c) : nullptr;
    const T* const rows = read(x + (b * s.h + u.begin) * length,
                               std::max<int64_t>(0, u.end - u.begin) * length, strip);
    T* const means = own_or_strip(y + row * out_w * s.c, strip + strip_elements);
    std::fill_n(means, out_w * s.c, T(0));
    for (int64_t j = 0; j < out_w; ++j) {
      const PoolRange v = s.columns_under(j);
      T* to = means + j * s.c;
      for (int64_t p = u.begin; p < u.end; ++p)
        for (int64_t q = v.begin; q < v.end; ++q)
          pool_microkernels_of<T>().add_quotient(rows + (p - u.begin) * length + q * s.c, T(1), s.c,
                                                 to);
      pool_microkernels_of<T>().divide(to, static_cast<T>(s.divisor(u, v, i, j)), s.c, to);
    }
    write(means, out_w * s.c, y + row * out_w * s.c);
  });
}

template <class S>
void average_pool2d_grad(ThreadPool& pool, const PoolShape& s, const S* dy, S* dx,
                         Computed<S>* scratch) {
  using T = Computed<S>;
  const int64_t out_h = s.out_h(), out_w = s.out_w(), length = s.w * s.c;
  const int64_t dy_elements = std::min(out_h, s.kernel_h) * out_w * s.c;
  pool.parallel_for_thread(s.n * s.h, s.n * s.h * length, [&](int64_t row, int thread) {
    const int64_t b = row / s.h, i = row % s.h;
    const PoolRange over = s.rows_over(i);
    T* const strip = kHalf<S> ? scratch + thread * (dy_elements + length) : nullptr;
    const T* const gradients =
        read(dy + (b * out_h + over.begin) * out_w * s.c,
             std::max<int64_t>(0, over.end - over.begin) * out_w * s.c, strip);
    T* const to = own_or_strip(dx + row * length, strip + dy_elements);
    std::fill_n(to, length, T(0));
    for (int64_t p = over.begin; p < over.end; ++p) {
      const PoolRange u = s.rows_under(p);
      for (int64_t q = 0; q < out_w; ++q) {
        const PoolRange v = s.columns_under(q);
        const T pixels = static_cast<T>(s.divisor(u, v, p, q));
        for (int64_t j = v.begin; j < v.end; ++j)
          pool_microkernels_of<T>().add_quotient(gradients + ((p - over.begin) * out_w + q) * s.c,
                                                 pixels, s.c, to + j * s.c);
      }
    }
    write(to, length, dx + row * length);
  });
}

template <class S>
void global_average_pool(ThreadPool& pool, const PoolShape& s, const S* x, S* y,
                         Computed<S>* scratch) {
  using T = Computed<S>;
  const auto& channels = microkernels_for<T>(TESSERA_SELECT_MICROKERNELS(channel_microkernels));
  const int64_t pixels = s.h * s.w, image = pixels * s.c;
  pool.parallel_for_thread(s.n, s.n * image, [&](int64_t b, int thread) {
    T* const strip = kHalf<S> ? scratch + thread * (image + s.c) : nullptr;
    T* const means = own_or_strip(y + b * s.c, strip + image);
    channels.sum(read(x + b * image, image, strip), pixels, s.c, s.c, means);
    pool_microkernels_of<T>().divide(means, static_cast<T>(pixels), s.c, means);
    write(means, s.c, y + b * s.c);
  });
}

template <class S>
void global_average_pool_grad(ThreadPool& pool, const PoolShape& s, const S* dy, S* dx,
                              Computed<S>* scratch) {
  using T = Computed<S>;
  const int64_t pixels = s.h * s.w, c = s.c;
  pool.parallel_for_thread(s.n, s.n * pixels * c, [&](int64_t b, int thread) {
    T* const strip = kHalf<S> ? scratch + thread * 2 * c : nullptr;
    S* const first = dx + b * pixels * c;
    T* const quotients = own_or_strip(first, strip + c);
    pool_microkernels_of<T>().divide(read(dy + b * c, c, strip), static_cast<T>(pixels), c,
                                     quotients);
    write(quotients, c, first);
    for (int64_t i = 1; i < pixels; ++i) std::copy_n(first, c, first + i * c);
  });
}

#define TESSERA_POOL(S)                                                                           \
  template void max_pool2d(ThreadPool&, const PoolShape&, const S*, const Prologue<Computed<S>>&, \
                           S*, uint8_t*, Computed<S>*);                                           \
  template void max_pool2d_grad(ThreadPool&, const PoolShape&, const S*, const uint8_t*, S*,      \
                                const Epilogue<Computed<S>>&, Computed<S>*);                      \
  template void average_pool2d(ThreadPool&, const PoolShape&, const S*, S*, Computed<S>*);        \
  template void average_pool2d_grad(ThreadPool&, const PoolShape&, const S*, S*, Computed<S>*);   \
  template void global_average_pool(ThreadPool&, const PoolShape&, const S*, S*, Computed<S>*);   \
  template void global_average_pool_grad(ThreadPool&, const PoolShape&, const S*, S*, Computed<S>*);
TESSERA_POOL(float)
TESSERA_POOL(double)
TESSERA_POOL(bfloat16)
TESSERA_POOL(float16)
#undef TESSERA_POOL

}  // namespace tessera
