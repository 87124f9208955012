// The headers for authors of CUDA kernels: the context that a kernel runs in, and checks of the
// vendor's error codes. Requires the headers of the CUDA toolkit.
#pragma once

#include "tessera/engine/op.h"
#include "tessera/runtime/cuda/check.h"
#include "tessera/runtime/cuda/context.h"
#include "tessera/runtime/cuda/cuda.h"
