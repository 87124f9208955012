// Reverse-mode gradients.
#pragma once

#include <functional>
#include <span>

#include "tessera/engine/scope.h"
#include "tessera/engine/tensor.h"

namespace tessera {

// yes: gradients are tracked themselves, so they can be differentiated again (gradient penalty,
// second derivative). The tape is kept, which costs memory.
enum class CreateGraph : bool { no, yes };

// Returns d loss / d wrt[i] for each i, shaped like wrt[i]; zeros if loss does not depend on it.
//
// wrt[i] is a leaf or any tensor computed from one. loss has one element, unless `upstream`, shaped
// like loss, is given. Gradients are computed by calling ops, on the device of each forward op, so
// a captured step records them. Saved tensors on the way to wrt are freed, unless a graph is
// created. Leaves stay alive as long as loss, so detach() a loss that is kept.
//
// Throws Error, with the op and its module path, if: loss is not tracked; an op on the way has no
// gradient or returns integers (detach() if no gradient should flow); loss depends on gradients
// that were taken without CreateGraph::yes; the tape was freed by an earlier call; a value on the
// way has been overwritten.
Tensors gradients(const Tensor& loss, std::span<const Tensor> wrt, const Tensor& upstream = {},
                  CreateGraph create_graph = CreateGraph::no);

// Passes d loss / d wrt[i] to sink(i, gradient) as soon as it is complete, before gradients that
// come later in the backward pass are computed: what the sink frees or sends need not wait for
// them. Each i is passed once; the order follows from the tape. Otherwise as above.
using GradientSink = std::function<void(size_t, Tensor)>;
void gradients(const Tensor& loss, std::span<const Tensor> wrt, const GradientSink& sink);

// Returns a handle to x's values that may have a gradient; x itself if it is such a handle already,
// as parameters are. Throws ShapeError for integers, Error if x depends on tracked tensors.
Tensor requires_grad(const Tensor& x);

// Returns a handle to the same values as constants: no gradient flows through it.
Tensor detach(const Tensor& tensor);

}  // namespace tessera
