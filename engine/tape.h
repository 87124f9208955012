// The tape: which op made a tensor, and what its gradient will read. For the engine and the
// compiler.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tessera/engine/autograd.h"
#include "tessera/engine/op.h"
#include "tessera/engine/storage.h"

namespace tessera {

// True while gradients() calls ops: what is made now is part of a backward pass.
bool in_backward();
// False in a NoGradScope, and in a backward pass that is not itself differentiated.
bool grad_mode_enabled();

// Why no gradient flows through a tensor that was computed from tracked ones. What is computed from
// such a tensor has the same stop, and gradients() of it is an error, never silently zero.
struct GradientStop {
  std::string reason;  // a sentence with its remedy
};
std::shared_ptr<const GradientStop> make_gradient_stop(std::string reason);

struct TapeNode;

// Where an input of a recorded op came from.
struct Edge {
  std::shared_ptr<TapeNode> node;    // the op that made it, or
  std::shared_ptr<TensorImpl> leaf;  // a leaf; neither: not tracked
  int output = 0;
  std::shared_ptr<const GradientStop> stop;
};

struct TapeNode {
  ~TapeNode();  // lets what lies behind it go without recursion: networks are deep
  OpPtr op;
  uint64_t order = 0;  // of recording
  Device device;
  std::string module_path;
  std::vector<Edge> edges;
  Specs input_specs, output_specs;
  Tensors inputs, outputs;  // saved, detached; undefined elsewhere
  std::vector<uint64_t> input_versions, output_versions;
  bool released = false;
  bool is_function = false;  // a compiled function, whose outputs may depend on each other
};

bool should_record(std::span<const Tensor> inputs);
void record_on_tape(const OpPtr& op, std::span<const Tensor> inputs,
                    std::span<const Tensor> outputs);
// Outputs that are not put on the tape: `tracked` says that an input is tracked, so that the op
// itself stops the gradient; otherwise they have the stop of an input, if one has any.
void stop_gradients(const Op& op, bool tracked, std::span<const Tensor> inputs,
                    std::span<const Tensor> outputs);

// What lies behind a tensor on the tape: the leaves it depends on, in a fixed order, and the reason
// of the first stop, or of a tape that has been let go; empty: gradients can be taken.
struct LeafDependencies {
  std::vector<std::shared_ptr<TensorImpl>> leaves;
  std::string stop;
};
LeafDependencies leaves_of(const Tensor& tensor);

// gradients() of several outputs at once, each with its upstream gradient, of ones where that is
// undefined; outputs are tracked.
Tensors backward(std::span<const Tensor> outputs, std::span<const Tensor> upstream,
                 std::span<const Tensor> wrt, CreateGraph create_graph);

}  // namespace tessera
