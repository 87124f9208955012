// Tests of norms on a GPU: statistics, and the sums of their gradients.
#include "tessera/engine/scope.h"
#include "tessera/graph/capture.h"
#include "tessera/layers/ops/batch_norm.h"
#include "tessera/layers/ops/group_norm.h"
#include "tessera/layers/ops/layer_norm.h"
#include "tessera/layers/shared/channel_blocks.h"
#include "tessera/runtime/context.h"
#include "tessera/tests/engine/device_testing.h"

namespace tessera {
namespace {

class CudaNorms : public OnGpu {};

Tensor values(const Shape& shape, uint64_t key, double mean = 0) {
  return random_normal(shape, key, mean, 1, DType::f64);
}

Tensor positive(const Shape& shape, uint64_t key) {
  return random_uniform(shape, key, 0.5, 2, DType::f64);
}

// Returns y and the updated running statistics of x, gamma, beta, mean and variance.
Tensors batch_norm_of(const Tensors& in) {
  const Tensor mean = copy(in[3]), variance = copy(in[4]);
  const Tensor y = batch_norm(in[0], in[1], in[2], mean, variance, {.momentum = 0.3});
  return {y, mean, variance};
}

Tensors batch_norm_inputs(const Tensor& x) {
  const Shape c{x.shape().back()};
  return {x, positive(c, 2), values(c, 3), values(c, 4), positive(c, 5)};
}

// Channels in packs and not, in several tiles; rows in several blocks, and fewer than lines.
const Shape kShapes[] = {{6, 1},    {5, 3},     {2, 3, 4, 8}, {5000, 3},
                         {9000, 1}, {150, 300}, {200, 130}};

TEST_F(CudaNorms, BatchNormInTraining) {
  TrainingScope training;
  for (const Shape& shape : kShapes) {
    Tensors in = batch_norm_inputs(values(shape, 1, 3));
    in.push_back(values(shape, 6));
    expect_gpu_matches(with_gradients(batch_norm_of, 3), in);
  }
}

TEST_F(CudaNorms, BatchNormInEvaluation) {
  expect_gpu_matches(batch_norm_of, batch_norm_inputs(values({2, 3, 5}, 1)));
}

TEST_F(CudaNorms, LargeMeansCostNoAccuracy) {
  TrainingScope training;
  // The std is a thousandth of the mean, so that float32 leaves the result four digits.
  const Tensors in = batch_norm_inputs(in_dtype(values({20'000, 4}, 1, 1000), DType::f32));
  const auto variance = [](const Tensors& in) { return Tensors{batch_norm_of(in)[2]}; };
  EXPECT_LE(gpu_error(variance, in, DType::f32), 1e-5);
}

TEST_F(CudaNorms, RunningStatisticsRefuseNan) {
  TrainingScope training;
  const Context& gpu = context(Device{DeviceKind::gpu, 0});
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    std::vector<double> all(300 * 2, 1.0);
    all[401] = bad;
    const Tensors in = batch_norm_inputs(from_vector({2, 300}, all));
    const int64_t before = gpu.skipped_updates();
    const Tensors found = run_on_gpu(batch_norm_of, in, DType::f64);
    EXPECT_EQ(gpu.skipped_updates(), before + 1);
    EXPECT_EQ(found[1].to_vector<double>(), in[3].to_vector<double>());
    EXPECT_EQ(found[2].to_vector<double>(), in[4].to_vector<double>());
  }
}

// One block per sample, each with its own statistics, for group norm.
TEST_F(CudaNorms, BlocksWithStatisticsOfTheirOwn) {
  for (const Shape& shape :
       {Shape{3, 10, 4}, Shape{2, 1, 5}, Shape{0, 4, 4}, Shape{2, 70, 129}, Shape{40, 3, 4}}) {
    const ChannelBlocks blocks{shape[0] * shape[1], shape[1]};
    const Shape own{shape[0], shape[2]};
    expect_gpu_matches(
        [&](const Tensors& in) {
          Tensors all = reduce_blocks(block_gradient_sums(in[0], in[1], in[2], in[3], blocks));
          all.push_back(block_moments(in[1], blocks));
          return all;
        },
        {values(shape, 1), values(shape, 2), values(own, 3), positive(own, 4)});
  }
}

// Rows for a warp and for a block; several blocks of rows.
TEST_F(CudaNorms, LayerNorm) {
  for (const Shape& shape : {Shape{1, 3}, Shape{2, 3, 8}, Shape{300, 70}, Shape{3, 1100},
                             Shape{2, 1029}, Shape{0, 4}, Shape{7}}) {
    const Shape c{shape.back()};
    const auto f = [](const Tensors& in) { return Tensors{layer_norm(in[0], in[1], in[2])}; };
    expect_gpu_matches(with_gradients(f, 3),
                       {values(shape, 1, 2), positive(c, 2), values(c, 3), values(shape, 4)});
  }
}

// Returns the op called `name` in a step that computes the gradients of group_norm.
OpPtr op_of_group_norm(std::string_view name, const Shape& x, int64_t groups) {
  const Shape c{x.back()};
  const Graph step = capture(
      [&](const Tensors& t) {
        Tensors leaves;
        for (const Tensor& input : std::span(t).first(3)) leaves.push_back(requires_grad(input));
        const Tensor y = group_norm(leaves[0], leaves[1], leaves[2], {.groups = groups});
        return gradients(y, leaves, t[3]);
      },
      {{DType::f64, x, {}}, {DType::f64, c, {}}, {DType::f64, c, {}}, {DType::f64, x, {}}});
  for (const auto& node : step.nodes)
    if (node.op->name() == name) return node.op;
  return nullptr;
}

// Groups of one channel, of several, and of more than a warp handles.
TEST_F(CudaNorms, StatisticsOfGroupNorm) {
  struct Case {
    Shape x;
    int64_t groups;
  };
  for (const auto& [x, groups] : {Case{{3, 5, 6}, 6}, Case{{3, 2, 2, 6}, 2}, Case{{9, 1, 8}, 1},
                                  Case{{2, 3, 2100}, 2}, Case{{0, 3, 4}, 2}}) {
    const Shape blocks{x[0], 2, x.back()};
    const OpPtr finalise = op_of_group_norm("group_norm_finalise", x, groups);
    ASSERT_NE(finalise, nullptr);
    expect_gpu_matches([&](const Tensors& in) { return apply(finalise, in); },
                       {positive(blocks, 1)});
    const OpPtr means = op_of_group_norm("group_norm_grad_means", x, groups);
    ASSERT_NE(means, nullptr);
    expect_gpu_matches([&](const Tensors& in) { return apply(means, in); },
                       {values(blocks, 2, 1), values({x.back()}, 3, 1)});
  }
}

}  // namespace
}  // namespace tessera
