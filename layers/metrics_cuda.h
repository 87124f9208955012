// The CUDA kernel of top_k_correct; defined only in builds with CUDA.
#pragma once

#include "tessera/engine/op.h"

namespace tessera {

// correct: scratch, one uint8_t for each row.
void top_k_correct_cuda(CudaContext& where, int64_t k, const Buffer& logits, const Buffer& labels,
                        const Buffer& count, uint8_t* correct);

}  // namespace tessera
