// A model as a table: what each layer computes, the shape it hands on, its parameters.
#pragma once

#include <string>

#include "tessera/engine/tensor.h"

namespace tessera {

struct Graph;

// A line for each place in the model, in the order in which the forward part of the step runs, then
// the sums. `parameters` are those of the store.
std::string model_summary(const Graph& step, const Tensors& parameters);

}  // namespace tessera
