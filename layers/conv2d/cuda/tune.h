// tune_conv: measures cuDNN's plans for a convolution (autotuning). Defined only in builds with
// CUDA.
#pragma once

#include "tessera/layers/conv2d/cuda/kernels.h"
#include "tessera/runtime/cuda/plan_cache.h"

namespace tessera {

// Measures the plans for the request that keep to the current settings on that GPU, and stores the
// results in the cache, for GpuPlans::autotuned. Returns them in cuDNN's order, with 0 microseconds
// for a plan that did not run or had no memory for its workspace; empty if conv_may_have_plan() is
// false or cuDNN has no plan. Throws OutOfMemory if there is no memory for inputs and output.
// Inputs, output and workspace are eager tensors, freed at the end.
CachedPlans tune_conv(const ConvRequest& request, CudaContext& ctx,
                      PlanCache& cache = plan_cache());

}  // namespace tessera
