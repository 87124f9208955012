// Convolutions on a GPU: by cuDNN where it has a plan that keeps to the rules, else by kernels of
// our own. Needs no CUDA to be included; what is declared here is defined in builds with CUDA
// alone.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/engine/op.h"
#include "tessera/layers/conv2d/cpu/convolution.h"
#include "tessera/runtime/cuda/device_properties.h"

namespace tessera {

// Returns the request (one pass for one shape) of an op with inputs of these specs, if it is a
// convolution or a gradient of one.
std::optional<ConvRequest> conv_request(const Op& op, std::span<const TensorSpec> in);

// "forward x 32x56x56x64 w 64x3x3x64 stride 1x1 padding 1x1 dilation 1x1 groups 1": all of it but
// dtype and alignment.
std::string conv_text(const ConvRequest& request);

// The ways to compute it on that GPU, which may be one that is only described, the best first:
// "cudnn", where there is a plan, and "direct". Asks cuDNN once for each request; later calls, and
// later processes (runtime/cuda/plan_cache.h), only look the answer up. Throws DeviceError where
// cuDNN is needed and cannot be loaded. Thread-safe.
std::vector<Algorithm> dnn_algorithms(const ConvRequest& request,
                                      const DeviceProperties& properties,
                                      const GpuSettings& settings = {});
// The one that was chosen, under the same settings. Inputs and output that stand at addresses which
// the request does not allow are computed by "direct" all the same.
std::unique_ptr<Kernel> dnn_kernel(const ConvRequest& request, const Algorithm& chosen,
                                   CudaContext& ctx);

// Convolutions by plain loops, for what cuDNN has no plan for: float64, and what is not aligned.
// Sums run in an order that follows from the shape alone.

// For the weight gradient, whose sums are cut in parts: a part of every weight stands there.
size_t direct_conv_scratch(const ConvRequest& request);

// Issues the pass on the stream of `where`. a and b are the inputs as ConvPass lists them; scratch
// is aligned to 16 bytes and holds direct_conv_scratch() of them.
void direct_conv(const ConvRequest& request, CudaContext& ctx, const void* a, const void* b,
                 void* out, void* scratch);

}  // namespace tessera
