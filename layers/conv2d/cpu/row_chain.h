// RowChain: a depthwise convolution with 3x3 filters, with a 1x1 convolution before it, after it,
// or both. A thread computes a band of the last one's rows, two at a time, and what is between them
// stays in its cache: some rows of scratch take the place of whole tensors. Where bands meet, the
// rows that both read are computed twice.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "tessera/engine/op.h"
#include "tessera/engine/pointwise_run.h"
#include "tessera/layers/conv2d/cpu/convolution.h"
#include "tessera/layers/shared/epilogue.h"

namespace tessera {

// A convolution of a chain: forward, in the chain's dtype, with packed filters.
struct ChainStage {
  std::shared_ptr<const AnyConvolution> convolution;
  ConvShape shape;
  PointwisePlan epilogue;
  std::optional<BiasActivationPlan> activation;
  int inputs;  // the images, the filters and those of the epilogue
};

// A chain is faster if a thread has at least this many rows of the result, and if what it keeps out
// of memory has at least these bytes: fewer stay in L2 anyway.
inline constexpr int64_t kChainRows = 4;
inline constexpr size_t kChainBytes = 512 << 10;

// dtype: float32 or bfloat16, in which what is between the stages is rounded as if it were stored.
size_t row_chain_scratch(DType dtype, const std::vector<ChainStage>& stages, int threads);
// Inputs: those of the stages in turn, without the images of all but the first.
std::unique_ptr<Kernel> row_chain_kernel(DType dtype, std::vector<ChainStage> stages);

}  // namespace tessera
