// The native gradient of a convolution with respect to its filters.
#pragma once

#include "tessera/layers/conv2d_cpu/convolution.h"

namespace tessera {

template <class T>
size_t weight_grad_scratch(const ConvShape& shape, int threads);
template <class T>
std::unique_ptr<Convolution<T>> make_weight_grad(const ConvShape& shape);

}  // namespace tessera
