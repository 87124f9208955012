// Pooling on the CPU over raw memory, float and double. The tensors are those of pool2d.h;
// positions are counted in a window row by row. Results do not depend on the number of threads.
#pragma once

#include <cstdint>

#include "tessera/layers/shared/epilogue_hook.h"
#include "tessera/runtime/thread_pool.h"

namespace tessera {

struct PoolShape {
  int64_t n = 1, h = 1, w = 1, c = 1;  // of x
  int64_t kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0;
  bool count_include_pad = true;
  int64_t out_h() const { return (h + 2 * pad_h - kernel_h) / stride_h + 1; }
  int64_t out_w() const { return (w + 2 * pad_w - kernel_w) / stride_w + 1; }
};

// positions may be null.
template <class T>
void max_pool2d(ThreadPool& pool, const PoolShape& shape, const T* x, T* y, uint8_t* positions);
template <class T>
void max_pool2d_grad(ThreadPool& pool, const PoolShape& shape, const T* dy,
                     const uint8_t* positions, T* dx, const Epilogue<T>* epilogue = nullptr);

template <class T>
void average_pool2d(ThreadPool& pool, const PoolShape& shape, const T* x, T* y);
template <class T>
void average_pool2d_grad(ThreadPool& pool, const PoolShape& shape, const T* dy, T* dx);

// x [n, pixels, c], y [n, c]
template <class T>
void global_average_pool(ThreadPool& pool, int64_t n, int64_t pixels, int64_t c, const T* x, T* y);
template <class T>
void global_average_pool_grad(ThreadPool& pool, int64_t n, int64_t pixels, int64_t c, const T* dy,
                              T* dx);

}  // namespace tessera
