// Reverse-mode gradients.
#pragma once

#include <span>

#include "tessera/engine/tensor.h"

namespace tessera {

// d loss / d wrt[i] for each i, each shaped like wrt[i]; zeros where loss does not depend on it.
// loss has one element, unless `upstream`, shaped like loss, is given. Gradients are made by
// calling ops, on the device each op ran on, so a captured step records them. The tape is let go
// on the way: a second call through the same ops is an Error, and so is going back through a value
// that has been overwritten since.
Tensors gradients(const Tensor& loss, std::span<const Tensor> wrt, const Tensor& upstream = {});

// A handle to x's values whose gradient can be asked for. Parameters are tracked as they are.
Tensor requires_grad(const Tensor& x);

// A handle to the same values that no gradient flows through.
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
