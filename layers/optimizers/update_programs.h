// What the optimizers share whose updates are scalar programs (engine/pointwise.h): they run on
// every device, with the same bits, and one after the other reads what the one before has made.
#pragma once

#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/engine/scalar_program.h"
#include "tessera/engine/tensor.h"
#include "tessera/layers/optimizers/optimizer_params.h"

namespace tessera {

// Numbers of one step, each a tensor of one element of the dtype of what is updated.
class StepScalars {
 public:
  // t: increment_step() of this step; undefined where nothing depends on it.
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

// A program of a persistent tensor's next version, which is given or, where `gate` (update_gate())
// is 0, as before. Input 0 is the version before, input 1 the gate.
class UpdateProgram : public ScalarBuilder {
 public:
  // `extra`: tensors besides the two.
  UpdateProgram(Tensor persistent, Tensor gate, Tensors extra);
  int previous() const { return in(0); }
  int extra(int i) const { return in(2 + i); }
  // a + share (b - a)
  int lerp(int a, int b, double share) { return add(a, mul(value(share), sub(b, a))); }
  int sqrt(int a) { return push(ScalarOp::sqrt, a); }
  // a factor, a where it is 1.
  int scale(int a, double factor) { return factor == 1 ? a : mul(a, value(factor)); }
  // grad + decay p, grad where there is no decay.
  int with_decay(int grad, int p, double decay) {
    return decay == 0 ? grad : add(grad, mul(value(decay), p));
  }
  // Runs the update; gives the next version.
  Tensor apply(std::string_view name, int result);

 private:
  Tensors inputs_;
};

// The root of the sum of squares, shape [].
Tensor norm_of(const Tensor& x);
// w / u of two norms, 1 where one of them is 0; with `trust`, as LARS has it:
// trust w / (u + decay w + epsilon).
Tensor norm_ratio(const Tensor& w, const Tensor& u);
Tensor trust_ratio(const Tensor& w, const Tensor& u, double trust, double decay, double epsilon);

// m and v of Adam move on; g with decay p added. Gives their next versions.
std::pair<Tensor, Tensor> move_moments(std::string_view name, const Tensor& gate, const Tensor& g,
                                       const Tensor& m, const Tensor& v, double beta1,
                                       double beta2);

// Throw ConfigError "op_name: name must ...".
void check_share(std::string_view op_name, std::string_view name, double value);  // in [0, 1)
void check_positive(std::string_view op_name, std::string_view name, double value);
void check_not_negative(std::string_view op_name, std::string_view name, double value);
template <class Params>
void check_decay(std::string_view op_name, const Params& params) {
  check_not_negative(op_name, "weight_decay", params.weight_decay);
  check_not_negative(op_name, "vector_lr", params.vector_lr);
}

}  // namespace tessera
