// All of the library that programs use. What is for people who write ops stands in
// "tessera/engine/op.h" and, for GPU kernels, in "tessera/cuda.h".
#pragma once

#include "tessera/core.h"
#include "tessera/models/data/loader.h"
#include "tessera/models/run/classifier.h"
#include "tessera/models/run/weights.h"
#include "tessera/models/zoo/zoo.h"
