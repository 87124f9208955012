// A model as a table: what each layer computes, the shape it hands on, its parameters.
#pragma once

#include <string>

#include "tessera/engine/tensor.h"

namespace tessera {

struct Graph;

// A line for each place in the model, in the order in which the forward part of the step runs, then
// the sums; "3 again" at its end where so many of its steps run a second time, for a budget.
// `parameters` are those of the store. With depth 1 all of "layer1.0.conv1" and "layer1.1.bn2" is
// one line, "layer1".
std::string model_summary(const Graph& graph, const Tensors& parameters, int depth = 100);

}  // namespace tessera
