// For people who write ops with CUDA kernels of their own: the context a kernel runs in, and checks
// of the vendor's error codes. Needs the CUDA toolkit's headers.
#pragma once

#include "tessera/engine/op.h"
#include "tessera/runtime/cuda/check.h"
#include "tessera/runtime/cuda/context.h"
#include "tessera/runtime/cuda/cuda.h"
