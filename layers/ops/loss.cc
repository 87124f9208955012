#include "tessera/layers/ops/loss.h"

#include "tessera/engine/pointwise.h"
#include "tessera/engine/structural.h"
#include "tessera/layers/shared/checks.h"

namespace tessera {

namespace {

constexpr int kGradient = PointwiseGrad::kGradient;

void check_pair(std::string_view op, const char* x, const char* target, const Tensor& a,
                const Tensor& b) {
  const TensorSpec in[] = {a.spec(), b.spec()};
  InputCheck check(op, in, {x, target});
  check.floats();
  check.shape(1, a.shape(), std::string("the shape of ") + x);
  if (a.elements() == 0) check.fail("there must be at least one element");
}

// sign * 2 (x - target) dy
PointwiseGrad square_grad(double sign) {
  ScalarBuilder d(3);
  const int difference = d.sub(d.in(0), d.in(1));
  return {{0, 1, kGradient}, d.build(d.mul(d.mul(difference, d.value(2 * sign)), d.in(2)))};
}

}  // namespace

Tensor mse(const Tensor& x, const Tensor& target) {
  check_pair("mse", "x", "target", x, target);
  ScalarBuilder y(2);
  const int difference = y.sub(y.in(0), y.in(1));
  return mean(pointwise("mse", y.build(y.mul(difference, difference)), {x, target},
                        {square_grad(1), square_grad(-1)}, compute_type(x.dtype())));
}

Tensor bce_with_logits(const Tensor& logits, const Tensor& targets) {
  check_pair("bce_with_logits", "logits", "targets", logits, targets);
  ScalarBuilder y(2);
  const int z = y.in(0), t = y.in(1);
  const int linear = y.sub(y.push(ScalarOp::max, z, y.value(0)), y.mul(z, t));
  const int e = y.push(ScalarOp::exp, y.push(ScalarOp::neg, y.push(ScalarOp::abs, z)));
  const int loss = y.add(linear, y.push(ScalarOp::log, y.add(e, y.value(1))));

  ScalarBuilder dz(3);  // z, t, dy
  const int grad = dz.sub(dz.push(ScalarOp::sigmoid, dz.in(0)), dz.in(1));
  ScalarBuilder dt(2);  // z, dy
  return mean(
      pointwise("bce_with_logits", y.build(loss), {logits, targets},
                {{{0, 1, kGradient}, dz.build(dz.mul(grad, dz.in(2)))},
                 {{0, kGradient}, dt.build(dt.push(ScalarOp::neg, dt.mul(dt.in(0), dt.in(1))))}},
                compute_type(logits.dtype())));
}

}  // namespace tessera
