// The float32 functions against the C library's float64 ones, on about a million values.
#include "tessera/engine/float_functions.h"

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "tessera/engine/pointwise_run.h"

namespace tessera {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
const float kSpecial[] = {0.0f,        -0.0f,        1.0f,       -1.0f,         2.0f,
                          -2.0f,       0.5f,         3.0f,       -3.0f,         1e-40f,
                          -1e-40f,     kInfinity,    -kInfinity, std::nanf(""), 16777216.0f,
                          16777217.0f, -16777215.0f, 8388609.0f, -2.5f,         1e-30f,
                          3e38f,       -3e38f,       33554433.0f};

bool same(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

// Returns the error in units in the last place of a normal result; else 0 if the values agree
// within the smallest normal number.
double ulps(float got, double wanted) {
  const auto nearest = static_cast<float>(wanted);
  if (std::isnan(wanted) || std::isinf(nearest)) return same(got, nearest) ? 0 : kInfinity;
  if (std::signbit(got) != std::signbit(nearest)) return kInfinity;
  int exponent;
  std::frexp(std::abs(wanted) < 1.17549435e-38 ? 1.0 : wanted, &exponent);
  return std::abs(got - wanted) / std::ldexp(1.0, exponent - 24);
}

struct Function {
  const char* name;
  double bound;  // units in the last place
  ScalarOp op;
  float (*one)(float);
  double (*reference)(double);
};

constexpr double kExponent = -0.75;

const Function kFunctions[] = {
    {"exp", 0.98, ScalarOp::exp, [](float x) { return exp_of(x); },
     [](double x) { return std::exp(x); }},
    {"log", 0.51, ScalarOp::log, [](float x) { return log_of(x); },
     [](double x) { return std::log(x); }},
    {"tanh", 0.51, ScalarOp::tanh, [](float x) { return tanh_of(x); },
     [](double x) { return std::tanh(x); }},
    {"erf", 1.08, ScalarOp::erf, [](float x) { return erf_of(x); },
     [](double x) { return std::erf(x); }},
    {"sigmoid", 2.5, ScalarOp::sigmoid, [](float x) { return sigmoid_of(x); },
     [](double x) { return 1 / (1 + std::exp(-x)); }},
    {"pow", 0.51, ScalarOp::pow, [](float x) { return pow_of(x, static_cast<float>(kExponent)); },
     [](double x) { return std::pow(x, kExponent); }},
};

// Computes all values in one call, hence in vectors.
std::vector<float> together(ScalarOp op, const std::vector<float>& x) {
  ScalarBuilder b(1);
  const ScalarProgram program = op == ScalarOp::pow
                                    ? b.build(b.push(op, b.in(0), b.value(kExponent)))
                                    : b.build(b.push(op, b.in(0)));
  const Broadcast whole{1, std::ssize(x)};
  const PointwisePlan plan(program, DType::f32, std::span(&whole, 1), std::ssize(x));
  const void* const in = x.data();
  std::vector<float> y(x.size());
  PointwiseRun(plan, &in, y.data()).apply(0, std::ssize(x));
  return y;
}

TEST(FloatFunctions, AreWithinTheirErrorsInVectorsAndAlone) {
  std::vector<float> x(std::begin(kSpecial), std::end(kSpecial));
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 4099)
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  for (const Function& f : kFunctions) {
    const std::vector<float> y = together(f.op, x);
    double worst = 0;
    float at = 0;
    int64_t alone = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double error = ulps(y[i], f.reference(static_cast<double>(x[i])));
      if (!(error <= worst)) worst = error, at = x[i];
      alone += !same(y[i], f.one(x[i]));
    }
    EXPECT_LE(worst, f.bound) << f.name << " of " << at;
    EXPECT_EQ(alone, 0) << f.name;
  }
}

TEST(FloatFunctions, PowHasTheSpecialCasesOfC) {
  for (const float a : kSpecial)
    for (const float b : kSpecial)
      EXPECT_LE(ulps(pow_of(a, b), std::pow(static_cast<double>(a), static_cast<double>(b))), 0.51)
          << a << " to the power " << b;
}

}  // namespace
}  // namespace tessera
