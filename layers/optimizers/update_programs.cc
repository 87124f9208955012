#include "tessera/layers/optimizers/update_programs.h"

#include <fmt/format.h>

#include "tessera/engine/pointwise.h"
#include "tessera/engine/structural.h"
#include "tessera/runtime/error.h"

namespace tessera {

Tensor StepNumbers::lr(DType dtype) { return made(0, dtype); }

Tensor StepNumbers::correction(double beta, DType dtype) {
  // Of 0 it is 1, as t counts from 1.
  return beta == 0 ? full({1}, 1, dtype) : made(beta, dtype);
}

Tensor StepNumbers::made(double beta, DType dtype) {
  for (const Made& known : made_)
    if (known.beta == beta && known.value.dtype() == dtype) return known.value;
  Tensor value = lr_;
  if (beta != 0) {
    ScalarBuilder b(1);
    const int power = b.push(ScalarOp::pow, b.value(beta), b.in(0));
    value = pointwise("correction", b.build(b.sub(b.value(1), power)), {cast(t_, DType::f64)});
  }
  if (value.dtype() != dtype) value = cast(value, dtype);
  made_.push_back({beta, value});
  return value;
}

UpdateProgram::UpdateProgram(Tensor persistent, Tensor gate, Tensors more)
    : ScalarBuilder(2 + static_cast<int>(more.size())),
      inputs_{std::move(persistent), std::move(gate)} {
  inputs_.insert(inputs_.end(), more.begin(), more.end());
}

Tensor UpdateProgram::becomes(std::string_view name, int result) {
  const int next = push(ScalarOp::select, in(1), result, old());
  return pointwise_update(std::string(name), build(next), std::move(inputs_));
}

Tensor norm_of(const Tensor& x) {
  ScalarBuilder b(1);
  return sqrt(sum(pointwise("square", b.build(b.mul(b.in(0), b.in(0))), {x})));
}

Tensor norm_ratio(const Tensor& w, const Tensor& u) { return trust_ratio(w, u, 1, 0, 0); }

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
  const int square = second.mul(second.more(0), second.more(0));
  const int kept = second.mul(second.value(beta2), second.old());
  return {first.becomes(name, first.towards(first.old(), first.more(0), 1 - beta1)),
          second.becomes(name, second.add(kept, second.mul(second.value(1 - beta2), square)))};
}

void check_share(std::string_view who, std::string_view name, double value) {
  if (!(value >= 0 && value < 1))
    throw ConfigError(fmt::format("{}: {} must be in [0, 1), is {}", who, name, value));
}

void check_positive(std::string_view who, std::string_view name, double value) {
  if (!(value > 0))
    throw ConfigError(fmt::format("{}: {} must be positive, is {}", who, name, value));
}

void check_not_negative(std::string_view who, std::string_view name, double value) {
  if (!(value >= 0))
    throw ConfigError(fmt::format("{}: {} must not be negative, is {}", who, name, value));
}

}  // namespace tessera
