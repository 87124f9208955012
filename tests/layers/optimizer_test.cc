#include <cmath>

#include <gtest/gtest.h>

#include "tessera/engine/autograd.h"
#include "tessera/engine/pointwise.h"
#include "tessera/engine/storage.h"
#include "tessera/engine/structural.h"
#include "tessera/layers/optimizers/adamw.h"
#include "tessera/layers/optimizers/loss_scale.h"
#include "tessera/layers/optimizers/optimizer_simd.h"
#include "tessera/layers/optimizers/sgd.h"
#include "tessera/runtime/context.h"
#include "tessera/runtime/error.h"

namespace tessera {
namespace {

constexpr double kLr = 0.1;

Tensor gradient(const Shape& shape, uint64_t key, DType dtype = DType::f64) {
  return random_normal(shape, key, 0, 1, dtype);
}

TEST(Sgd, PlainStepsFollowTheGradientAndTheDecay) {
  Store store(1, DType::f64);
  const Tensor p = store.parameter("p", {3, 5}, Initializer::normal(1));
  Sgd sgd(store, {p}, {.weight_decay = 0.25});
  EXPECT_TRUE(store.optimizer_states().empty());
  auto wanted = p.to_vector<double>();
  for (uint64_t step = 1; step <= 3; ++step) {
    const Tensor g = gradient({3, 5}, step);
    sgd.step(std::vector{g}, scalar(kLr, DType::f64));
    const auto slope = g.to_vector<double>();
    for (size_t i = 0; i < 15; ++i) wanted[i] -= kLr * (slope[i] + 0.25 * wanted[i]);
  }
  const auto got = p.to_vector<double>();
  for (size_t i = 0; i < 15; ++i) EXPECT_NEAR(got[i], wanted[i], 1e-14);
}

TEST(Sgd, AGradientThatIsNotFiniteChangesNothing) {
  for (float bad : {std::nanf(""), HUGE_VALF, -HUGE_VALF}) {
    Store store(1);
    const Tensor p = store.parameter("p", {70000}, Initializer::normal(1));
    Sgd sgd(store, {p}, {.momentum = 0.9, .weight_decay = 0.25});
    sgd.step(std::vector{gradient({70000}, 1, DType::f32)}, scalar(kLr));
    const auto before = p.to_vector<float>();
    const auto momentum = store.find("optimizer.momentum.p").to_vector<float>();
    auto values = gradient({70000}, 2, DType::f32).to_vector<float>();
    values[69999] = bad;
    const int64_t refused = cpu_context().skipped_updates();
    sgd.step(std::vector{from_vector<float>({70000}, values)}, scalar(kLr));
    EXPECT_EQ(p.to_vector<float>(), before);
    EXPECT_EQ(store.find("optimizer.momentum.p").to_vector<float>(), momentum);
    EXPECT_EQ(cpu_context().skipped_updates(), refused + 1);
    values[69999] = 3.4e38f;  // large is not infinite
    sgd.step(std::vector{from_vector<float>({70000}, values)}, scalar(kLr));
    EXPECT_NE(p.to_vector<float>(), before);
    EXPECT_EQ(cpu_context().skipped_updates(), refused + 1);
  }
}

TEST(AdamW, AGradientThatIsNotFiniteChangesNothing) {
  Store store(1, DType::f64);
  const Tensor p = store.parameter("p", {3}, Initializer::normal(1));
  AdamW adamw(store, {p}, {});
  adamw.step(std::vector{gradient({3}, 1)}, scalar(kLr, DType::f64));
  const auto before = p.to_vector<double>();
  const int64_t refused = cpu_context().skipped_updates();
  adamw.step(std::vector{from_vector<double>({3}, {1, HUGE_VAL, 1})}, scalar(kLr, DType::f64));
  EXPECT_EQ(p.to_vector<double>(), before);
  EXPECT_EQ(cpu_context().skipped_updates(), refused + 1);
}

TEST(Optimizer, ALearningRateThatIsNotFiniteChangesNothing) {
  Store store(1, DType::f64);
  const Tensor p = store.parameter("p", {3}, Initializer::normal(1));
  const Tensor q = store.parameter("q", {3}, Initializer::normal(1));
  AdamW adamw(store, {p}, {});
  Sgd sgd(store, {q}, {.momentum = 0.9});
  const std::vector<Tensor> g{gradient({3}, 1)};
  const auto before = p.to_vector<double>(), too = q.to_vector<double>();
  for (double bad : {std::nan(""), HUGE_VAL}) {
    adamw.step(g, scalar(bad, DType::f64));
    sgd.step(g, scalar(bad, DType::f64));
  }
  EXPECT_EQ(p.to_vector<double>(), before);
  EXPECT_EQ(q.to_vector<double>(), too);
  EXPECT_EQ(store.find("optimizer.step").to_vector<int64_t>(), std::vector<int64_t>{0});
}

TEST(Optimizer, TheLearningRateOfAllOrNothing) {
  const Tensor lr = scalar(kLr, DType::f64);
  const Tensor good = gradient({70000}, 1, DType::f32), more = gradient({2, 3}, 2);
  EXPECT_EQ(lr_if_finite(lr, {good, more}).item<double>(), kLr);
  EXPECT_EQ(lr_if_finite(lr, {}).item<double>(), kLr);
  for (double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL})
    EXPECT_TRUE(std::isnan(lr_if_finite(lr, {good, scalar(bad, DType::f64), more}).item<double>()));
  EXPECT_EQ(lr_if_finite(scalar(0.5), {more}).dtype(), DType::f32);
  EXPECT_THROW(lr_if_finite(more, {good}), ShapeError);
  EXPECT_THROW(lr_if_finite(lr, {from_vector<int32_t>({1}, {1})}), ShapeError);
}

TEST(Sgd, MomentumAndNesterov) {
  for (bool nesterov : {false, true}) {
    Store store(1, DType::f64);
    const Tensor p = store.parameter("layer.weight", {7}, Initializer::normal(1));
    Sgd sgd(store, {p}, {.momentum = 0.9, .nesterov = nesterov, .weight_decay = 0.01});
    auto wanted = p.to_vector<double>();
    std::vector<double> buffer(7);
    for (uint64_t step = 1; step <= 3; ++step) {
      const Tensor g = gradient({7}, step);
      sgd.step(std::vector{g}, scalar(kLr, DType::f64));
      const auto slope = g.to_vector<double>();
      for (size_t i = 0; i < 7; ++i) {
        const double decayed = slope[i] + 0.01 * wanted[i];
        buffer[i] = 0.9 * buffer[i] + decayed;
        wanted[i] -= kLr * (nesterov ? decayed + 0.9 * buffer[i] : buffer[i]);
      }
    }
    const auto got = p.to_vector<double>();
    const auto kept = store.find("optimizer.momentum.layer.weight").to_vector<double>();
    for (size_t i = 0; i < 7; ++i) {
      EXPECT_NEAR(got[i], wanted[i], 1e-14);
      EXPECT_NEAR(kept[i], buffer[i], 1e-14);
    }
  }
}

TEST(AdamW, FollowsItsFormula) {
  Store store(1, DType::f64);
  const Tensor p = store.parameter("w", {2, 6}, Initializer::normal(1));
  AdamW adamw(store, {p}, {.beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-4, .weight_decay = 0.1});
  auto wanted = p.to_vector<double>();
  std::vector<double> m(12), v(12);
  for (uint64_t step = 1; step <= 4; ++step) {
    const Tensor g = gradient({2, 6}, step);
    adamw.step(std::vector{g}, scalar(kLr, DType::f64));
    const auto slope = g.to_vector<double>();
    const double t = static_cast<double>(step);
    for (size_t i = 0; i < 12; ++i) {
      m[i] = 0.8 * m[i] + 0.2 * slope[i];
      v[i] = 0.95 * v[i] + 0.05 * slope[i] * slope[i];
      const double first = m[i] / (1 - std::pow(0.8, t));
      const double second = v[i] / (1 - std::pow(0.95, t));
      wanted[i] = wanted[i] * (1 - kLr * 0.1) - kLr * first / (std::sqrt(second) + 1e-4);
    }
  }
  const auto got = p.to_vector<double>();
  for (size_t i = 0; i < 12; ++i) EXPECT_NEAR(got[i], wanted[i], 1e-13);
  EXPECT_EQ(store.find("optimizer.step").to_vector<int64_t>(), std::vector<int64_t>{4});
}

// A parameter larger than a block of the kernels, in float32, with an lr of either dtype.
TEST(Optimizers, SameBitsWithAnyNumberOfThreads) {
  for (DType lr : {DType::f32, DType::f64}) {
    std::vector<float> first;
    for (int threads : {1, 2, 3}) {
      const SettingsScope scope({.threads = threads});
      Store store(1);
      const Tensor p = store.parameter("p", {50001}, Initializer::normal(1));
      const Tensor q = store.parameter("q", {50001}, Initializer::normal(1));
      Sgd sgd(store, {p}, {.momentum = 0.9, .nesterov = true, .weight_decay = 0.1});
      AdamW adamw(store, {q}, {});
      const std::vector g{gradient({50001}, 1, DType::f32)};
      sgd.step(g, scalar(0.5, lr));
      adamw.step(g, scalar(0.5, lr));
      auto values = p.to_vector<float>();
      const auto more = q.to_vector<float>();
      values.insert(values.end(), more.begin(), more.end());
      if (first.empty()) first = values;
      EXPECT_EQ(values, first) << threads;
    }
  }
}

// Whole vectors and a remainder: each element has the bits of the formula.
TEST(Optimizers, BitsAreThoseOfTheFormula) {
  constexpr size_t kCount = 37;
  const auto count = static_cast<int64_t>(kCount);
  for (const SgdParams& s : {SgdParams{.momentum = 0, .weight_decay = 0.01},
                             SgdParams{.momentum = 0.9, .weight_decay = 0.01},
                             SgdParams{.momentum = 0.9, .nesterov = true, .weight_decay = 0.01}}) {
    const auto rate = 0.1f, decay = 0.01f, momentum = static_cast<float>(s.momentum);
    Store store(1);
    const Tensor p = store.parameter("p", {count}, Initializer::normal(1));
    Sgd sgd(store, {p}, s);
    auto wanted = p.to_vector<float>();
    std::vector<float> buffer(kCount);
    for (uint64_t step = 1; step <= 3; ++step) {
      const Tensor g = gradient({count}, step, DType::f32);
      sgd.step(std::vector{g}, scalar(0.1));
      const auto slope = g.to_vector<float>();
      for (size_t i = 0; i < kCount; ++i) {
        const float with_decay = slope[i] + decay * wanted[i];
        buffer[i] = momentum * buffer[i] + with_decay;
        wanted[i] -= rate * (s.nesterov ? with_decay + momentum * buffer[i] : buffer[i]);
      }
    }
    EXPECT_EQ(p.to_vector<float>(), wanted) << s.momentum << s.nesterov;
  }
  Store store(1);
  const Tensor p = store.parameter("p", {count}, Initializer::normal(1));
  AdamW adamw(store, {p}, {});
  auto wanted = p.to_vector<float>();
  const Tensor g = gradient({count}, 1, DType::f32);
  adamw.step(std::vector{g}, scalar(0.1, DType::f64));
  const auto slope = g.to_vector<float>();
  AdamWRule<float, false> rates;
  set_rule(rates, {}, 0.01, 0.1, 1);
  for (size_t i = 0; i < kCount; ++i) {
    const float first = rates.mix1 * slope[i], second = rates.mix2 * (slope[i] * slope[i]);
    wanted[i] = wanted[i] * rates.decay -
                rates.rate * (first / (std::sqrt(second) / rates.root + rates.epsilon));
  }
  EXPECT_EQ(p.to_vector<float>(), wanted);
}

TEST(Optimizers, UpdatesMakeANewVersionInPlace) {
  Store store(1);
  const Tensor p = store.parameter("p", {4}, Initializer::ones());
  Sgd sgd(store, {p}, {.momentum = 0.5});
  store.materialize();
  const void* bytes = p.impl()->data();
  const uint64_t before = p.impl()->storage->version;
  sgd.step(std::vector{ones({4})}, scalar(1));
  EXPECT_EQ(p.impl()->data(), bytes);
  EXPECT_EQ(p.impl()->storage->version, before + 1);
  EXPECT_EQ(p.to_vector<float>(), (std::vector<float>{0, 0, 0, 0}));
}

// Returns an element of a matrix and of a vector that began at `first`, after one step with equal
// gradients.
template <class O, class Params>
std::pair<float, float> after_one_step(const Params& params, const Initializer& first,
                                       double gradient, double lr) {
  Store store(1);
  const Tensors p{store.parameter("w", {2, 2}, first), store.parameter("b", {2}, first)};
  O optimizer(store, p, params);
  optimizer.step(std::vector{full({2, 2}, gradient), full({2}, gradient)}, scalar(lr));
  return {p[0].to_vector<float>()[0], p[1].to_vector<float>()[0]};
}

TEST(Optimizers, DecayCanLeaveOutVectors) {
  const auto after = [](bool adamw, bool decay_vectors) {
    if (!adamw)
      return after_one_step<Sgd>(SgdParams{.weight_decay = 0.5, .decay_vectors = decay_vectors},
                                 Initializer::ones(), 0, 1);
    return after_one_step<AdamW>(AdamWParams{.weight_decay = 0.5, .decay_vectors = decay_vectors},
                                 Initializer::ones(), 0, 1);
  };
  for (bool adamw : {false, true}) {
    EXPECT_EQ(after(adamw, true), (std::pair{0.5f, 0.5f}));
    EXPECT_EQ(after(adamw, false), (std::pair{0.5f, 1.0f}));
  }
}

// One step with gradients of 1 subtracts lr, with momentum and in AdamW.
TEST(Optimizers, VectorsMayHaveAnotherLearningRate) {
  const auto after = [](bool adamw, double vector_lr) {
    if (!adamw)
      return after_one_step<Sgd>(SgdParams{.momentum = 0.9, .vector_lr = vector_lr},
                                 Initializer::zeros(), 1, 0.25);
    return after_one_step<AdamW>(AdamWParams{.vector_lr = vector_lr}, Initializer::zeros(), 1,
                                 0.25);
  };
  for (bool adamw : {false, true})
    for (const float factor : {1.0f, 8.0f, 0.0f}) {
      const auto [matrix, vector] = after(adamw, factor);
      EXPECT_NEAR(matrix, -0.25f, 1e-6f);
      EXPECT_NEAR(vector, -0.25f * factor, 1e-5f);
    }
  Store store(1);
  EXPECT_THROW(Sgd(store, {}, {.vector_lr = -1}), ConfigError);
  EXPECT_THROW(AdamW(store, {}, {.vector_lr = -1}), ConfigError);
}

template <class E, class F>
std::string message_of(F call) {
  try {
    call();
  } catch (const E& error) {
    return error.what();
  }
  return "no such exception";
}

TEST(Optimizers, WhatDoesNotFitIsExplained) {
  Store store(1);
  const Tensor p = store.parameter("p", {4}, Initializer::ones());
  Sgd sgd(store, {p}, {});
  AdamW adamw(store, {p}, {});
  EXPECT_EQ(message_of<ShapeError>([&] { sgd.step({}, scalar(1)); }),
            "sgd: needs one gradient for each of its 1 parameters, but got 0");
  EXPECT_EQ(message_of<ShapeError>([&] { sgd.step(std::vector{ones({3})}, scalar(1)); }),
            "sgd: gradient must be [4] (like the parameter), but is [3] (parameter float32[4], "
            "gradient float32[3], lr float32[])");
  EXPECT_EQ(message_of<ShapeError>([&] { sgd.step(std::vector{ones({4})}, ones({2})); }),
            "sgd: lr must have one element (parameter float32[4], gradient float32[4], lr "
            "float32[2])");
  EXPECT_EQ(
      message_of<ShapeError>([&] { adamw.step(std::vector{ones({4}, DType::f64)}, scalar(1)); }),
      "adamw: parameter and gradient must have the same dtype, but have float32 and float64; use "
      "cast() (parameter float32[4], gradient float64[4], lr float32[], t int64[1], m float32[4], "
      "v float32[4])");
  EXPECT_EQ(message_of<ConfigError>([&] { Sgd(store, {p}, {.nesterov = true}); }),
            "sgd: nesterov needs a momentum above 0, but momentum is 0");
  EXPECT_EQ(message_of<ConfigError>([&] { Sgd(store, {p}, {.momentum = -1}); }),
            "sgd: momentum must not be negative, but is -1");
  EXPECT_EQ(message_of<ConfigError>([&] { AdamW(store, {p}, {.beta2 = 1}); }),
            "adamw: beta2 must be in [0, 1), but is 1");
  EXPECT_EQ(message_of<ConfigError>([&] { AdamW(store, {p}, {.epsilon = 0}); }),
            "adamw: epsilon must be positive, but is 0");
}

// The rule of PyTorch's GradScaler.
TEST(LossScale, IsHalvedByAnOverflowAndDoubledAfterAnInterval) {
  Store store(1);
  LossScale scale(store, {.first = 64, .interval = 3});
  double wanted = 64;
  int finite_steps = 0;
  for (const char step : std::string("fffffofofffoofffffff")) {
    EXPECT_EQ(scale.reciprocal().item<double>(), 1 / wanted);
    EXPECT_EQ(scale.scaled(scalar(3)).item<double>(), 3 * wanted);
    scale.step(scalar(step == 'f' ? kLr : NAN, DType::f64));
    finite_steps = step == 'f' ? finite_steps + 1 : 0;
    if (step == 'o') wanted /= 2;
    if (finite_steps == 3) wanted *= 2, finite_steps = 0;
  }
  EXPECT_EQ(scale.reciprocal().item<double>(), 1 / wanted);
}

TEST(LossScale, HasALimit) {
  Store store(1);
  LossScale scale(store, {.first = 0x1p31, .interval = 1});
  for (int i = 0; i < 3; ++i) scale.step(scalar(kLr, DType::f64));
  EXPECT_EQ(scale.reciprocal().item<double>(), 0x1p-32);
}

// The gradient is 1e-8 per element, less than half of the smallest float16.
TEST(LossScale, KeepsSmallGradientsInFloat16) {
  for (const bool dynamic : {false, true}) {
    Store store(1);
    const Tensor w = store.parameter("w", {7}, Initializer::ones());
    const LossScale scale(store, {.dynamic = dynamic});
    const auto loss = [&] {
      const Tensor y = cast(w, DType::f16);
      return sum(cast(y * y, DType::f32)) * 5e-9;
    };
    EXPECT_EQ(gradients(loss(), std::span(&w, 1))[0].to_vector<float>(),
              std::vector<float>(7, 0.f));
    const Tensors scaled = gradients(scale.scaled(loss()), std::span(&w, 1));
    for (const float g : scale.unscaled(scaled)[0].to_vector<float>())
      EXPECT_NEAR(g, 1e-8, 0x1p-10 * 1e-8);
  }
}

TEST(LossScale, WithAPowerOfTwoChangesNoBit) {
  Store store(1);
  const Tensor w = store.parameter("w", {50}, Initializer::normal(1));
  const LossScale scale(store, {});
  const auto loss = [&] { return sum(tessera::exp(w * w) * w); };
  const Tensors scaled = gradients(scale.scaled(loss()), std::span(&w, 1));
  EXPECT_EQ(scale.unscaled(scaled)[0].to_vector<float>(),
            gradients(loss(), std::span(&w, 1))[0].to_vector<float>());
}

TEST(LossScale, RefusesParametersOutOfRange) {
  Store store(1);
  for (const LossScaleParams& wrong :
       {LossScaleParams{.first = 0}, LossScaleParams{.first = 0x1p33},
        LossScaleParams{.first = NAN}, LossScaleParams{.interval = 0},
        LossScaleParams{.interval = 0x1p25}})
    EXPECT_THROW(LossScale(store, wrong), ConfigError);
}

}  // namespace
}  // namespace tessera
