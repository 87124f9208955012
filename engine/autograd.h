// Reverse-mode gradients.
#pragma once

#include <span>

#include "tessera/engine/op.h"
#include "tessera/engine/storage.h"

namespace tessera {

// d loss / d wrt[i] for each i, each shaped like wrt[i]; zeros where loss does not depend on it.
// loss has one element, unless `upstream`, shaped like loss, is given. Gradients are made by
// calling ops, on the device each op ran on, so a captured step records them. The tape is let go
// on the way: a second call through the same ops is an Error, and so is going back through a value
// that has been overwritten since.
Tensors gradients(const Tensor& loss, std::span<const Tensor> wrt, const Tensor& upstream = {});

// A handle to x's values whose gradient can be asked for. Parameters are tracked as they are.
Tensor tracked(const Tensor& x);

// While it lives, nothing is put on the tape in this thread.
class NoGradScope {
 public:
  NoGradScope();
  ~NoGradScope();
  NoGradScope(const NoGradScope&) = delete;
  NoGradScope& operator=(const NoGradScope&) = delete;

 private:
  bool outer_;
};

// --- for the engine ---

// True while gradients() calls ops: what is made now is part of a backward pass.
bool in_backward();

struct TapeNode;

// Where an input of a recorded op came from.
struct Edge {
  std::shared_ptr<TapeNode> node;        // the op that made it, or
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
  Tensors inputs, outputs;                // saved, detached; undefined elsewhere
  std::vector<uint64_t> input_versions, output_versions;
  bool released = false;
};

bool tape_wanted(std::span<const Tensor> inputs);
void put_on_tape(const OpPtr& op, std::span<const Tensor> inputs, std::span<const Tensor> outputs);

}  // namespace tessera
