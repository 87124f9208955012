// Convolutions on a GPU: by cuDNN if it has a plan that keeps to the rules, else by our own
// kernels. Can be included without CUDA; the kernels are defined only in builds with CUDA.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/engine/op.h"
#include "tessera/layers/conv2d/cpu/convolution.h"
#include "tessera/runtime/cuda/device_properties.h"
#include "tessera/runtime/cuda/plan_cache.h"

namespace tessera {

// Returns the request (one pass for one shape) of an op with inputs of these specs, if it is a
// convolution or a gradient of one.
std::optional<ConvRequest> conv_request(const Op& op, SpecView in);

// Returns all of a request but dtype and alignment: "forward x 32x56x56x64 w 64x3x3x64 stride 1x1
// padding 1x1 dilation 1x1 groups 1".
std::string conv_text(const ConvRequest& request);

// Returns the algorithms on a GPU, which may be only described, best first: "cudnn" if there is a
// plan, and "direct". Throws DeviceError if cuDNN is needed and cannot be loaded. Thread-safe.
// Queries cuDNN once for each request; later calls, and later processes
// (runtime/cuda/plan_cache.h), read the stored answer.
std::vector<Algorithm> dnn_algorithms(const ConvRequest& request,
                                      const DeviceProperties& properties,
                                      const GpuSettings& settings = {});
// Returns a kernel for `chosen`, which dnn_algorithms() returned under the same settings. Inputs
// and outputs at addresses that the request does not allow are computed by "direct".
std::unique_ptr<Kernel> dnn_kernel(const ConvRequest& request, const Algorithm& chosen,
                                   CudaContext& ctx);

// Measures cuDNN's plans for the request that keep to the current settings on that GPU
// (autotuning), and stores the results in the cache, for GpuPlans::autotuned. Returns them in
// cuDNN's order, with 0 microseconds for a plan that did not run or had no memory for its
// workspace; empty if conv_may_have_plan() is false or cuDNN has no plan. Throws OutOfMemory if
// there is no memory for inputs and output. Inputs, output and workspace are eager tensors, freed
// at the end.
CachedPlans tune_conv(const ConvRequest& request, CudaContext& ctx,
                      PlanCache& cache = plan_cache());

// Direct convolutions by plain loops, if cuDNN has no plan: for float64, and for unaligned tensors.
// The order of sums depends only on the shape.

// Returns the bytes for the parts of every weight in the weight gradient, whose sums are cut into
// parts; else 0.
size_t direct_conv_scratch(const ConvRequest& request);

// Issues the pass on the stream of `ctx`. a and b are the inputs in the order of ConvPass. Requires
// scratch of direct_conv_scratch() bytes, aligned to 16 bytes.
void direct_conv(const ConvRequest& request, CudaContext& ctx, const void* a, const void* b,
                 void* out, void* scratch);

}  // namespace tessera
