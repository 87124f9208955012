// Pooling on the CPU over raw memory, float and double. Tensors are as in pool2d.h; positions count
// the pixels of a window row by row. Results do not depend on the number of threads.
#pragma once

#include <cstdint>

#include "tessera/layers/shared/epilogue_hook.h"
#include "tessera/layers/shared/pool_windows.h"
#include "tessera/runtime/thread_pool.h"

namespace tessera {

// `positions` may be null.
template <class T>
void max_pool2d(ThreadPool& pool, const PoolShape& shape, const T* x, T* y, uint8_t* positions);
// Computes x as it is read, into `scratch` of max_pool2d_scratch() elements.
template <class T>
void max_pool2d(ThreadPool& pool, const PoolShape& shape, const Prologue<T>& x, T* y,
                uint8_t* positions, T* scratch);
int64_t max_pool2d_scratch(const PoolShape& shape, int threads);
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
