// The CUDA twin of the pointwise kernel; defined only in builds with CUDA.
#pragma once

#include "tessera/engine/op.h"

namespace tessera {

std::unique_ptr<Kernel> pointwise_cuda(const ScalarProgram& program,
                                       std::span<const TensorSpec> in);

}  // namespace tessera
