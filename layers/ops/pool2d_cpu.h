// Pooling on the CPU over raw memory. S is an element type of FloatTypes or HalfTypes: rows of 16
// bits are converted one by one, in scratch. Tensors are as in pool2d.h; positions count the pixels
// of a window row by row. Results do not depend on the number of threads.
#pragma once

#include <cstdint>

#include "tessera/engine/dtype.h"
#include "tessera/layers/shared/epilogue_hook.h"
#include "tessera/layers/shared/pool_windows.h"
#include "tessera/runtime/thread_pool.h"

namespace tessera {

enum class PoolPass { max, max_grad, average, average_grad };
// Returns the elements of scratch, of Computed<S>, for a pool of `threads`. half: S has 16 bits.
// computed: max_pool2d() has a prologue.
int64_t pool2d_scratch(PoolPass pass, const PoolShape& shape, bool half, bool computed,
                       int threads);

// x is read through the prologue if that is set, else in place. `positions` may be null.
template <class S>
void max_pool2d(ThreadPool& pool, const PoolShape& shape, const S* x,
                const Prologue<Computed<S>>& computed, S* y, uint8_t* positions,
                Computed<S>* scratch);
// The epilogue, if set, writes dx; 16 bits need one.
template <class S>
void max_pool2d_grad(ThreadPool& pool, const PoolShape& shape, const S* dy,
                     const uint8_t* positions, S* dx, const Epilogue<Computed<S>>& epilogue,
                     Computed<S>* scratch);

template <class S>
void average_pool2d(ThreadPool& pool, const PoolShape& shape, const S* x, S* y,
                    Computed<S>* scratch);
template <class S>
void average_pool2d_grad(ThreadPool& pool, const PoolShape& shape, const S* dy, S* dx,
                         Computed<S>* scratch);

// One window that covers the whole image. A mean over many pixels has another order of additions
// than average_pool2d().
template <class S>
void global_average_pool(ThreadPool& pool, const PoolShape& shape, const S* x, S* y,
                         Computed<S>* scratch);
template <class S>
void global_average_pool_grad(ThreadPool& pool, const PoolShape& shape, const S* dy, S* dx,
                              Computed<S>* scratch);

}  // namespace tessera
