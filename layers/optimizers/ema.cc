#include "tessera/layers/optimizers/ema.h"

#include "tessera/engine/autograd.h"
#include "tessera/engine/pointwise.h"
#include "tessera/engine/structural.h"
#include "tessera/layers/optimizers/optimizer.h"
#include "tessera/layers/optimizers/update_programs.h"

namespace tessera {
namespace {

// Returns the program t, lr -> 1 - d, or 0 if lr is not finite.
ScalarProgram share_program(const EmaParams& params) {
  ScalarBuilder b(2);
  const int one = b.value(1), zero = b.value(0), s = b.sub(b.in(0), one);
  int share = b.value(1 - params.decay);
  if (params.warmup)
    share = b.push(ScalarOp::max, share, b.push(ScalarOp::pow, b.add(one, s), b.value(-2.0 / 3)));
  share = b.push(ScalarOp::select, b.push(ScalarOp::greater, s, zero), share, one);
  return b.build(b.push(ScalarOp::select, is_finite(b, b.in(1)), share, zero));
}

// Returns the program a, w, share -> the next a: exactly w for share 1, exactly a for share 0.
ScalarProgram average_program() {
  ScalarBuilder b(3);
  const int a = b.in(0), w = b.in(1), share = b.in(2), way = b.sub(w, a);
  const int from_a = b.add(a, b.mul(share, way));
  const int from_w = b.sub(w, b.mul(way, b.sub(b.value(1), share)));
  const int mostly_a = b.push(ScalarOp::greater, b.value(0.5), share);
  return b.build(b.push(ScalarOp::select, mostly_a, from_a, from_w));
}

}  // namespace

Ema::Ema(Store& store, const EmaParams& params) : store_(store), params_(params) {
  check_share("ema", "decay", params.decay);
  step_ = store.optimizer_state("ema.step", {1}, Initializer::zeros(), DType::i64);
}

void Ema::step(const Tensor& lr) {
  const NoGradScope no_grad;
  const Tensor t = cast(increment_step(step_, lr), DType::f64);
  const Tensor share = pointwise("ema_share", share_program(params_), {t, cast(lr, DType::f64)});
  Tensor cast_share;  // in the dtype of the last pair
  for (const auto& [value, average] : store_.ema_pairs()) {
    if (!cast_share || cast_share.dtype() != value.dtype()) cast_share = cast(share, value.dtype());
    pointwise_update("ema_update", average_program(), {average, value, cast_share});
  }
}

}  // namespace tessera
