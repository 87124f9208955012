// pointwise: y[i] = p(x0[i], x1[i], ...), one scalar program on every element.
//
// Inputs are float64, or any mixture of float32, bfloat16 and float16, which is computed in
// float32. The output has their broadcast shape, and the dtype in which the program ends
// (result_type()). At index i of the output an input is read, in row-major order, as x[(i / repeat)
// % period]: full size, trailing axes (a channel vector [c] against [n,h,w,c]), leading axes ([n,1]
// against [n,c]), one middle run of axes, or one element. Tensor's operators convert any other
// broadcast to this form.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tessera/engine/op.h"

namespace tessera {

// The gradient of one input: a scalar program whose inputs are listed in `uses`: 0.. for the
// inputs, kOutput for the output, kGradient for the upstream gradient. The op sums it over
// broadcast axes.
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

class Pointwise final : public OpBase<Pointwise, PointwiseParams> {
 public:
  // `grads` has one gradient per input. If empty, gradients are derived from the program, which
  // costs more time.
  explicit Pointwise(PointwiseParams params, std::vector<PointwiseGrad> grads = {});
  std::string_view name() const override { return params.name; }
  Specs infer(SpecView in) const override;
  bool takes_half(DeviceKind, SpecView) const override { return true; }
  std::unique_ptr<Kernel> prepare(SpecView in, Context& ctx,
                                  const Algorithm& chosen) const override;
  bool differentiable() const override { return true; }
  Saved saved() const override;
  Tensors grad(const GradArgs& args) const override;
  uint32_t may_reuse(int output) const override;
  std::optional<ScalarProgram> pointwise() const override { return params.program; }
  std::optional<FusedOp> simplified(SpecView in) const override;
  std::optional<FusedOp> fuse_producer(const Op& producer, int input, SpecView in,
                                       SpecView producer_in) const override;

 private:
  std::vector<PointwiseGrad> grads_;
};

// Applies a scalar program. Without `grads`, its gradients are derived. If all inputs have the same
// 16 bits, the result is rounded to them (promoted()), unless `result` says otherwise.
Tensor pointwise(std::string name, ScalarProgram program, Tensors inputs,
                 std::vector<PointwiseGrad> grads = {}, std::optional<DType> result = {});

// Updates inputs[0], a persistent tensor, in place to program(inputs) and returns its next version.
// The other inputs are broadcast to its shape. No gradient flows.
Tensor pointwise_update(std::string name, ScalarProgram program, Tensors inputs);

// Computes how input `in` is read for output `out`. Returns false if Broadcast cannot express it.
bool broadcast_of(const Shape& in, const Shape& out, Broadcast* result);

// Element-wise functions of the eager API.
Tensor exp(const Tensor& x);
Tensor log(const Tensor& x);
Tensor sqrt(const Tensor& x);
Tensor sin(const Tensor& x);
Tensor cos(const Tensor& x);
Tensor abs(const Tensor& x);
// x^exponent, like C's pow: NaN for a negative base with a non-integer exponent.
Tensor pow(const Tensor& x, double exponent);
Tensor pow(const Tensor& x, const Tensor& exponent);
// Also for integers. If either is NaN, the result is NaN and both receive the gradient; if both are
// equal, a receives it.
Tensor maximum(const Tensor& a, const Tensor& b);
Tensor minimum(const Tensor& a, const Tensor& b);
// min(max(x, low), high); the gradient passes if low <= x <= high.
Tensor clamp(const Tensor& x, double low, double high);

// Integer division, rounded down, and its remainder, which has the sign of b. Division by 0 gives
// 0.
Tensor floor_divide(const Tensor& a, const Tensor& b);
Tensor floor_divide(const Tensor& a, double b);
Tensor remainder(const Tensor& a, const Tensor& b);
Tensor remainder(const Tensor& a, double b);

// Comparisons of any dtype, both of the same one. Return uint8: 1 if true, else 0. No gradient
// flows; the derivative is 0 wherever it exists.
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
inline Tensor operator==(const Tensor& a, const auto& b) { return equal(a, b); }
inline Tensor operator!=(const Tensor& a, const auto& b) { return not_equal(a, b); }
inline Tensor operator<(const Tensor& a, const auto& b) { return less(a, b); }
inline Tensor operator<=(const Tensor& a, const auto& b) { return less_equal(a, b); }
inline Tensor operator>(const Tensor& a, const auto& b) { return greater(a, b); }
inline Tensor operator>=(const Tensor& a, const auto& b) { return greater_equal(a, b); }
// a if the condition (uint8) is not 0, else b. Any dtype; broadcasts as numpy does.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);

}  // namespace tessera
