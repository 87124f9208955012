#include "tessera/layers/optimizers/loss_scale.h"

#include <utility>

#include <fmt/format.h>

#include "tessera/engine/autograd.h"
#include "tessera/engine/pointwise.h"
#include "tessera/engine/structural.h"
#include "tessera/layers/optimizers/optimizer.h"
#include "tessera/layers/optimizers/update_programs.h"
#include "tessera/runtime/error.h"

namespace tessera {
namespace {

constexpr double kMost = 0x1p32, kLongest = 0x1p24;  // a float counts to 2^24

// Returns the program s, finite steps before, lr -> the next s.
ScalarProgram scale_program(double interval) {
  ScalarBuilder b(3);
  const int s = b.in(0), last = b.push(ScalarOp::greater, b.in(1), b.value(interval - 1.5));
  const int doubled = b.push(ScalarOp::min, b.mul(s, b.value(2)), b.value(kMost));
  const int kept = b.push(ScalarOp::select, last, doubled, s);
  return b.build(b.push(ScalarOp::select, is_finite(b, b.in(2)), kept, b.mul(s, b.value(0.5))));
}

// Returns the program finite steps before, lr -> the next number of finite steps.
ScalarProgram count_program(double interval) {
  ScalarBuilder b(2);
  const int zero = b.value(0);
  const int last = b.push(ScalarOp::greater, b.in(0), b.value(interval - 1.5));
  const int count = b.push(ScalarOp::select, last, zero, b.add(b.in(0), b.value(1)));
  return b.build(b.push(ScalarOp::select, is_finite(b, b.in(1)), count, zero));
}

}  // namespace

LossScale::LossScale(Store& store, const LossScaleParams& params) : params_(params) {
  if (!(params.first > 0 && params.first <= kMost))
    throw ConfigError(
        fmt::format("loss_scale: must be above 0 and at most 2^32, but is {}", params.first));
  if (!(params.interval >= 1 && params.interval <= kLongest))
    throw ConfigError(
        fmt::format("loss_scale: interval must be from 1 to 2^24, but is {}", params.interval));
  if (!params.dynamic) return;
  scale_ =
      store.optimizer_state("loss_scale", {1}, Initializer::constant(params.first), DType::f32);
  finite_steps_ =
      store.optimizer_state("loss_scale.finite_steps", {1}, Initializer::zeros(), DType::f32);
}

Tensor LossScale::scaled(const Tensor& loss) const {
  return params_.dynamic ? loss * reshape(detach(scale_), loss.shape()) : loss * params_.first;
}

Tensor LossScale::reciprocal() const {
  const NoGradScope no_grad;
  ScalarBuilder b(1);
  return pointwise("reciprocal", b.build(b.div(b.value(1), b.in(0))), {scale_});
}

Tensors LossScale::unscaled(Tensors gradients) const {
  const NoGradScope no_grad;
  if (gradients.empty()) return gradients;
  const DType dtype = gradients[0].dtype();
  const Tensor factor =
      params_.dynamic ? reshape(reciprocal(), Shape()) : constant(scalar(1 / params_.first, dtype));
  return scaled_by(std::move(gradients), cast(factor, dtype));
}

void LossScale::step(const Tensor& lr) {
  if (!params_.dynamic) return;
  const NoGradScope no_grad;
  const Tensor rate = cast(lr, DType::f32);
  pointwise_update("loss_scale", scale_program(params_.interval), {scale_, finite_steps_, rate});
  pointwise_update("count_finite", count_program(params_.interval), {finite_steps_, rate});
}

}  // namespace tessera
