// What a convolution on a GPU is asked for: one pass for one shape. Needs no CUDA.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "tessera/engine/op.h"
#include "tessera/layers/conv2d/cpu/convolution.h"

namespace tessera {

// What the op asks for with inputs of these specs, if it is a convolution or a gradient of one.
std::optional<ConvRequest> conv_request(const Op& op, std::span<const TensorSpec> in);

// "forward x 32x56x56x64 w 64x3x3x64 stride 1x1 padding 1x1 dilation 1x1 groups 1": all of it but
// dtype and alignment.
std::string conv_text(const ConvRequest& request);

}  // namespace tessera
