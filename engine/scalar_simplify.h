// simplified(): an algebraic simplifier of scalar programs. Results are bit-identical for every
// input, including infinities, -0 and NaN. (A signalling NaN, which no arithmetic produces, may
// stay one.)
#pragma once

#include "tessera/engine/dtype.h"
#include "tessera/engine/scalar_program.h"

namespace tessera {

struct SimplifiedProgram {
  ScalarProgram program;  // has the same inputs, but may read fewer
  bool changed = false;
  int input = -1;  // the input that equals the result, or -1
};

// Folds constants as the interpreter would for `dtype`. Keeps the type of the result. Drops neutral
// elements, double negations, bounds within bounds, common subexpressions and dead code. A division
// by a power of two becomes a multiplication. Equal constants are not merged: they cost nothing,
// and compiled programs (pointwise_precompiled.h) have one for each use.
SimplifiedProgram simplified(const ScalarProgram& program, DType dtype);

}  // namespace tessera
