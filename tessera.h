// All public headers for programs that use Tessera. Authors of ops also include
// "tessera/engine/op.h" and, for GPU kernels, "tessera/cuda.h".
#pragma once

#include "tessera/core.h"
#include "tessera/models/data/loader.h"
#include "tessera/models/run/classifier.h"
#include "tessera/models/run/weights.h"
#include "tessera/models/zoo/zoo.h"
