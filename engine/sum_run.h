// sum_run: the sum over a run of adjacent axes, which become size 1.
#pragma once

#include "tessera/engine/op.h"

namespace tessera {

// y[o, 1.., i] = sum over r of x[o, r, i], where r runs through the axes [first, last) of x,
// floating point. The blocks of the sum depend on the shape alone, so on one computer the bits do
// not depend on the number of threads. Throws ShapeError.
Tensor sum_run(const Tensor& x, int first, int last);

}  // namespace tessera
