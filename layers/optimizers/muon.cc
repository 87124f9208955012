#include "tessera/layers/optimizers/muon.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "tessera/engine/autograd.h"
#include "tessera/engine/pointwise.h"
#include "tessera/engine/structural.h"
#include "tessera/layers/ops/matmul.h"
#include "tessera/layers/optimizers/optimizer_ops.h"
#include "tessera/layers/optimizers/update_programs.h"
#include "tessera/runtime/error.h"

namespace tessera {
namespace {

// Returns first a + second b.
Tensor combined(double first, const Tensor& a, double second, const Tensor& b) {
  ScalarBuilder p(2);
  const int sum = p.add(p.mul(p.value(first), p.in(0)), p.mul(p.value(second), p.in(1)));
  return pointwise("newton_schulz", p.build(sum), {a, b});
}

double size_factor(const MuonParams& params, int64_t rows, int64_t columns) {
  const auto a = static_cast<double>(rows), b = static_cast<double>(columns);
  return params.match_adamw ? 0.2 * std::sqrt(std::max(a, b)) : std::sqrt(std::max(1.0, a / b));
}

AdamWParams of_vectors(const MuonParams& s) {
  return {.beta1 = s.beta1,
          .beta2 = s.beta2,
          .epsilon = s.epsilon,
          .weight_decay = s.weight_decay,
          .decay_vectors = s.decay_vectors,
          .vector_lr = s.vector_lr};
}

}  // namespace

Tensor newton_schulz(const Tensor& matrix, int steps) {
  constexpr double kX = 3.4445, kA = -4.7750, kSquare = 2.0315, kSmallest = 1e-7;
  const NoGradScope no_grad;
  ScalarBuilder b(2);
  const int norm = b.push(ScalarOp::max, b.in(1), b.value(kSmallest));
  Tensor x = pointwise("newton_schulz", b.build(b.div(b.in(0), norm)), {matrix, norm_of(matrix)});
  const bool is_tall = matrix.shape()[0] > matrix.shape()[1];
  for (int i = 0; i < steps; ++i) {
    const Tensor gram = matmul(x, x, {.transpose_a = is_tall, .transpose_b = !is_tall});
    const Tensor way = combined(kA, gram, kSquare, matmul(gram, gram));
    x = combined(kX, x, 1, is_tall ? matmul(x, way) : matmul(way, x));
  }
  return x;
}

Muon::Muon(Store& store, Tensors parameters, const MuonParams& params)
    : Optimizer("muon", std::move(parameters)), params_(params) {
  check_share("muon", "momentum", params.momentum);
  check_decay("muon", params);
  if (params.steps < 1)
    throw ConfigError(fmt::format("muon: steps must be at least 1, but is {}", params.steps));
  Tensors of_adamw;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const bool is_matrix = parameters_[i].shape().rank() > 1;
    (is_matrix ? matrices_ : vectors_).push_back(i);
    if (!is_matrix) of_adamw.push_back(parameters_[i]);
  }
  for (const size_t i : matrices_)
    momentum_.push_back(declare_state(store, "momentum", parameters_[i]));
  if (!vectors_.empty())
    adamw_ = std::make_unique<AdamW>(store, std::move(of_adamw), of_vectors(params_));
}

void Muon::update(std::span<const Tensor> gradients, const Tensor& lr) {
  StepScalars numbers(lr);
  for (size_t k = 0; k < matrices_.size(); ++k) {
    const size_t i = matrices_[k];
    const Tensor &p = parameters_[i], &g = gradients[i];
    const ParameterScale own = scale_of(params_, p.spec(), scales_[i]);
    const Tensor gate = update_gate(lr, g);
    UpdateProgram b(momentum_[k], gate, {g});
    const Tensor buffer =
        b.apply("muon_update", b.lerp(b.previous(), b.extra(0), 1 - params_.momentum));
    Tensor u = buffer;
    if (params_.nesterov) {
      ScalarBuilder look(2);
      const int way = look.mul(look.value(params_.momentum), look.sub(look.in(1), look.in(0)));
      u = pointwise("muon_step", look.build(look.add(look.in(0), way)), {g, buffer});
    }
    const int64_t rows = p.shape()[0], columns = p.elements() / std::max<int64_t>(1, rows);
    const Tensor x = reshape(newton_schulz(reshape(u, {rows, columns}), params_.steps), p.shape());
    UpdateProgram to(p, gate, {x, numbers.lr(p.dtype())});
    const int rate = to.scale(to.extra(1), own.lr);
    const int kept = to.decayed(rate, own.decay);
    const int way = to.mul(to.scale(rate, size_factor(params_, rows, columns)), to.extra(0));
    to.apply("muon_update", to.sub(kept, way));
  }
  if (!adamw_) return;
  Tensors vector_gradients;
  std::vector<ParameterScale> scales;
  for (const size_t i : vectors_) {
    vector_gradients.push_back(gradients[i]);
    scales.push_back(scales_[i]);
  }
  adamw_->set_scales(std::move(scales));
  adamw_->step(vector_gradients, lr);
}

}  // namespace tessera
