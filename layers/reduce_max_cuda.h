// The CUDA kernels of max and its gradient; defined only in builds with CUDA.
#pragma once

#include "tessera/engine/op.h"

namespace tessera {

// x as [outer, n, inner].
struct AxisGeometry {
  int64_t outer, n, inner;
  AxisGeometry(const Shape& x, int axis)
      : outer(x.elements(0, axis)), n(x[axis]), inner(x.elements(axis + 1, x.rank())) {}
};

void max_cuda(CudaContext& where, const AxisGeometry& g, const Buffer& x, const Buffer& y,
              const Buffer& positions);
void max_grad_cuda(CudaContext& where, const AxisGeometry& g, const Buffer& dy,
                   const Buffer& positions, const Buffer& dx);

}  // namespace tessera
