// The tape: which op made a tensor, and what its gradient will read. For the engine and the
// compiler.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tessera/engine/op.h"
#include "tessera/engine/storage.h"

namespace tessera {

// True while gradients() calls ops: what is made now is part of a backward pass.
bool in_backward();

struct TapeNode;

// Where an input of a recorded op came from.
struct Edge {
  std::shared_ptr<TapeNode> node;    // the op that made it, or
  std::shared_ptr<TensorImpl> leaf;  // a leaf; neither: not tracked
  int output = 0;
};

struct TapeNode {
  OpPtr op;
  uint64_t order = 0;  // of recording
  Device device;
  std::string module_path;
  std::vector<Edge> edges;
  Specs input_specs, output_specs;
  Tensors inputs, outputs;  // saved, detached; undefined elsewhere
  std::vector<uint64_t> input_versions, output_versions;
  bool released = false;
};

bool tape_wanted(std::span<const Tensor> inputs);
void put_on_tape(const OpPtr& op, std::span<const Tensor> inputs, std::span<const Tensor> outputs);

}  // namespace tessera
