#include "tessera/layers/ops/pool2d_cpu.h"

#include <algorithm>

#include "tessera/layers/ops/pool2d_simd.h"
#include "tessera/layers/shared/channel_reduce_simd.h"

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

}  // namespace

template <class T>
void max_pool2d(ThreadPool& pool, const PoolShape& s, const T* x, T* y, uint8_t* positions) {
  const int64_t out_h = s.out_h(), out_w = s.out_w();
  pool.parallel_for(s.n * out_h, s.n * s.h * s.w * s.c, [&](int64_t task) {
    const int64_t b = task / out_h, i = task % out_h, to = task * out_w * s.c;
    const PoolRange u = s.rows_under(i);
    const int64_t behind = ((s.n - b) * s.h - u.end) * s.w * s.c;
    const PoolRow row = pool_row(s, u, u.begin - (i * s.stride_h - s.pad_h), behind);
    pool_microkernels_of<T>().max_row(x + (b * s.h + u.begin) * s.w * s.c, row, y + to,
                                      positions ? positions + to : nullptr);
  });
}

namespace {

constexpr int64_t kRowsTogether = 2;  // rows of y per task, which share computed rows of x

int64_t strip_elements(const PoolShape& s) {
  return std::min(s.h, (kRowsTogether - 1) * s.stride_h + s.kernel_h) * s.w * s.c;
}

}  // namespace

int64_t max_pool2d_scratch(const PoolShape& shape, int threads) {
  return threads * strip_elements(shape);
}

template <class T>
void max_pool2d(ThreadPool& pool, const PoolShape& s, const Prologue<T>& x, T* y,
                uint8_t* positions, T* scratch) {
  const int64_t out_h = s.out_h(), out_w = s.out_w(), length = s.w * s.c;
  const int64_t strips = (out_h + kRowsTogether - 1) / kRowsTogether;
  pool.parallel_for_thread(s.n * strips, s.n * s.h * length, [&](int64_t task, int thread) {
    const int64_t b = task / strips, first = task % strips * kRowsTogether;
    const int64_t last = std::min(first + kRowsTogether, out_h);
    const int64_t top = s.rows_under(first).begin, bottom = s.rows_under(last - 1).end;
    T* strip = scratch + thread * strip_elements(s);
    x.read(x.context, strip, (b * s.h + top) * length, (bottom - top) * length);
    for (int64_t i = first; i < last; ++i) {
      const PoolRange u = s.rows_under(i);
      const PoolRow row =
          pool_row(s, u, u.begin - (i * s.stride_h - s.pad_h), (bottom - u.end) * length);
      const int64_t to = (b * out_h + i) * out_w * s.c;
      pool_microkernels_of<T>().max_row(strip + (u.begin - top) * length, row, y + to,
                                        positions ? positions + to : nullptr);
    }
  });
}

// Gathers each row of dx from the windows that contain it, so no two threads write one element.
template <class T>
void max_pool2d_grad(ThreadPool& pool, const PoolShape& s, const T* dy, const uint8_t* positions,
                     T* dx, const Epilogue<T>* epilogue) {
  const int64_t out_h = s.out_h(), out_w = s.out_w(), length = s.w * s.c;
  const int64_t rows_per_task = std::max<int64_t>(1, kTaskElements / std::max<int64_t>(1, length));
  const int64_t tasks = (s.n * s.h + rows_per_task - 1) / rows_per_task;
  pool.parallel_for(tasks, s.n * s.h * length, [&](int64_t task) {
    const int64_t first = task * rows_per_task, last = std::min(first + rows_per_task, s.n * s.h);
    for (int64_t line = first; line < last; ++line) {
      const int64_t b = line / s.h, i = line % s.h;
      const PoolRange u = s.rows_over(i);
      const int64_t behind = ((s.n - b) * out_h - u.end) * out_w * s.c;
      const PoolRow row = pool_row(s, u, i + s.pad_h - u.begin * s.stride_h, behind);
      const int64_t from = (b * out_h + u.begin) * out_w * s.c;
      pool_microkernels_of<T>().max_row_grad(dy + from, positions + from, row, s.stride_h,
                                             dx + line * length);
    }
    if (epilogue && epilogue->apply)
      epilogue->apply(epilogue->context, dx + first * length, first * length,
                      (last - first) * length);
  });
}

