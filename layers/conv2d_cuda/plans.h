// Convolutions by cuDNN: which plan computes one pass for one shape on a GPU. For files of the GPU
// back end only.
#pragma once

#include <optional>
#include <string>

#include "tessera/layers/conv2d_cpu/convolution.h"
#include "tessera/runtime/cuda/dnn_plans.h"

namespace tessera {

// A convolution or a gradient of one over dense NHWC images and OHWI filters of float32.
struct ConvRequest {
  ConvPass pass = ConvPass::forward;
  ConvShape shape;
  size_t element = sizeof(float);     // of double there are no plans
  int64_t alignment = kDnnAlignment;  // of the first bytes of inputs and output
};

// The tensors of a graph, by the numbers that it is run with.
enum ConvTensor : int64_t { kConvX = 'x', kConvW = 'w', kConvY = 'y' };

// The request as a finalised graph of one operation; nothing where cuDNN has no such operation.
std::optional<DnnDescriptor> conv_graph(const ConvRequest& request);
// "forward x 32x56x56x64 w 64x3x3x64 stride 1x1 padding 1x1 dilation 1x1 groups 1": what is asked.
std::string conv_text(const ConvRequest& request);

// The plan that is taken under the rules; nothing where there is none, as for float64 and for
// tensors without elements.
std::optional<DnnPlan> conv_plan(const ConvRequest& request, const DeviceFacts& facts,
                                 const DnnRules& rules);

}  // namespace tessera
