// simplified: a scalar program said shorter, with the same bits for every input: infinities, -0 and
// NaN included. (A signalling NaN, which no arithmetic makes, may stay one.)
#pragma once

#include "tessera/engine/dtype.h"
#include "tessera/engine/scalar_program.h"

namespace tessera {

struct SimplifiedProgram {
  ScalarProgram program;  // of the same inputs, some of which it may no longer read
  bool changed = false;
  int input = -1;  // the input that the result is, untouched
};

// What is constant is computed, as the interpreter would for `dtype`; neutral elements, double
// negations, bounds within bounds, what is computed twice and what nobody reads are dropped; a
// division by a power of two becomes a multiplication. Equal constants are not merged: they cost
// nothing, and compiled programs (pointwise_precompiled.h) have them where they are used.
SimplifiedProgram simplified(const ScalarProgram& program, DType dtype);

}  // namespace tessera
