// Compares networks with those of torchvision and timm that have the same weights
// (tests/golden/README.md).
#include <cmath>

#include <gtest/gtest.h>

#include "tessera/engine/storage.h"
#include "tessera/engine/structural.h"
#include "tessera/models/zoo/zoo.h"
#include "tessera/tests/golden/formula.h"
#include "tessera/tests/golden/golden_file.h"

namespace tessera {
namespace {

constexpr int64_t kClasses = 10, kBatch = 2;

const golden::File& file() {
  static const golden::File opened(std::string(TESSERA_SOURCE_DIR) + "/tests/golden/networks.h5");
  return opened;
}

void fill(const std::string& model, Tensor tensor) {
  const std::string name = tensor.impl()->storage->name;
  const std::string kind = name.substr(name.rfind('.') + 1);
  const Shape& shape = tensor.shape();
  double scale = 0.25, offset = kind == "gamma" || kind == "running_var" ? 1 : 0;
  if (kind == "weight")
    scale = std::sqrt(file().number(model, "gain") /
                      static_cast<double>(shape.elements(1, shape.rank())));
  const auto values = golden::uniform(model + "/" + name, shape.elements(), scale, offset);
  visit_float(tensor.dtype(), [&](auto zero) {
    const std::vector<decltype(zero)> widened(values.begin(), values.end());
    tensor.assign(std::span(widened));
  });
}

// Returns the largest difference, relative to the largest logit.
double distance_of(const std::string& model, DType dtype) {
  const int64_t side = static_cast<int64_t>(file().number(model, "side"));
  Store store(1, dtype);
  const auto network =
      make_model(model, {.height = side, .width = side, .channels = 3, .classes = kClasses}, store);
  for (const Tensors& tensors : {store.parameters(), store.buffers()})
    for (const Tensor& tensor : tensors) fill(model, tensor);
  const Shape shape{kBatch, side, side, 3};
  const Tensor x = from_vector(shape, golden::uniform(model + "/x", shape.elements(), 1));
  const auto logits = cast((*network)(cast(x, dtype)), DType::f64).to_vector<double>();
  const auto wanted = file().read(model + "/logits").values;
  EXPECT_EQ(logits.size(), wanted.size());
  double apart = 0, largest = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const double distance = std::abs(logits[i] - wanted[i]);
    apart = distance <= apart ? apart : distance;  // keeps a NaN
    largest = std::max(largest, std::abs(wanted[i]));
  }
  return apart / largest;
}

class Networks : public testing::TestWithParam<std::string> {};

TEST_P(Networks, Float32IsWithin1e5OfPyTorch) {
  EXPECT_LE(distance_of(GetParam(), DType::f32), 1e-5);
}

TEST_P(Networks, Float64IsWithinItsRounding) {
  EXPECT_LE(distance_of(GetParam(), DType::f64), 1e-11);
}

INSTANTIATE_TEST_SUITE_P(Zoo, Networks, testing::ValuesIn(file().members("/")),
                         [](const auto& named) { return named.param; });

}  // namespace
}  // namespace tessera
