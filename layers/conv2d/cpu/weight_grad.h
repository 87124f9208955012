// The direct gradient of a convolution with respect to its filters.
#pragma once

#include "tessera/layers/conv2d/cpu/convolution.h"

namespace tessera {

// Takes a prologue: for 1x1 filters, where tiles of x are copied anyway; each task applies it to
// the channels of each block of pixels that its tiles are of.
bool weight_grad_takes_prologue(const ConvRequest& request);
std::unique_ptr<AnyConvolution> make_weight_grad(const ConvRequest& request, ConvForm form);

}  // namespace tessera
