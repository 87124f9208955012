// The native convolution and its input gradient (backward). With a prologue every task
// copies what it reads (geometry.h), so that the prologue can make it.
#pragma once

#include "tessera/layers/conv2d_cpu/convolution.h"

namespace tessera {

template <class T>
size_t gather_scratch(const ConvShape& shape, bool backward, ConvForm form, int threads);
template <class T>
std::unique_ptr<Convolution<T>> make_gather(const ConvShape& shape, bool backward, ConvForm form);

}  // namespace tessera
