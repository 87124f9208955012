// Compares ten steps of each optimizer, and of averaged weights, with PyTorch and timm in float64;
// tests/golden/updates.py has the settings of each case.
#include <cmath>
#include <functional>
#include <map>
#include <memory>

#include <gtest/gtest.h>

#include "tessera/engine/pointwise.h"
#include "tessera/engine/structural.h"
#include "tessera/layers/optimizers/adamw.h"
#include "tessera/layers/optimizers/clip.h"
#include "tessera/layers/optimizers/ema.h"
#include "tessera/layers/optimizers/lamb.h"
#include "tessera/layers/optimizers/lars.h"
#include "tessera/layers/optimizers/lion.h"
#include "tessera/layers/optimizers/muon.h"
#include "tessera/layers/optimizers/rmsprop.h"
#include "tessera/runtime/context.h"
#include "tessera/runtime/error.h"
#include "tessera/tests/golden/golden_file.h"

namespace tessera {
namespace {

constexpr double kLr = 0.02;
constexpr size_t kSteps = 10;
const std::vector<Shape> kShapes{{6, 4}, {3, 2, 1, 4}, {5}};

const golden::File& file() {
  static const golden::File opened(TESSERA_SOURCE_DIR "/tests/golden/updates.h5");
  return opened;
}

using Make = std::function<std::unique_ptr<Optimizer>(Store&)>;

template <class O, class Params>
Make of(const Params& params) {
  return [params](Store& store) { return std::make_unique<O>(store, store.parameters(), params); };
}

const std::map<std::string, Make>& optimizers() {
  const RmspropParams rmsprop{.alpha = 0.9, .epsilon = 1e-4, .weight_decay = 0.1};
  const RmspropParams tf{.alpha = 0.9, .epsilon = 1e-3, .eps_in_root = true, .weight_decay = 0.1};
  const auto with_momentum = [](RmspropParams params) {
    params.momentum = 0.8;
    return params;
  };
  const LarsParams lars{.trust_coefficient = 0.02, .weight_decay = 0.1};
  static const std::map<std::string, Make> all{
      {"adam",
       of<AdamW>(AdamWParams{
           .beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-6, .weight_decay = 0.1, .coupled = true})},
      {"rmsprop", of<Rmsprop>(rmsprop)},
      {"rmsprop_momentum", of<Rmsprop>(with_momentum(rmsprop))},
      {"rmsprop_tf", of<Rmsprop>(with_momentum(tf))},
      {"rmsprop_tf_plain", of<Rmsprop>(tf)},
      {"lion", of<Lion>(LionParams{.weight_decay = 0.1})},
      {"lamb", of<Lamb>(LambParams{.weight_decay = 0.1})},
      {"lamb_plain", of<Lamb>(LambParams{.weight_decay = 0})},
      {"lars", of<Lars>(lars)},
      {"lars_nesterov",
       of<Lars>(LarsParams{.nesterov = true, .trust_coefficient = 0.02, .weight_decay = 0.1})},
      {"muon", of<Muon>(MuonParams{})},
      {"muon_match",
       of<Muon>(MuonParams{.momentum = 0.9, .nesterov = false, .steps = 3, .match_adamw = true})},
  };
  return all;
}

// Returns the values of parameter k from a row of all parameters.
template <class T>
std::vector<T> part(const std::vector<double>& values, size_t row, size_t k) {
  size_t of_row = 0, first = 0;
  for (size_t i = 0; i < kShapes.size(); ++i) {
    if (i == k) first = of_row;
    of_row += static_cast<size_t>(kShapes[i].elements());
  }
  const auto begin = values.begin() + static_cast<int64_t>(row * of_row + first);
  return {begin, begin + kShapes[k].elements()};
}

struct Updated {
  explicit Updated(DType dtype) : store(1, dtype) {}
  Store store;
  std::unique_ptr<Optimizer> optimizer;
};

template <class T>
std::unique_ptr<Updated> begin(const Make& make, const golden::Array& start) {
  auto made = std::make_unique<Updated>(dtype_of<T>);
  for (size_t k = 0; k < kShapes.size(); ++k)
    made->store.parameter(std::string(1, static_cast<char>('a' + k)), kShapes[k],
                          Initializer::zeros());
  made->optimizer = make(made->store);
  for (size_t k = 0; k < kShapes.size(); ++k) {
    Tensor p = made->store.parameters()[k];
    p.assign(std::span<const T>(part<T>(start.values, 0, k)));
  }
  return made;
}

template <class T>
Tensors gradients_of(const golden::Array& all, size_t step) {
  Tensors made;
  for (size_t k = 0; k < kShapes.size(); ++k)
    made.push_back(from_vector(kShapes[k], part<T>(all.values, step, k)));
  return made;
}

template <class T>
void expect_follows(const std::string& name, const Make& make, double tolerance) {
  const std::string group = "optimizers/" + name;
  const golden::Array slopes = file().read(group + "/gradients"),
                      after = file().read(group + "/after");
  const auto made = begin<T>(make, file().read(group + "/start"));
  for (size_t step = 0; step < kSteps; ++step) {
    made->optimizer->step(gradients_of<T>(slopes, step), scalar(kLr, DType::f64));
    for (size_t k = 0; k < kShapes.size(); ++k) {
      const auto wanted = part<double>(after.values, step, k);
      const Tensor& p = made->store.parameters()[k];
      const std::vector<T> got = p.to_vector<T>();
      for (size_t i = 0; i < got.size(); ++i)
        ASSERT_NEAR(got[i], wanted[i], tolerance) << name << " step " << step << " of " << k;
    }
  }
}

TEST(Updates, AreThoseOfPyTorchAndTimm) {
  std::vector<std::string> known;
  for (const auto& [name, make] : optimizers()) {
    known.push_back(name);
    expect_follows<double>(name, make, 1e-12);
    // Lion's signs and Newton-Schulz amplify rounding errors.
    expect_follows<float>(name, make, 1e-4);
  }
  EXPECT_EQ(file().members("optimizers"), known);
}

TEST(Updates, HaveTheSameBitsWithAnyNumberOfThreads) {
  for (const auto& [name, make] : optimizers()) {
    std::vector<std::vector<float>> first;
    for (int threads : {1, 3}) {
      const SettingsScope scope({.threads = threads});
      Store store(1);
      for (const Shape& shape : {Shape{300, 70}, Shape{20, 3, 3, 90}, Shape{20000}})
        store.parameter(shape.text(), shape, Initializer::normal(1));
      const auto optimizer = make(store);
      for (uint64_t step = 0; step < 3; ++step) {
        Tensors slopes;
        for (const Tensor& p : store.parameters())
          slopes.push_back(random_normal(p.shape(), step + 7));
        optimizer->step(slopes, scalar(kLr));
      }
      std::vector<std::vector<float>> values;
      for (const Tensor& p : store.parameters()) values.push_back(p.to_vector<float>());
      if (first.empty()) first = values;
      EXPECT_EQ(values, first) << name;
    }
  }
}

// A non-finite gradient skips the update of its parameter and state; a non-finite lr skips all.
TEST(Updates, OfWhatIsNotFiniteAreRefused) {
  for (const auto& [name, make] : optimizers()) {
    const auto made = begin<double>(make, file().read("optimizers/" + name + "/start"));
    const golden::Array slopes = file().read("optimizers/" + name + "/gradients");
    const auto values = [&] {
      std::vector<std::vector<double>> all;
      for (const Tensor& t : made->store.persistent())
        if (t.dtype() == DType::f64) all.push_back(t.to_vector<double>());
      return all;
    };
    made->optimizer->step(gradients_of<double>(slopes, 0), scalar(kLr, DType::f64));
    auto before = values();
    const int64_t refused = cpu_context().skipped_updates();
    made->optimizer->step(gradients_of<double>(slopes, 1), scalar(std::nan(""), DType::f64));
    EXPECT_EQ(values(), before) << name;
    EXPECT_EQ(cpu_context().skipped_updates(), refused + 3) << name;
    Tensors bad = gradients_of<double>(slopes, 2);
    for (Tensor& g : bad) {
      auto numbers = g.to_vector<double>();
      numbers.back() = HUGE_VAL;
      g = from_vector(g.shape(), numbers);
    }
    made->optimizer->step(bad, scalar(kLr, DType::f64));
    EXPECT_EQ(values(), before) << name;
    EXPECT_EQ(cpu_context().skipped_updates(), refused + 6) << name;
    bad[0] = gradients_of<double>(slopes, 2)[0];
    made->optimizer->step(bad, scalar(kLr, DType::f64));
    const auto after = values();
    EXPECT_NE(after[0], before[0]) << name;
    EXPECT_EQ(after[1], before[1]) << name;
  }
}

// Per-parameter factors: lr = 0 leaves the parameter unchanged, lr = 0.5 halves the rate.
TEST(Updates, OfEachParameterHaveAScale) {
  for (const auto& [name, make] : optimizers()) {
    const std::string group = "optimizers/" + name;
    const auto made = begin<double>(make, file().read(group + "/start"));
    made->optimizer->set_scales({{.lr = 0}, {.lr = 0.5}, {.lr = 0}});
    const auto half = begin<double>(make, file().read(group + "/start"));
    const Tensors slopes = gradients_of<double>(file().read(group + "/gradients"), 0);
    const auto before = made->store.parameters()[0].to_vector<double>();
    made->optimizer->step(slopes, scalar(kLr, DType::f64));
    half->optimizer->step(slopes, scalar(kLr / 2, DType::f64));
    EXPECT_EQ(made->store.parameters()[0].to_vector<double>(), before) << name;
    EXPECT_EQ(made->store.parameters()[1].to_vector<double>(),
              half->store.parameters()[1].to_vector<double>())
        << name;
    EXPECT_THROW(made->optimizer->set_scales({}), ConfigError);
  }
}

TEST(Updates, SettingsThatMakeNoSenseAreErrors) {
  Store store(1);
  EXPECT_THROW(Rmsprop(store, {}, {.alpha = 1}), ConfigError);
  EXPECT_THROW(Rmsprop(store, {}, {.epsilon = 0}), ConfigError);
  EXPECT_THROW(Lion(store, {}, {.beta1 = -0.1}), ConfigError);
  EXPECT_THROW(Lamb(store, {}, {.weight_decay = -1}), ConfigError);
  EXPECT_THROW(Lars(store, {}, {.trust_coefficient = 0}), ConfigError);
  EXPECT_THROW(Muon(store, {}, {.steps = 0}), ConfigError);
  EXPECT_THROW(Ema(store, {.decay = 1}), ConfigError);
}

// The iteration brings singular values to between 0.5 and 1.3 or so, whatever they were; tall
// matrices are transposed.
TEST(Updates, NewtonAndSchulzMakeMatricesNearlyOrthogonal) {
  for (const double size : {1e-3, 1.0, 1e3}) {
    const Tensor wide = random_normal({5, 9}, 3, 0, size, DType::f64);
    const Tensor x = newton_schulz(wide, 12), y = newton_schulz(transpose(wide), 12);
    const double squares = sum(x * x).item<double>();
    EXPECT_GT(squares, 5 * 0.5);
    EXPECT_LT(squares, 5 * 1.5);
    const auto turned = transpose(y).to_vector<double>(), straight = x.to_vector<double>();
    for (size_t i = 0; i < turned.size(); ++i) EXPECT_NEAR(turned[i], straight[i], 1e-12);
  }
}

TEST(Clipping, ByNormIsThatOfPyTorch) {
  for (const std::string& name : file().members("clipping")) {
    const golden::Array before = file().read("clipping/" + name + "/before");
    const golden::Array after = file().read("clipping/" + name + "/after");
    Tensors gradients;
    for (size_t k = 0; k < kShapes.size(); ++k)
      gradients.push_back(from_vector(kShapes[k], part<double>(before.values, 0, k)));
    const Tensors clipped = clip_by_norm(gradients, name == "shorter" ? 1.5 : 100);
    for (size_t k = 0; k < kShapes.size(); ++k) {
      const auto wanted = part<double>(after.values, 0, k), got = clipped[k].to_vector<double>();
      for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 1e-14) << name;
    }
  }
  EXPECT_TRUE(clip_by_norm({}, 1).empty());
}

// Non-finite values must stay non-finite, or an update would be made of them.
TEST(Clipping, LeavesWhatIsNotFinite) {
  const Tensor x = from_vector<float>({5}, {-3, 0.5, 3, HUGE_VALF, std::nanf("")});
  const auto by_value = clip_by_value({x}, 1)[0].to_vector<float>();
  EXPECT_EQ(std::vector(by_value.begin(), by_value.begin() + 3), (std::vector<float>{-1, 0.5, 1}));
  EXPECT_EQ(by_value[3], HUGE_VALF);
  EXPECT_TRUE(std::isnan(by_value[4]));
  const Tensors both = clip_by_norm({ones({2}), x}, 1);
  for (const Tensor& g : both) EXPECT_TRUE(std::isnan(g.to_vector<float>().back()));
}

TEST(Averages, AreThoseOfTimm) {
  for (const std::string& name : file().members("averages")) {
    const golden::Array values = file().read("averages/" + name + "/values");
    const golden::Array wanted = file().read("averages/" + name + "/averages");
    Store store(1, DType::f64);
    Tensor p = store.parameter("p", {5}, Initializer::normal(1));
    Tensor b = store.buffer("b", {5}, Initializer::ones());
    {
      const Store::EmaScope averages(store);
      store.parameter("p", {5}, Initializer::normal(1));
      store.buffer("b", {5}, Initializer::ones());
      EXPECT_THROW(store.parameter("q", {5}, Initializer::normal(1)), Error);
    }
    Ema ema(store, {.decay = name == "warmup" ? 0.75 : 0.9, .warmup = name == "warmup"});
    EXPECT_EQ(store.find("ema.p").to_vector<double>(), p.to_vector<double>());
    for (size_t step = 0; step < kSteps; ++step) {
      const auto at = values.values.begin() + static_cast<int64_t>(step * 10);
      p.assign(std::span<const double>(std::vector(at, at + 5)));
      b.assign(std::span<const double>(std::vector(at + 5, at + 10)));
      ema.step(scalar(1, DType::f64));
      auto got = store.find("ema.p").to_vector<double>();
      const auto more = store.find("ema.b").to_vector<double>();
      got.insert(got.end(), more.begin(), more.end());
      for (size_t i = 0; i < 10; ++i)
        EXPECT_NEAR(got[i], wanted.values[step * 10 + i], 1e-14) << name << step;
    }
  }
}

}  // namespace
}  // namespace tessera
