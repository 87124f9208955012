// Loss scaling for activations in float16 (Micikevicius et al. 2018, "Mixed Precision Training"):
// the loss is multiplied by s before the backward pass, so that small gradients do not become 0 in
// 16 bits, and the gradients of the parameters are divided by s. A step whose gradients are not
// finite updates nothing. A dynamic s is then halved, and doubled after `interval` finite steps in
// a row, as by PyTorch's GradScaler. s is a power of two unless the first one is not; a power of
// two changes no bit of a gradient that stays within the range of its dtype.
//
//   auto g = gradients(scale.scaled(loss), parameters);
//   g = scale.unscaled(g);
//   Tensor rate = lr_if_finite(lr, g);
//   optimizer.step(g, rate);
//   scale.step(rate);
//
// All are ops, so a captured step contains them.
#pragma once

#include "tessera/engine/store.h"
#include "tessera/engine/tensor.h"

namespace tessera {

struct LossScaleParams {
  bool dynamic = true;
  double first = 65536;    // above 0
  double interval = 2000;  // dynamic: from 1 to 2^24
};

class LossScale {
 public:
  // If dynamic, declares "loss_scale" and "loss_scale.finite_steps", float32 [1]. Throws
  // ConfigError if a parameter is out of range.
  LossScale(Store& store, const LossScaleParams& params);
  // Returns loss * s.
  Tensor scaled(const Tensor& loss) const;
  // Returns the gradients, all of one dtype, divided by s. Non-finite elements stay non-finite.
  Tensors unscaled(Tensors gradients) const;
  // Returns 1 / s of this step, float32 [1]. Requires a dynamic s.
  Tensor reciprocal() const;
  // If dynamic, makes the s of the next step, at most 2^32. `lr` is not finite if this step updated
  // nothing. Requires that all uses of this step's s are recorded.
  void step(const Tensor& lr);

 private:
  const LossScaleParams params_;
  Tensor scale_, finite_steps_;
};

}  // namespace tessera
