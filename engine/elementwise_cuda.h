// The element-wise ops of any dtype on a GPU; defined only in builds with CUDA.
#pragma once

#include "tessera/engine/integer_arithmetic.h"
#include "tessera/engine/op.h"
#include "tessera/engine/relation.h"

namespace tessera {

void integer_arithmetic_cuda(CudaContext& where, IntegerOp op, Buffers in, const Buffer& out);
void comparison_cuda(CudaContext& where, Relation relation, Buffers in, const Buffer& out);
void where_cuda(CudaContext& where, Buffers in, const Buffer& out);

}  // namespace tessera
