// The ops that go by indices on a GPU; defined only in builds with CUDA.
#pragma once

#include "tessera/engine/indexing.h"
#include "tessera/engine/op.h"

namespace tessera {

// `size` is that of the axis in x and dx, as in place_of().
void gather_cuda(CudaContext& where, const Buffer& x, const Buffer& index,
                 const IndexGeometry& geometry, int64_t size, const Buffer& y);
void scatter_add_cuda(CudaContext& where, const Buffer& dy, const Buffer& index,
                      const IndexGeometry& geometry, int64_t size, const Buffer& dx);
void one_hot_cuda(CudaContext& where, const Buffer& labels, int64_t classes, const Buffer& y);

}  // namespace tessera
