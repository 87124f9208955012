#include "tessera/layers/optimizers/update_programs.h"

#include <limits>

#include <fmt/format.h>

#include "tessera/engine/pointwise.h"
#include "tessera/engine/structural.h"
#include "tessera/runtime/error.h"

namespace tessera {

Tensor StepScalars::lr(DType dtype) { return made(0, dtype); }

Tensor StepScalars::correction(double beta, DType dtype) {
  // The correction of beta = 0 is 1, as t counts from 1.
  return beta == 0 ? full({1}, 1, dtype) : made(beta, dtype);
}

Tensor StepScalars::made(double beta, DType dtype) {
  for (const StepScalar& known : made_)
    if (known.beta == beta && known.value.dtype() == dtype) return known.value;
  Tensor value = lr_;
  if (beta != 0) {
    ScalarBuilder b(1);
    const int power = b.push(ScalarOp::pow, b.value(beta), b.in(0));
    value = pointwise("correction", b.build(b.sub(b.value(1), power)), {cast(t_, DType::f64)});
  }
  value = cast(value, dtype);
  made_.push_back({beta, value});
  return value;
}

int is_finite(ScalarBuilder& b, int x) {
  const int infinity = b.value(std::numeric_limits<double>::infinity());
  return b.push(ScalarOp::greater, infinity, b.push(ScalarOp::abs, x));
}

UpdateProgram::UpdateProgram(Tensor persistent, Tensor gate, Tensors extra)
    : ScalarBuilder(2 + static_cast<int>(extra.size())),
      inputs_{std::move(persistent), std::move(gate)} {
  inputs_.insert(inputs_.end(), extra.begin(), extra.end());
}

Tensor UpdateProgram::apply(std::string_view name, int result) {
  const int next = push(ScalarOp::select, in(1), result, previous());
  return pointwise_update(std::string(name), build(next), std::move(inputs_));
}

Tensor sum_of_squares(const Tensor& x) {
  ScalarBuilder b(1);
  return sum(pointwise("square", b.build(b.mul(b.in(0), b.in(0))), {x}));
}

Tensor norm_of(const Tensor& x) { return sqrt(sum_of_squares(x)); }

Tensor trust_ratio(const Tensor& w, const Tensor& u, double trust, double decay, double epsilon) {
  ScalarBuilder b(2);
  const int zero = b.value(0), one = b.value(1);
  const int above = b.mul(b.value(trust), b.in(0));
  const int below = b.add(b.add(b.in(1), b.mul(b.in(0), b.value(decay))), b.value(epsilon));
  const int has_u = b.push(ScalarOp::greater, b.in(1), zero);
  const int has_w = b.push(ScalarOp::greater, b.in(0), zero);
  const int ratio = b.push(ScalarOp::select, has_u, b.div(above, below), one);
  return pointwise("trust_ratio", b.build(b.push(ScalarOp::select, has_w, ratio, one)), {w, u});
}

std::pair<Tensor, Tensor> move_moments(std::string_view name, const Tensor& gate, const Tensor& g,
                                       const Tensor& m, const Tensor& v, double beta1,
                                       double beta2) {
  UpdateProgram first(m, gate, {g}), second(v, gate, {g});
  const int square = second.mul(second.extra(0), second.extra(0));
  const int kept = second.mul(second.value(beta2), second.previous());
  return {first.apply(name, first.lerp(first.previous(), first.extra(0), 1 - beta1)),
          second.apply(name, second.add(kept, second.mul(second.value(1 - beta2), square)))};
}

void check_share(std::string_view op_name, std::string_view name, double value) {
  if (!(value >= 0 && value < 1))
    throw ConfigError(fmt::format("{}: {} must be in [0, 1), but is {}", op_name, name, value));
}

void check_positive(std::string_view op_name, std::string_view name, double value) {
  if (!(value > 0))
    throw ConfigError(fmt::format("{}: {} must be positive, but is {}", op_name, name, value));
}

void check_not_negative(std::string_view op_name, std::string_view name, double value) {
  if (!(value >= 0))
    throw ConfigError(fmt::format("{}: {} must not be negative, but is {}", op_name, name, value));
}

}  // namespace tessera
