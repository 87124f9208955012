// pointwise: y[i] = p(x0[i], x1[i], ...), one scalar program on every element.
//
// All inputs have one floating-point dtype. The output has their broadcast shape; every input must
// be, in row-major order, x[(i / repeat) % period] of the output's index i: full size, trailing
// axes (a channel vector [c] against [n,h,w,c]), leading axes ([n,1] against [n,c]), one middle run
// of axes, or one element. Tensor's operators bring any other broadcast into this form.
#pragma once

#include <string>
#include <vector>

#include "tessera/engine/op.h"

namespace tessera {

// The gradient of one input: a scalar program over what `uses` names: 0.. the inputs, kOutput the
// output, kGradient the upstream gradient. Summed over broadcast axes by the op.
struct PointwiseGrad {
  static constexpr int kOutput = -1, kGradient = -2;
  std::vector<int> uses;
  ScalarProgram program;
};

struct PointwiseParams {
  std::string name;
  ScalarProgram program;
  bool operator==(const PointwiseParams& other) const { return program == other.program; }
};

class Pointwise final : public OpBase<Pointwise> {
 public:
  // Without gradients (one per input) they are derived from the program, which costs more time.
  explicit Pointwise(PointwiseParams params, std::vector<PointwiseGrad> grads = {});
  std::string_view name() const override { return params.name; }
  Specs infer(std::span<const TensorSpec> in) const override;
  bool runs_on(DeviceKind) const override;
  std::unique_ptr<Kernel> prepare(std::span<const TensorSpec> in, Context& ctx,
                                  const Algorithm& chosen) const override;
  bool differentiable() const override { return true; }
  Saved saved() const override;
  Tensors grad(const GradArgs& args) const override;
  uint32_t may_reuse(int output) const override;
  std::optional<ScalarProgram> pointwise() const override { return params.program; }
  std::optional<FusedOp> simplified(std::span<const TensorSpec> in) const override;
  std::optional<FusedOp> fuse_producer(const Op& producer, int input,
                                       std::span<const TensorSpec> in,
                                       std::span<const TensorSpec> producer_in) const override;

  const PointwiseParams params;

 private:
  std::vector<PointwiseGrad> grads_;
};

// Applies a scalar program, whose gradients are derived where none are given.
Tensor pointwise(std::string name, ScalarProgram program, Tensors inputs,
                 std::vector<PointwiseGrad> grads = {});

// Makes program(inputs) the next version of inputs[0], a persistent tensor, in its bytes; the
// others are broadcast to its shape. No gradient flows. Gives the next version.
Tensor pointwise_update(std::string name, ScalarProgram program, Tensors inputs);

// How input `in` is read for output `out`. False where that form cannot express it.
bool broadcast_of(const Shape& in, const Shape& out, Broadcast* result);

// Element-wise functions of the eager API.
Tensor exp(const Tensor& x);
Tensor log(const Tensor& x);
Tensor sqrt(const Tensor& x);
Tensor sin(const Tensor& x);
Tensor cos(const Tensor& x);
Tensor abs(const Tensor& x);
// x^exponent, as C's pow: NaN for a negative base and a broken exponent.
Tensor pow(const Tensor& x, double exponent);
Tensor pow(const Tensor& x, const Tensor& exponent);
// Also of integers. A NaN of either gives NaN, and both receive the gradient; if both are equal,
// the first does.
Tensor maximum(const Tensor& a, const Tensor& b);
Tensor minimum(const Tensor& a, const Tensor& b);
// min(max(x, low), high); the gradient passes where low <= x <= high.
Tensor clamp(const Tensor& x, double low, double high);

// Of integers, rounded down; by 0 gives 0. The remainder has the sign of b.
Tensor floor_divide(const Tensor& a, const Tensor& b);
Tensor floor_divide(const Tensor& a, double b);
Tensor remainder(const Tensor& a, const Tensor& b);
Tensor remainder(const Tensor& a, double b);

// uint8: 1 where it holds, else 0; of any dtype, both of one. No gradient flows through them, which
// is right wherever there is one.
Tensor equal(const Tensor& a, const Tensor& b);
Tensor not_equal(const Tensor& a, const Tensor& b);
Tensor less(const Tensor& a, const Tensor& b);
Tensor less_equal(const Tensor& a, const Tensor& b);
Tensor greater(const Tensor& a, const Tensor& b);
Tensor greater_equal(const Tensor& a, const Tensor& b);
Tensor equal(const Tensor& a, double b);
Tensor not_equal(const Tensor& a, double b);
Tensor less(const Tensor& a, double b);
Tensor less_equal(const Tensor& a, double b);
Tensor greater(const Tensor& a, double b);
Tensor greater_equal(const Tensor& a, double b);
inline Tensor operator==(const Tensor& a, const Tensor& b) { return equal(a, b); }
inline Tensor operator!=(const Tensor& a, const Tensor& b) { return not_equal(a, b); }
inline Tensor operator<(const Tensor& a, const Tensor& b) { return less(a, b); }
inline Tensor operator<=(const Tensor& a, const Tensor& b) { return less_equal(a, b); }
inline Tensor operator>(const Tensor& a, const Tensor& b) { return greater(a, b); }
inline Tensor operator>=(const Tensor& a, const Tensor& b) { return greater_equal(a, b); }
inline Tensor operator==(const Tensor& a, double b) { return equal(a, b); }
inline Tensor operator!=(const Tensor& a, double b) { return not_equal(a, b); }
inline Tensor operator<(const Tensor& a, double b) { return less(a, b); }
inline Tensor operator<=(const Tensor& a, double b) { return less_equal(a, b); }
inline Tensor operator>(const Tensor& a, double b) { return greater(a, b); }
inline Tensor operator>=(const Tensor& a, double b) { return greater_equal(a, b); }
// a where the condition (uint8) is not 0, else b; of any dtype, broadcast as numpy does.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);

}  // namespace tessera
