// Tests of ops along rows: softmax, cross_entropy, top_k_correct, max.
#include "tessera/layers/ops/loss.h"
#include "tessera/layers/ops/metrics.h"
#include "tessera/layers/ops/reduce_max.h"
#include "tessera/layers/ops/softmax.h"
#include "tessera/tests/engine/device_testing.h"

namespace tessera {
namespace {

class CudaRows : public OnGpu {};

// Rows for a warp and for a block, in packs and not; more rows than a block has warps.
const Shape kRows[] = {{1, 1}, {9, 10}, {19, 7}, {3, 64}, {2, 1500}, {2, 1025}};

Tensor values(const Shape& shape, uint64_t key) {
  return random_normal(shape, key, 0, 2, DType::f64);
}

TEST_F(CudaRows, Softmax) {
  for (const Shape& shape : kRows)
    for (Tensor (*f)(const Tensor&) : {softmax, log_softmax})
      expect_gpu_matches(with_gradients([=](const Tensors& in) { return Tensors{f(in[0])}; }, 1),
                         {values(shape, 1), values(shape, 2)}, kComputedTypes);
}

TEST_F(CudaRows, SoftmaxOfLargeNumbersAndNan) {
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const Tensor x = from_vector<double>({4, 3}, {1e4, 1e4 - 1, -1e4, nan, 0, 1,  //
                                                0, -infinity, 1, infinity, 0, 1});
  expect_gpu_matches(
      [](const Tensors& in) {
        return Tensors{softmax(in[0]), log_softmax(in[0])};
      },
      {x});
}

TEST_F(CudaRows, SoftmaxOfNothing) {
  for (const Shape& shape : {Shape{0, 3}, Shape{3, 0}})
    expect_gpu_matches([](const Tensors& in) { return Tensors{softmax(in[0])}; },
                       {values(shape, 1)});
}

Tensor labels(int64_t n, int64_t classes) {
  std::vector<int32_t> all;
  for (int64_t i = 0; i < n; ++i) all.push_back(static_cast<int32_t>(i * 7 % classes));
  return from_vector<int32_t>({n}, all);
}

TEST_F(CudaRows, CrossEntropyOfLabels) {
  for (const Shape& shape : kRows)
    for (const double smoothing : {0.0, 0.1}) {
      const auto f = [=](const Tensors& in) {
        return Tensors{cross_entropy(in[0], in[1], {.label_smoothing = smoothing})};
      };
      expect_gpu_matches(with_gradients(f, 1),
                         {values(shape, 1), labels(shape[0], shape[1]), values({}, 2)},
                         kComputedTypes);
    }
}

TEST_F(CudaRows, CrossEntropyOfTargets) {
  for (const Shape& shape : kRows) {
    const auto f = [](const Tensors& in) {
      return Tensors{cross_entropy(in[0], in[1], {.label_smoothing = 0.1})};
    };
    const Tensor targets = random_uniform(shape, 3, 0, 1, DType::f64);
    expect_gpu_matches(with_gradients(f, 2), {values(shape, 1), targets, values({}, 2)},
                       kComputedTypes);
  }
}

// More rows than the block that adds them has threads.
TEST_F(CudaRows, CrossEntropyOfManyRows) {
  const Shape shape{700, 4};
  expect_gpu_matches([](const Tensors& in) { return Tensors{cross_entropy(in[0], in[1])}; },
                     {values(shape, 1), labels(700, 4)});
}

// The CPU rejects such labels before it runs; a kernel can only return NaN.
TEST_F(CudaRows, ABadLabelGivesNan) {
  for (const int32_t bad : {-1, 3}) {
    const Tensors in{values({2, 3}, 1), from_vector<int32_t>({2}, {1, bad}), ones({}, DType::f64)};
    const auto f = [](const Tensors& in) { return Tensors{cross_entropy(in[0], in[1])}; };
    const Tensors found = run_on_gpu(with_gradients(f, 1), in, DType::f64);
    EXPECT_TRUE(std::isnan(found[0].item<double>()));
    const std::vector<double> slope = found[1].to_vector<double>();
    for (int i = 0; i < 6; ++i) EXPECT_EQ(std::isnan(slope[static_cast<size_t>(i)]), i >= 3) << i;
  }
}

TEST_F(CudaRows, TopKCorrect) {
  for (const Shape& shape : {Shape{1, 1}, Shape{300, 10}, Shape{5, 1501}, Shape{0, 3}, Shape{2, 0}})
    for (const int64_t k : {1, 3})
      expect_gpu_has_cpu_bits(
          [=](const Tensors& in) { return Tensors{top_k_correct(in[0], in[1], k)}; },
          {values(shape, 1), labels(shape[0], std::max<int64_t>(shape[1], 1))});
}

TEST_F(CudaRows, TopKCorrectOfTiesNanAndBadLabels) {
  const double nan = std::nan("");
  const Tensor z = from_vector<double>({6, 2}, {5, 5, 5, 5, nan, nan, nan, 1, 1, nan, 2, 1});
  for (const int32_t label : {-1, 0, 1, 2})
    for (const int64_t k : {1, 2})
      expect_gpu_has_cpu_bits(
          [=](const Tensors& in) { return Tensors{top_k_correct(in[0], in[1], k)}; },
          {z, from_vector<int32_t>({6}, std::vector<int32_t>(6, label))});
}

// Returns equal values, zeros of both signs and NaNs: the bits show which one is found.
Tensor with_ties(const Shape& shape) {
  std::vector<double> all;
  for (int64_t i = 0; i < shape.elements(); ++i) {
    const int64_t kind = i * 7919 % 23;
    all.push_back(kind == 0 && i % 5 == 0 ? std::nan("") : kind < 4 ? -0.0 : kind < 8 ? 0.0 : -1.0);
  }
  return from_vector(shape, all);
}

TEST_F(CudaRows, MaxAndItsGradient) {
  for (const Shape& shape : {Shape{3, 5, 2}, Shape{2, 40, 33}, Shape{1, 1, 1}, Shape{5, 1300, 1}})
    for (int axis = 0; axis < 3; ++axis) {
      Shape y = shape;
      y[axis] = 1;
      const auto f = [=](const Tensors& in) {
        return Tensors{max(in[0], axis, true), argmax(in[0], axis, true)};
      };
      for (const Tensor& x : {values(shape, 1), with_ties(shape)})
        expect_gpu_has_cpu_bits(with_gradients(f, 1), {x, values(y, 2)});
    }
}

TEST_F(CudaRows, MinIsTheNegativesMax) {
  expect_gpu_has_cpu_bits(
      [](const Tensors& in) {
        return Tensors{min(in[0], 1), argmin(in[0], 0)};
      },
      {values({3, 50}, 1)});
}

TEST_F(CudaRows, MaxOfNothing) {
  expect_gpu_has_cpu_bits([](const Tensors& in) { return Tensors{max(in[0], 1)}; },
                          {values({0, 3}, 1)});
}

}  // namespace
}  // namespace tessera
