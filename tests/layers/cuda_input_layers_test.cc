// Dropout and image_normalize have the bits of the CPU on a GPU.
#include "tessera/engine/autograd.h"
#include "tessera/engine/scope.h"
#include "tessera/layers/ops/dropout.h"
#include "tessera/layers/ops/image_normalize.h"
#include "tessera/tests/engine/device_testing.h"

namespace tessera {
namespace {

using CudaInputLayers = OnGpu;

TEST_F(CudaInputLayers, DropoutAndItsGradient) {
  for (const Shape& shape : {Shape{1}, Shape{7}, Shape{3, 4}, Shape{5, 37}, Shape{0, 8},
                             Shape{9, 3, 40}, Shape{2, 4099}})
    for (const int64_t step : {int64_t{3}, int64_t{1} << 40}) {
      const Tensor x = random_normal(shape, 1), dy = random_normal(shape, 2);
      const Tensor position = from_vector<int64_t>({2}, {step, 17});
      expect_gpu_has_cpu_bits(
          [&](const Tensors& in) {
            const TrainingScope training;
            const RandomScope random(7, in[2]);
            const Tensor leaf = requires_grad(detach(in[0]));
            const Tensor y = dropout(leaf, 0.3);
            return Tensors{detach(y), gradients(y, std::vector{leaf}, in[1])[0]};
          },
          {x, dy, position});
    }
}

TEST_F(CudaInputLayers, ImagesOfEveryByteAndOfManyChannels) {
  for (const int64_t channels : {1, 3, 4, 11})
    for (const int64_t pixels : {0, 1, 5, 256, 1000}) {
      ImageNormalizeParams params;
      for (int64_t c = 0; c < channels; ++c) {
        params.mean.push_back(0.1 * static_cast<double>(c));
        params.stddev.push_back(0.3 + 0.01 * static_cast<double>(c));
      }
      std::vector<uint8_t> bytes;
      for (int64_t i = 0; i < channels * pixels; ++i)
        bytes.push_back(static_cast<uint8_t>(i / channels + i % channels * 77));
      const Tensor x = from_vector<uint8_t>({1, pixels, 1, channels}, bytes);
      for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
        params.dtype = dtype;
        for (const Placed placed : {Placed::aligned, Placed::off_by_one})
          EXPECT_TRUE(gpu_has_cpu_bits(
              [&](const Tensors& in) { return Tensors{image_normalize(in[0], params)}; }, {x},
              dtype, placed))
              << channels << " " << pixels;
      }
    }
}

}  // namespace
}  // namespace tessera
