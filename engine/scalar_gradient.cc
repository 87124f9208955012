#include "tessera/engine/scalar_gradient.h"

#include <numbers>

#include "tessera/engine/pointwise.h"

namespace tessera {
namespace {

Tensor apply_one(ScalarOp op, Tensors operands) {
  ScalarBuilder b(static_cast<int>(operands.size()));
  const int last = static_cast<int>(operands.size()) - 1;
  return pointwise(name_of(op), b.build(b.push(op, 0, std::min(1, last), std::min(2, last))),
                   std::move(operands));
}

Tensor above(const Tensor& a, const Tensor& b) { return apply_one(ScalarOp::greater, {a, b}); }
Tensor up_to(const Tensor& a, const Tensor& b) { return apply_one(ScalarOp::less_equal, {a, b}); }
Tensor select(const Tensor& condition, const Tensor& then, const Tensor& otherwise) {
  return apply_one(ScalarOp::select, {condition, then, otherwise});
}

class Replay {
 public:
  Replay(const ScalarProgram& program, const Tensors& inputs, const std::vector<bool>& needed)
      : program_(program), values_(inputs), needed_(needed) {
    for (const Instruction& in : program.code) {
      Tensors operands;
      for (int r : operands_of(in)) operands.push_back(values_[static_cast<size_t>(r)]);
      bool any = false;
      for (int r : operands_of(in)) any = any || needed_[static_cast<size_t>(r)];
      values_.push_back(in.op == ScalarOp::constant ? full({}, in.value, inputs[0].dtype())
                                                    : apply_one(in.op, operands));
      needed_.push_back(any && in.op != ScalarOp::greater && in.op != ScalarOp::less_equal);
    }
    slopes_.resize(values_.size());
  }

  Tensors run(const Tensor& dy) {
    slopes_[static_cast<size_t>(program_.result())] = dy;
    for (size_t i = program_.code.size(); i-- > 0;) {
      const size_t r = static_cast<size_t>(program_.inputs) + i;
      if (needed_[r] && slopes_[r].defined()) step(program_.code[i], values_[r], slopes_[r]);
    }
    slopes_.resize(static_cast<size_t>(program_.inputs));
    return std::move(slopes_);
  }

 private:
  static std::vector<int> operands_of(const Instruction& in) {
    const int registers[] = {in.a, in.b, in.c};
    return {registers, registers + operand_count(in.op)};
  }

  // Adds what make() returns, if that register's gradient is wanted.
  template <class F>
  void add(int r, F&& make) {
    const auto at = static_cast<size_t>(r);
    if (!needed_[at]) return;
    const Tensor slope = make();
    slopes_[at] = slopes_[at].defined() ? slopes_[at] + slope : slope;
  }

  void step(const Instruction& in, const Tensor& y, const Tensor& g) {
    const Tensor &a = values_[in.a], &b = values_[in.b];
    const auto zero = [&] { return full({}, 0, g.dtype()); };
    switch (in.op) {
      case ScalarOp::constant:
      case ScalarOp::greater:
      case ScalarOp::less_equal:
        return;
      case ScalarOp::add:
        add(in.a, [&] { return g; });
        return add(in.b, [&] { return g; });
      case ScalarOp::sub:
        add(in.a, [&] { return g; });
        return add(in.b, [&] { return -g; });
      case ScalarOp::mul:
        add(in.a, [&] { return g * b; });
        return add(in.b, [&] { return g * a; });
      case ScalarOp::div:
        add(in.a, [&] { return g / b; });
        return add(in.b, [&] { return -(g * y / b); });
      case ScalarOp::max:
        add(in.a, [&] { return select(above(b, a), zero(), g); });
        return add(in.b, [&] { return select(up_to(b, a), zero(), g); });
      case ScalarOp::min:
        add(in.a, [&] { return select(above(a, b), zero(), g); });
        return add(in.b, [&] { return select(up_to(a, b), zero(), g); });
      case ScalarOp::pow:
        add(in.a, [&] { return g * power_slope(in, a, b); });
        // At a base of 0 the slope is 0, not 0 log(0).
        return add(in.b, [&] { return g * select(up_to(a, zero()), zero(), y * log(a)); });
      case ScalarOp::select:
        add(in.b, [&] { return select(a, g, zero()); });
        return add(in.c, [&] { return select(a, zero(), g); });
      case ScalarOp::neg:
        return add(in.a, [&] { return -g; });
      case ScalarOp::abs:
        return add(in.a, [&] { return g * (above(a, zero()) - above(zero(), a)); });
      case ScalarOp::exp:
        return add(in.a, [&] { return g * y; });
      case ScalarOp::log:
        return add(in.a, [&] { return g / a; });
      case ScalarOp::sqrt:
        return add(in.a, [&] { return g * 0.5 / y; });
      case ScalarOp::tanh:
        return add(in.a, [&] { return g * (1.0 - y * y); });
      case ScalarOp::sin:
        return add(in.a, [&] { return g * cos(a); });
      case ScalarOp::cos:
        return add(in.a, [&] { return -(g * sin(a)); });
      case ScalarOp::erf:
        return add(in.a, [&] { return g * exp(-(a * a)) * (2 * std::numbers::inv_sqrtpi); });
      case ScalarOp::sigmoid:
        return add(in.a, [&] { return g * y * (1.0 - y); });
    }
  }

  // b a^(b - 1), without a slope of the constant that most exponents are.
  Tensor power_slope(const Instruction& in, const Tensor& a, const Tensor& b) const {
    const int constant = in.b - program_.inputs;
    if (constant < 0 || program_.code[static_cast<size_t>(constant)].op != ScalarOp::constant)
      return b * pow(a, b - 1.0);
    const double exponent = program_.code[static_cast<size_t>(constant)].value;
    return exponent * pow(a, exponent - 1);
  }

  const ScalarProgram& program_;
  Tensors values_;            // of each register
  std::vector<bool> needed_;  // of each register
  Tensors slopes_;            // d result / d register, undefined: none yet
};

}  // namespace

Tensors scalar_gradient(const ScalarProgram& program, const Tensors& inputs, const Tensor& dy,
                        const std::vector<bool>& needed) {
  Tensors slopes = Replay(program, inputs, needed).run(dy);
  for (size_t i = 0; i < slopes.size(); ++i)
    if (needed[i] && !slopes[i].defined()) slopes[i] = full(dy.shape(), 0, dy.dtype());
  return slopes;
}

}  // namespace tessera
