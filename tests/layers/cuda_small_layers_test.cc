// Compares activations, layers that consist of other ops, and their gradients on a GPU with the
// CPU.
#include "tessera/engine/scope.h"
#include "tessera/layers/ops/activation.h"
#include "tessera/layers/ops/concat.h"
#include "tessera/layers/ops/dropout.h"
#include "tessera/layers/ops/local_response_norm.h"
#include "tessera/layers/ops/pool2d.h"
#include "tessera/tests/engine/device_testing.h"

namespace tessera {
namespace {

using CudaSmallLayers = OnGpu;
using Layer = std::function<Tensor(const Tensor&)>;

void expect_matches(const Layer& layer, const Shape& shape) {
  const Tensor x = random_normal(shape, 1, 0, 3, DType::f64);
  const Tensor dy = random_normal(layer(x).shape(), 2, 0, 1, DType::f64);
  expect_gpu_matches(with_gradients([&](const Tensors& in) { return Tensors{layer(in[0])}; }, 1),
                     {x, dy});
}

TEST_F(CudaSmallLayers, Activations) {
  const std::vector<Layer> layers{hard_sigmoid,
                                  hard_swish,
                                  [](const Tensor& x) { return leaky_relu(x, 0.1); },
                                  [](const Tensor& x) { return elu(x, 1.5); },
                                  mish,
                                  silu,
                                  gelu};
  for (const Layer& layer : layers)
    for (const Shape& shape : {Shape{5}, Shape{3, 4, 33}}) expect_matches(layer, shape);
}

TEST_F(CudaSmallLayers, SlopesOfPreluAreTrained) {
  const Shape y{3, 4, 5};
  const auto normal = [](const Shape& shape, uint64_t key) {
    return random_normal(shape, key, 0, 1, DType::f64);
  };
  for (const int64_t slopes : {1, 5})
    expect_gpu_matches(
        with_gradients([](const Tensors& in) { return Tensors{prelu(in[0], in[1])}; }, 2),
        {normal(y, 1), normal({slopes}, 2), normal(y, 3)}, kComputedTypes);
}

TEST_F(CudaSmallLayers, MadeOfOtherOps) {
  expect_matches([](const Tensor& x) { return adaptive_average_pool2d(x, {3, 2}); }, {2, 5, 4, 3});
  expect_matches([](const Tensor& x) { return adaptive_max_pool2d(x, {3, 2}); }, {2, 5, 4, 3});
  expect_matches([](const Tensor& x) { return channel_shuffle(x, 3); }, {2, 5, 4, 12});
  expect_matches([](const Tensor& x) { return local_response_norm(x, {.alpha = 0.5}); },
                 {2, 3, 2, 7});
}

TEST_F(CudaSmallLayers, StochasticDepthDrawsTheSame) {
  const auto layer = [](const Tensors& in) {
    const TrainingScope training;
    const RandomScope random(1, in[1]);
    return Tensors{stochastic_depth(in[0], 0.5)};
  };
  expect_gpu_has_cpu_bits(layer,
                          {random_normal({9, 3, 5}, 1, 0, 1, DType::f64), zeros({2}, DType::i64)});
}

}  // namespace
}  // namespace tessera
