// ZooStep: a training step of any network of the zoo, built as sessions build it. It can run
// eagerly, or be captured with options that a session does not have. Batches come from a formula.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "tessera/engine/autograd.h"
#include "tessera/engine/scope.h"
#include "tessera/graph/compile.h"
#include "tessera/layers/ops/image_normalize.h"
#include "tessera/layers/ops/loss.h"
#include "tessera/layers/ops/metrics.h"
#include "tessera/layers/optimizers/sgd.h"
#include "tessera/models/zoo/zoo.h"
#include "tessera/tests/golden/formula.h"

namespace tessera::testing_zoo {

inline constexpr double kLearningRate = 0.02;

// Returns the image size a network was made for: 28x28x1, 32x32x3 or 224x224x3 with 1000 classes.
inline ModelOptions natural_options(const std::string& model) {
  for (const char* name : {"mlp", "lenet5", "cnn_bn"})
    if (model == name) return {.height = 28, .width = 28, .channels = 1};
  for (const char* name : {"resnet20", "resnet32", "resnet44", "resnet56", "resnet110",
                           "resnet18_cifar", "wide_resnet", "densenet_bc"})
    if (model == name) return {};
  return {.height = 224, .width = 224, .channels = 3, .classes = 1000};
}

// Returns natural_options() with images and classes small enough for a test.
inline ModelOptions small_options(const std::string& model) {
  ModelOptions options = natural_options(model);
  options.height = std::min<int64_t>(options.height, 64);
  options.width = std::min<int64_t>(options.width, 64);
  options.classes = std::min<int64_t>(options.classes, 100);
  return options;
}

// Fixes the number of threads, for tests of memory: CPU kernels take scratch for each thread.
class Threads {
 public:
  explicit Threads(int count) : scope_(with(count)) {}

 private:
  static Settings with(int count) {
    Settings now = settings();
    now.threads = count;
    return now;
  }
  SettingsScope scope_;
};

// `precision` is the dtype of the images in the network, and so of its activations.
//
// Arguments: images uint8 [batch x H x W x C], labels int32 [batch], lr float64 [], position int64
// [2]. Results: loss and number of correct predictions.
class ZooStep {
 public:
  ZooStep(const std::string& model, const ModelOptions& options, int64_t batch,
          DType precision = DType::f32)
      : options_(options),
        batch_(batch),
        precision_(precision),
        network_(make_model(model, options, store)),
        sgd_(store, store.parameters(), {.momentum = 0.9, .nesterov = true, .weight_decay = 1e-4}) {
  }

  Tensors operator()(const Tensors& arguments) {
    TrainingScope training;
    RandomScope random(1, arguments[3]);
    const auto channels = static_cast<size_t>(options_.channels);
    const ImageNormalizeParams normalize{std::vector<double>(channels, 0.5),
                                         std::vector<double>(channels, 0.25), precision_};
    Tensor logits = (*network_)(image_normalize(arguments[0], normalize));
    const Tensor loss = cross_entropy(logits, arguments[1]);
    const Tensor correct = top_k_correct(logits, arguments[1]);
    logits = Tensor();
    sgd_.step(gradients(loss, store.parameters()), arguments[2]);
    return {loss, correct};
  }

  StepFunction function() {
    return [this](const Tensors& arguments) { return (*this)(arguments); };
  }

  Specs specs() const {
    return {{DType::u8, {batch_, options_.height, options_.width, options_.channels}, {}},
            {DType::i32, {batch_}, {}},
            {DType::f64, {}, {}},
            {DType::i64, {2}, {}}};
  }

  // Returns the arguments of step `index`.
  Tensors arguments(int64_t index) const {
    const Specs wanted = specs();
    const std::string number = std::to_string(index);
    const auto pixels = golden::integers("pixels/" + number, wanted[0].shape.elements(), 256);
    const auto labels = golden::integers("labels/" + number, batch_, options_.classes);
    return {from_vector(wanted[0].shape, std::vector<uint8_t>(pixels.begin(), pixels.end())),
            from_vector(wanted[1].shape, std::vector<int32_t>(labels.begin(), labels.end())),
            scalar(kLearningRate, DType::f64), from_vector<int64_t>({2}, {index, index * batch_})};
  }

  // Returns every persistent value: parameters, optimizer state, statistics.
  std::vector<float> values() const {
    std::vector<float> all;
    for (const Tensor& tensor : store.persistent())
      for (float value : tensor.to_vector<float>()) all.push_back(value);
    return all;
  }

  Store store{3};

 private:
  ModelOptions options_;
  int64_t batch_;
  DType precision_;
  std::unique_ptr<Module> network_;
  Sgd sgd_;
};

}  // namespace tessera::testing_zoo