template <class T>
void average_pool2d(ThreadPool& pool, const PoolShape& s, const T* x, T* y) {
  const int64_t out_h = s.out_h(), out_w = s.out_w();
  pool.parallel_for(s.n * out_h, s.n * s.h * s.w * s.c, [&](int64_t row) {
    const int64_t b = row / out_h, i = row % out_h;
    const PoolRange u = s.rows_under(i);
    std::fill_n(y + row * out_w * s.c, out_w * s.c, T(0));
    for (int64_t j = 0; j < out_w; ++j) {
      const PoolRange v = s.columns_under(j);
      T* to = y + (row * out_w + j) * s.c;
      for (int64_t p = u.begin; p < u.end; ++p)
        for (int64_t q = v.begin; q < v.end; ++q)
          pool_microkernels_of<T>().add_quotient(x + ((b * s.h + p) * s.w + q) * s.c, T(1), s.c,
                                                 to);
      pool_microkernels_of<T>().divide(to, static_cast<T>(s.divisor(u, v, i, j)), s.c, to);
    }
  });
}

template <class T>
void average_pool2d_grad(ThreadPool& pool, const PoolShape& s, const T* dy, T* dx) {
  const int64_t out_h = s.out_h(), out_w = s.out_w();
  pool.parallel_for(s.n * s.h, s.n * s.h * s.w * s.c, [&](int64_t row) {
    const int64_t b = row / s.h, i = row % s.h;
    const PoolRange rows = s.rows_over(i);
    T* to = dx + row * s.w * s.c;
    std::fill_n(to, s.w * s.c, T(0));
    for (int64_t p = rows.begin; p < rows.end; ++p) {
      const PoolRange u = s.rows_under(p);
      for (int64_t q = 0; q < out_w; ++q) {
        const PoolRange v = s.columns_under(q);
        const T pixels = static_cast<T>(s.divisor(u, v, p, q));
        for (int64_t j = v.begin; j < v.end; ++j)
          pool_microkernels_of<T>().add_quotient(dy + ((b * out_h + p) * out_w + q) * s.c, pixels,
                                                 s.c, to + j * s.c);
      }
    }
  });
}

template <class T>
void global_average_pool(ThreadPool& pool, int64_t n, int64_t pixels, int64_t c, const T* x, T* y) {
  const auto& channels = microkernels_for<T>(TESSERA_SELECT_MICROKERNELS(channel_microkernels));
  pool.parallel_for(n, n * pixels * c, [&](int64_t b) {
    channels.sum(x + b * pixels * c, pixels, c, c, y + b * c);
    pool_microkernels_of<T>().divide(y + b * c, static_cast<T>(pixels), c, y + b * c);
  });
}

template <class T>
void global_average_pool_grad(ThreadPool& pool, int64_t n, int64_t pixels, int64_t c, const T* dy,
                              T* dx) {
  pool.parallel_for(n, n * pixels * c, [&](int64_t b) {
    T* first = dx + b * pixels * c;
    pool_microkernels_of<T>().divide(dy + b * c, static_cast<T>(pixels), c, first);
    for (int64_t i = 1; i < pixels; ++i) std::copy_n(first, c, first + i * c);
  });
}

#define TESSERA_POOL(T)                                                                          \
  template void max_pool2d(ThreadPool&, const PoolShape&, const T*, T*, uint8_t*);               \
  template void max_pool2d(ThreadPool&, const PoolShape&, const Prologue<T>&, T*, uint8_t*, T*); \
  template void max_pool2d_grad(ThreadPool&, const PoolShape&, const T*, const uint8_t*, T*,     \
                                const Epilogue<T>*);                                             \
  template void average_pool2d(ThreadPool&, const PoolShape&, const T*, T*);                     \
  template void average_pool2d_grad(ThreadPool&, const PoolShape&, const T*, T*);                \
  template void global_average_pool(ThreadPool&, int64_t, int64_t, int64_t, const T*, T*);       \
  template void global_average_pool_grad(ThreadPool&, int64_t, int64_t, int64_t, const T*, T*);
TESSERA_POOL(float)
TESSERA_POOL(double)
#undef TESSERA_POOL

}  // namespace tessera
