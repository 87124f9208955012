// Convolutions by plain loops, for what cuDNN has no plan for: float64, and what is not aligned.
// Sums run in an order that follows from the shape alone. For files of the GPU back end only.
#pragma once

#include "tessera/layers/conv2d/cuda/request.h"

namespace tessera {

// For the weight gradient, whose sums are cut in parts: a part of every weight stands there.
size_t direct_conv_scratch(const ConvRequest& request);

// Issues the pass on the stream of `where`. a and b are the inputs as ConvPass lists them; scratch
// is aligned to 16 bytes and holds direct_conv_scratch() of them.
void direct_conv(const ConvRequest& request, CudaContext& where, const void* a, const void* b,
                 void* out, void* scratch);

}  // namespace tessera
