// Depthwise convolutions (groups == c == o) on Eigen's arrays: nothing but sums of products,
// channel by channel, for a row of pixels and a tap at a time. All three passes are one loop over
// what is multiplied and where it is added.
#pragma once

#include "tessera/layers/conv2d_cpu/eigen_tiling.h"

namespace tessera {

template <class T>
class EigenDepthwise final : public Convolution<T> {
 public:
  EigenDepthwise(ConvPass pass, const ConvShape& shape);
  size_t scratch(int threads) const;
  void run(ThreadPool& pool, const T* a, const T* b, T* out, void* scratch,
           const ConvHooks<T>& hooks) const override;

 private:
  void forward(int64_t begin, int64_t end, const T* x, const T* f, T* y) const;
  void input_grad(int64_t image, int64_t row, int64_t rows, const T* dy, const T* f, T* dx) const;
  void weight_grad(int64_t begin, int64_t end, const T* x, const T* dy, T* df) const;

  const ConvPass pass_;
  const ConvShape s_;
  const int64_t taps_, line_rows_;  // rows of y, over all images, of a task
  const EigenBands bands_;
  const int64_t runs_;
};

}  // namespace tessera
