// Convolutions by cuDNN: which plan computes one pass for one shape on a GPU. For files of the GPU
// back end only.
#pragma once

#include <optional>

#include "tessera/layers/conv2d_cuda/request.h"
#include "tessera/runtime/cuda/dnn_plans.h"

namespace tessera {

// The tensors of a graph, by the numbers that it is run with.
enum ConvTensor : int64_t { kConvX = 'x', kConvW = 'w', kConvY = 'y' };

// The request as a finalised graph of one operation; nothing where cuDNN has no such operation.
std::optional<DnnDescriptor> conv_graph(const ConvRequest& request);
// The plan that is taken under the rules; nothing where there is none, as for float64 and for
// tensors without elements.
std::optional<DnnPlan> conv_plan(const ConvRequest& request, const DeviceFacts& facts,
                                 const DnnRules& rules);

}  // namespace tessera
