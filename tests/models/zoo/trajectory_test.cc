// Training from the same weights on the same data as PyTorch: the losses of 100 steps and the final
// weights (tests/golden/README.md).
#include <cmath>

#include <gtest/gtest.h>

#include "tessera/engine/autograd.h"
#include "tessera/engine/scope.h"
#include "tessera/engine/storage.h"
#include "tessera/engine/structural.h"
#include "tessera/graph/compile.h"
#include "tessera/layers/ops/loss.h"
#include "tessera/layers/optimizers/sgd.h"
#include "tessera/models/zoo/zoo.h"
#include "tessera/tests/golden/formula.h"
#include "tessera/tests/golden/golden_file.h"

namespace tessera {
namespace {

const golden::File& file() {
  static const golden::File opened(TESSERA_SOURCE_DIR "/tests/golden/trajectories.h5");
  return opened;
}

// The hyperparameters of a group of the file.
struct Recipe {
  explicit Recipe(const std::string& model)
      : model(model),
        batch(integer("batch")),
        batches(integer("batches")),
        classes(integer("classes")),
        steps(integer("steps")) {
    for (double size : file().numbers(model, "image")) image.push_back(static_cast<int64_t>(size));
    for (double size : file().numbers(model, "tile")) tile.push_back(static_cast<int64_t>(size));
  }
  double number(const std::string& key) const { return file().number(model, key); }
  int64_t integer(const std::string& key) const { return static_cast<int64_t>(number(key)); }
  std::unique_ptr<Module> make_network(Store& store) const {
    ModelOptions options;
    options.height = image[0];
    options.width = image[1];
    options.channels = image[2];
    options.classes = classes;
    return make_model(model, options, store);
  }

