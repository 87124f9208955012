// Convolutions on the CPU over raw memory: the product itself and its two gradients, for float and
// double. Activations are NHWC, filters OHWI, both dense:
//
//   x [n, h, w, c]   f [o, kh, kw, c/groups]   y [n, out_h, out_w, o]
//   y[b,i,j,q] = sum over u, v, k of x[b, i*stride_h - pad_h + u*dilation_h,
//                                      j*stride_w - pad_w + v*dilation_w, k] * f[q,u,v,k]
//
// k runs over the channels of q's group, and x is zero outside the image. No matrix of all patches
// is ever made: a block of input rows is padded into scratch and read where it lies.
//
// Nothing is allocated: all temporary memory is `scratch`, 64-byte aligned, of the size that the
// function of the same name with _scratch gives for the pool's size. Results depend on the shape
// and the instruction set alone, never on the number of threads. One caller per pool and scratch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tessera/layers/shared/epilogue_hook.h"
#include "tessera/runtime/thread_pool.h"

namespace tessera {

struct ConvShape {
  int64_t n = 1, h = 1, w = 1, c = 1;      // input: images, rows, columns, channels
  int64_t o = 1, kh = 1, kw = 1;           // filters and their size; groups divides c and o
  int64_t stride_h = 1, stride_w = 1;      // >= 1
  int64_t pad_h = 0, pad_w = 0;            // zeros on either side, >= 0
  int64_t dilation_h = 1, dilation_w = 1;  // distance between taps, >= 1
  int64_t groups = 1;

  int64_t out_h() const { return (h + 2 * pad_h - dilation_h * (kh - 1) - 1) / stride_h + 1; }
  int64_t out_w() const { return (w + 2 * pad_w - dilation_w * (kw - 1) - 1) / stride_w + 1; }
  bool operator==(const ConvShape&) const = default;
};

// Bytes of scratch; `element` is sizeof(float) or sizeof(double), `threads` the size of the pool.
size_t conv2d_scratch(const ConvShape& shape, size_t element, int threads);
size_t conv2d_input_grad_scratch(const ConvShape& shape, size_t element, int threads);
size_t conv2d_weight_grad_scratch(const ConvShape& shape, size_t element, int threads);

// y = x * w
template <class T>
void conv2d(ThreadPool& pool, const ConvShape& shape, const T* x, const T* w, T* y, void* scratch,
            const Epilogue<T>* epilogue = nullptr);

// dx = the gradient of sum(y * dy) with respect to x; the epilogue sees dx
template <class T>
void conv2d_input_grad(ThreadPool& pool, const ConvShape& shape, const T* dy, const T* w, T* dx,
                       void* scratch, const Epilogue<T>* epilogue = nullptr);

// dw = the gradient of sum(y * dy) with respect to the filters
template <class T>
void conv2d_weight_grad(ThreadPool& pool, const ConvShape& shape, const T* x, const T* dy, T* dw,
                        void* scratch);

}  // namespace tessera
