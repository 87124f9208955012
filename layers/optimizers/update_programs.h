// Helpers of optimizers whose updates are scalar programs (engine/pointwise.h). The programs run on
// every device, with the same bits; each reads the results of those before it.
#pragma once

#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/engine/scalar_program.h"
#include "tessera/engine/tensor.h"
#include "tessera/layers/optimizers/optimizer_params.h"

namespace tessera {

// The scalars of one step, each a tensor of one element in the dtype of the updated tensor.
class StepScalars {
 public:
  // t: the result of increment_step() in this step; undefined if nothing depends on it.
  explicit StepScalars(const Tensor& lr, const Tensor& t = {}) : lr_(lr), t_(t) {}
  Tensor lr(DType dtype);
  Tensor correction(double beta, DType dtype);  // 1 - beta^t

 private:
  struct StepScalar {
    double beta;  // 0: lr
    Tensor value;
  };
  Tensor made(double beta, DType dtype);
  const Tensor lr_, t_;
  std::vector<StepScalar> made_;
};

// Builds the program of a persistent tensor's next version, which equals the previous version if
// `gate` (update_gate()) is 0. Input 0 is the previous version, input 1 the gate.
class UpdateProgram : public ScalarBuilder {
 public:
  // `extra`: the inputs after these two.
  UpdateProgram(Tensor persistent, Tensor gate, Tensors extra);
  int previous() const { return in(0); }
  int extra(int i) const { return in(2 + i); }
  // Returns a + share (b - a).
  int lerp(int a, int b, double share) { return add(a, mul(value(share), sub(b, a))); }
  int sqrt(int a) { return push(ScalarOp::sqrt, a); }
  // Returns a * factor; a itself if factor is 1.
  int scale(int a, double factor) { return factor == 1 ? a : mul(a, value(factor)); }
  // Returns the previous version times 1 - rate decay; itself if decay is 0.
  int decayed(int rate, double decay) {
    return decay == 0 ? previous() : mul(previous(), sub(value(1), mul(rate, value(decay))));
  }
  // Returns grad + decay p; grad itself if decay is 0.
  int with_decay(int grad, int p, double decay) {
    return decay == 0 ? grad : add(grad, mul(value(decay), p));
  }
  // Runs the update; returns the next version.
  Tensor apply(std::string_view name, int result);

 private:
  Tensors inputs_;
};

// Returns the register of 1 if x is finite, else 0.
int is_finite(ScalarBuilder& b, int x);

Tensor sum_of_squares(const Tensor& x);  // shape []
Tensor norm_of(const Tensor& x);         // the root of the sum of squares
// Returns trust w / (u + decay w + epsilon) of two norms, 1 if one of them is 0.
Tensor trust_ratio(const Tensor& w, const Tensor& u, double trust, double decay, double epsilon);

// Updates Adam's moments m and v; returns their next versions.
std::pair<Tensor, Tensor> move_moments(std::string_view name, const Tensor& gate, const Tensor& g,
                                       const Tensor& m, const Tensor& v, double beta1,
                                       double beta2);

// Throws ConfigError "op_name: name must ..." if the value is out of range.
void check_share(std::string_view op_name, std::string_view name, double value);  // in [0, 1)
void check_positive(std::string_view op_name, std::string_view name, double value);
void check_not_negative(std::string_view op_name, std::string_view name, double value);
template <class Params>
void check_decay(std::string_view op_name, const Params& params) {
  check_not_negative(op_name, "weight_decay", params.weight_decay);
  check_not_negative(op_name, "vector_lr", params.vector_lr);
}

}  // namespace tessera
