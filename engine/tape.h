// The autograd tape: the op that computed a tensor, and the tensors saved for its gradient. For the
// engine and the compiler.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tessera/engine/autograd.h"
#include "tessera/engine/op.h"
#include "tessera/engine/storage.h"

namespace tessera {

// Returns whether gradients() is calling ops: new tensors are part of a backward pass.
bool in_backward();
// Returns false in a NoGradScope, and in a backward pass without CreateGraph::yes.
bool grad_mode_enabled();

// The reason why no gradient flows through a tensor that depends on tracked ones. Tensors computed
// from it have the same stop; gradients() throws instead of returning zeros.
struct GradientStop {
  std::string reason;  // a sentence with its remedy
};
std::shared_ptr<const GradientStop> make_gradient_stop(std::string reason);

struct TapeNode;

// The origin of an input of a recorded op.
struct Edge {
  std::shared_ptr<TapeNode> node;    // the op that computed it, or
  std::shared_ptr<TensorImpl> leaf;  // a leaf; neither: not tracked
  int output = 0;
  std::shared_ptr<const GradientStop> stop;
};

struct TapeNode {
  ~TapeNode();  // frees the nodes before it without recursion: networks are deep
  OpPtr op;
  uint64_t order = 0;  // recording order
  Device device;
  std::string module_path;
  std::vector<Edge> edges;
  Specs input_specs, output_specs;
  Tensors inputs, outputs;  // saved, detached; undefined elsewhere
  std::vector<uint64_t> input_versions, output_versions;
  bool released = false;
  bool is_function = false;  // a compiled function; its outputs may depend on each other
};

bool should_record(std::span<const Tensor> inputs);
void record_on_tape(const OpPtr& op, std::span<const Tensor> inputs,
                    std::span<const Tensor> outputs);
// Sets the stop of outputs that are not on the tape. If `tracked`, an input is tracked and `op` is
// the stop; else the outputs inherit the stop of an input, if any.
void stop_gradients(const Op& op, bool tracked, std::span<const Tensor> inputs,
                    std::span<const Tensor> outputs);

// The leaves that a tensor depends on, in a fixed order, and the reason of the first stop or of a
// freed tape. If `stop` is empty, gradients can be taken.
struct LeafDependencies {
  std::vector<std::shared_ptr<TensorImpl>> leaves;
  std::string stop;
};
LeafDependencies leaves_of(const Tensor& tensor);

// gradients() of several tracked outputs at once, each with its upstream gradient, which is ones if
// undefined.
void backward(std::span<const Tensor> outputs, std::span<const Tensor> upstream,
              std::span<const Tensor> wrt, CreateGraph create_graph, const GradientSink& sink);
Tensors backward(std::span<const Tensor> outputs, std::span<const Tensor> upstream,
                 std::span<const Tensor> wrt, CreateGraph create_graph);

}  // namespace tessera
