// Which of cuDNN's plans for a convolution is the fastest, found by running them. What is declared
// here is defined in builds with CUDA alone.
#pragma once

#include "tessera/layers/conv2d/cuda/kernels.h"
#include "tessera/runtime/cuda/plan_cache.h"

namespace tessera {

// Measures the plans for the request that keep to the settings of now on that GPU, and keeps what
// it found in the cache, for GpuPlans::tuned. In cuDNN's order; 0 microseconds where a plan did not
// run or had no memory for its workspace. None where cuDNN is not asked, or has none. Inputs,
// output and workspace are eager tensors, given back at the end. Throws OutOfMemory where there is
// none for inputs and output.
CachedPlans tune_conv(const ConvRequest& request, CudaContext& ctx,
                      PlanCache& cache = plan_cache());

}  // namespace tessera
