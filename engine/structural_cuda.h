// The structural ops on a GPU; defined only in builds with CUDA.
#pragma once

#include "tessera/engine/lines.h"
#include "tessera/engine/op.h"

namespace tessera {

void fill_cuda(CudaContext& where, const Buffer& out, double value);
void cast_cuda(CudaContext& where, const Buffer& in, const Buffer& out);
// Every element of the output, in order, from the input read at these strides.
void copy_strided_cuda(CudaContext& where, const Buffer& in, const Strides& strides,
                       const Buffer& out);

}  // namespace tessera
