// Each op in the words of ONNX.
#pragma once

#include "tessera/tools/onnx/onnx_values.h"

namespace tessera {

// Writes a node of the graph. Throws ConfigError naming an op that has no form there.
void write_onnx_node(const Graph& graph, const Node& node, OnnxValues& values, OnnxGraph& to);

}  // namespace tessera
