// Convolutions on a GPU: by cuDNN where it has a plan that keeps to the rules, else by kernels of
// our own. Needs no CUDA to be included; what is declared here is defined in builds with CUDA
// alone.
#pragma once

#include <memory>
#include <vector>

#include "tessera/layers/conv2d/cuda/request.h"
#include "tessera/runtime/cuda/facts.h"

namespace tessera {

// The ways to compute it on that GPU, which may be one that is only described, the best first:
// "cudnn", where there is a plan, and "direct". Asks cuDNN once for each request; later calls, and
// later processes (runtime/cuda/plan_cache.h), only look the answer up. Throws DeviceError where
// cuDNN is needed and cannot be loaded. Thread-safe.
std::vector<Algorithm> dnn_algorithms(const ConvRequest& request, const DeviceFacts& facts,
                                      const GpuSettings& settings = {});
// The one that was chosen, under the same settings. Inputs and output that stand at addresses which
// the request does not allow are computed by "direct" all the same.
std::unique_ptr<Kernel> dnn_kernel(const ConvRequest& request, const Algorithm& chosen,
                                   CudaContext& where);

}  // namespace tessera
