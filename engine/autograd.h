// Reverse-mode gradients.
#pragma once

#include <span>

#include "tessera/engine/tensor.h"

namespace tessera {

// yes: the gradients are tracked themselves, so that gradients() of what is computed from them is
// right: a gradient penalty, a second derivative. The tape is kept. Costs memory.
enum class CreateGraph : bool { no, yes };

// Returns d loss / d wrt[i] for each i, like wrt[i]; zeros if loss does not depend on it. wrt[i] is
// a leaf or any tensor computed from one. loss has one element, unless `upstream`, like loss, is
// given. Gradients are made by calling ops, on the device each op ran on, so a captured step
// records them. Values that ops saved on the way to wrt are freed, unless a graph is created; the
// leaves stay as long as loss does, so detach() a loss that is kept.
//
// A gradient is right or an Error that names the op and its place in the model: loss is not tracked
// at all; an op on the way has no gradient or makes integers (detach() where none should flow);
// loss depends on gradients that were taken without CreateGraph::yes; the tape has been let go by
// an earlier call; a value on the way has been overwritten since.
Tensors gradients(const Tensor& loss, std::span<const Tensor> wrt, const Tensor& upstream = {},
                  CreateGraph create_graph = CreateGraph::no);

// A handle to x's values whose gradient can be asked for; x itself where it is one already, as
// parameters are. Throws ShapeError for integers, Error where x depends on tracked tensors.
Tensor requires_grad(const Tensor& x);

// A handle to the same values, which count as constants: no gradient flows through it.
Tensor detach(const Tensor& tensor);

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

}  // namespace tessera
