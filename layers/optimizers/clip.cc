#include "tessera/layers/optimizers/clip.h"

#include <utility>

#include "tessera/engine/autograd.h"
#include "tessera/engine/pointwise.h"
#include "tessera/layers/optimizers/optimizer.h"
#include "tessera/layers/optimizers/update_programs.h"

namespace tessera {

Tensors clip_by_value(Tensors gradients, double max_value) {
  const NoGradScope no_grad;
  ScalarBuilder b(1);
  const int finite = is_finite(b, b.in(0));
  const int below = b.push(ScalarOp::min, b.in(0), b.value(max_value));
  const int within = b.push(ScalarOp::max, below, b.value(-max_value));
  const ScalarProgram program = b.build(b.push(ScalarOp::select, finite, within, b.in(0)));
  for (Tensor& g : gradients) g = pointwise("clip_value", program, {g});
  return gradients;
}

Tensors clip_by_norm(Tensors gradients, double max_norm) {
  const NoGradScope no_grad;
  Tensor total;
  for (const Tensor& g : gradients) {
    const Tensor own = sum_of_squares(g);
    total = total ? total + own : own;
  }
  if (!total) return gradients;
  ScalarBuilder b(1);
  const int norm = b.push(ScalarOp::sqrt, b.in(0));
  const int factor = b.div(b.value(max_norm), b.add(norm, b.value(1e-6)));
  const Tensor scale =
      pointwise("clip_scale", b.build(b.push(ScalarOp::min, factor, b.value(1))), {total});
  return scaled_by(std::move(gradients), scale);
}

}  // namespace tessera
