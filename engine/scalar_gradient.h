// The gradient of a scalar program that brings no rule of its own.
#pragma once

#include <vector>

#include "tessera/engine/scalar_program.h"
#include "tessera/engine/tensor.h"

namespace tessera {

// Of y = program(inputs) with the upstream gradient dy: what each input for which `needed` is set
// receives, shaped like dy. The program is replayed backwards as element-wise ops, an op an
// instruction, which have gradients in turn. Where max or min has two equal operands the first
// receives the gradient; greater has none, being constant wherever it is smooth.
Tensors scalar_gradient(const ScalarProgram& program, const Tensors& inputs, const Tensor& dy,
                        const std::vector<bool>& needed);

}  // namespace tessera
