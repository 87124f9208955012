// Native depthwise convolutions with 3x3 filters, stride 1 or 2 and no dilation. What they take is
// the time to read and write images, so nothing is copied: rows are read where they lie, each into
// the first-level cache once for two rows of outputs.
#pragma once

#include "tessera/layers/conv2d_cpu/convolution.h"

namespace tessera {

bool depthwise3x3_applies(const ConvShape& shape);

template <class T>
size_t depthwise3x3_scratch(ConvPass pass, const ConvShape& shape);
template <class T>
std::unique_ptr<Convolution<T>> make_depthwise3x3(ConvPass pass, const ConvShape& shape);

}  // namespace tessera