  std::string model;
  int64_t batch, batches, classes, steps;
  std::vector<int64_t> image, tile;  // height, width, channels; height, width of a pattern
};

struct Batch {
  Tensor images, labels;
};

Batch make_batch(const Recipe& r, int64_t index, DType dtype) {
  const int64_t height = r.image[0], width = r.image[1], channels = r.image[2];
  const int64_t pixels = height * width * channels;
  const std::string number = std::to_string(index);
  const auto labels = golden::integers(r.model + "/labels/" + number, r.batch, r.classes);
  auto images = golden::uniform(r.model + "/noise/" + number, r.batch * pixels, r.number("noise"));
  const int64_t tile = r.tile[0] * r.tile[1] * channels;
  const auto patterns = golden::uniform(r.model + "/patterns", r.classes * tile, 1);
  for (int64_t i = 0; i < r.batch * pixels; ++i) {
    const int64_t n = i / pixels, y = i / (width * channels) % height, x = i / channels % width;
    const int64_t at = labels[n] * tile + (y % r.tile[0] * r.tile[1] + x % r.tile[1]) * channels;
    images[i] = patterns[at + i % channels] + images[i];
  }
  const Tensor x = from_vector({r.batch, height, width, channels}, images);
  return {cast(x, dtype),
          from_vector({r.batch}, std::vector<int32_t>(labels.begin(), labels.end()))};
}

std::string name_of(const Tensor& tensor) { return tensor.impl()->storage->name; }

// Sets every parameter from its formula. The file lists them in the order of the modules.
void set_parameters(const Recipe& r, const Store& store) {
  const auto specs = file().texts(r.model + "/parameter_specs");
  ASSERT_EQ(specs.size(), store.parameters().size());
  for (size_t i = 0; i < specs.size(); ++i) {
    const golden::Spec spec = golden::parse_spec(specs[i]);
    Tensor parameter = store.parameters()[i];
    ASSERT_EQ(r.model + "/" + name_of(parameter), spec.name);
    ASSERT_EQ(parameter.shape(), Shape(spec.shape)) << spec.name;
    const auto values = golden::floats(spec);
    visit_float(parameter.dtype(), [&](auto zero) {
      const std::vector<decltype(zero)> widened(values.begin(), values.end());
      parameter.assign(std::span(widened));
    });
  }
}

// Compares sums and sums of absolute values with a [n, 2] data set and its list of names.
void expect_sums(const Recipe& r, const std::string& what,
                 const std::function<Tensor(const std::string&)>& find) {
  const auto names = file().texts(r.model + "/" + what + "_names");
  const auto sums = file().read(r.model + "/" + what + "_sums").values;
  for (size_t i = 0; i < names.size(); ++i) {
    const Tensor tensor = find(names[i]);
    ASSERT_TRUE(tensor.defined()) << names[i];
    double sum = 0, size = 0;
    for (double value : tensor.to_vector<double>()) sum += value, size += std::abs(value);
    EXPECT_NEAR(sum, sums[2 * i], 1e-6 * sums[2 * i + 1]) << what << " " << names[i];
    EXPECT_NEAR(size, sums[2 * i + 1], 1e-6 * sums[2 * i + 1]) << what << " " << names[i];
  }
}

void expect_first_gradients(const std::string& model) {
  const Recipe r(model);
  Store store(1, DType::f64);
  const auto network = r.make_network(store);
  set_parameters(r, store);
  TrainingScope training;
  const Batch first = make_batch(r, 0, DType::f64);
  const Tensors grads =
      gradients(cross_entropy((*network)(first.images), first.labels), store.parameters());
  expect_sums(r, "gradient", [&](const std::string& name) {
    for (size_t i = 0; i < grads.size(); ++i) {
      if (name_of(store.parameters()[i]) == name) return grads[i];
    }
    return Tensor();
  });
}

// Trains and compares the loss of every step; in float64 also the weights.
void run(const std::string& model, DType dtype, int64_t steps, bool eager, double tolerance) {
  const Recipe r(model);
  Store store(1, dtype);
  const auto network = r.make_network(store);
  Sgd sgd(store, store.parameters(),
          {.momentum = r.number("momentum"),
           .nesterov = r.integer("nesterov") != 0,
           .weight_decay = r.number("weight_decay")});
  set_parameters(r, store);
  const Tensor lr = scalar(r.number("lr"), DType::f64);
  const auto losses = file().read(model + (dtype == DType::f64 ? "/losses_f64" : "/losses_f32"));

  std::vector<Batch> batches;
  for (int64_t b = 0; b < r.batches; ++b) batches.push_back(make_batch(r, b, dtype));
  auto step = compile(
      [&](const Tensor& images, const Tensor& labels, const Tensor& rate) {
        TrainingScope training;
        const Tensor loss = cross_entropy((*network)(images), labels);
        sgd.step(gradients(loss, store.parameters()), rate);
        return loss;
      },
      {.eager = eager});
  double last = 0;
  for (int64_t t = 0; t < steps; ++t) {
    const Batch& batch = batches[static_cast<size_t>(t % r.batches)];
    const double loss = step(batch.images, batch.labels, lr).item<double>();
    const double wanted = losses.values[static_cast<size_t>(t)];
    ASSERT_NEAR(loss, wanted, tolerance * wanted) << "step " << t;
    last = loss;
  }
  if (steps < r.steps) return;
  EXPECT_LT(last, losses.values[0]);  // the loss falls
  if (dtype == DType::f64) {
    expect_sums(r, "final", [&](const std::string& name) { return store.find(name); });
  }
}

TEST(Trajectory, TheFirstGradientsAreThoseOfPyTorch) {
  expect_first_gradients("lenet5");
  expect_first_gradients("resnet20");
}

TEST(Trajectory, LeNetFollowsPyTorchFor100StepsInFloat64) {
  run("lenet5", DType::f64, 100, true, 1e-6);
}

TEST(Trajectory, ResNet20FollowsPyTorchFor100StepsInFloat64) {
  run("resnet20", DType::f64, 100, false, 1e-6);
}

TEST(Trajectory, LeNetFollowsPyTorchFor10StepsInFloat32) {
  run("lenet5", DType::f32, 10, false, 1e-4);
}

TEST(Trajectory, ResNet20FollowsPyTorchFor10StepsInFloat32) {
  run("resnet20", DType::f32, 10, true, 1e-4);
}

}  // namespace
}  // namespace tessera
