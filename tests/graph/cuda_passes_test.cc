// Tests which ops are fused into the product of a linear layer on a GPU, with the same bits.
#include <dlfcn.h>

#include "tessera/graph/compile.h"
#include "tessera/graph/compiled_graph.h"
#include "tessera/layers/ops/activation.h"
#include "tessera/layers/ops/linear.h"
#include "tessera/layers/ops/matmul.h"
#include "tessera/tests/engine/device_testing.h"

namespace tessera {
namespace {

constexpr Device kGpu{DeviceKind::gpu, 0};

// Returns the number of our kernels that a simulated GPU has run; 0 on a real GPU.
long kernels_run() {
  void* const found = dlsym(RTLD_DEFAULT, "cuda_double_counts_now");
  if (found == nullptr) return 0;
  struct Counts {  // cuda_double_counts
    long allocations, frees, pinned_allocations, kernels, others[6];
  };
  return reinterpret_cast<Counts (*)()>(found)().kernels;
}

class CudaPasses : public OnGpu {
 protected:
  static std::string names(const Graph& graph) {
    std::string text;
    for (const Node& node : graph.nodes)
      text += (text.empty() ? "" : " ") + std::string(node.op->name());
    return text;
  }

  // Returns the nodes of f on a GPU after fusion. Expects the bits of the unfused nodes and of
  // eager mode.
  static std::string fused(const StepFunction& f, const Tensors& host, DType dtype,
                           Placed placed = Placed::aligned) {
    const NoGradScope no_grad;
    Tensors in;
    for (const Tensor& x : host) in.push_back(on_gpu(in_dtype(x, dtype), placed));
    const DeviceScope scope(kGpu);
    // Read inside the step, because arguments would be copied into aligned slots.
    const auto step = [&](const Tensors&) { return f(in); };
    auto whole = compile(step), apart = compile(step, {.disabled_passes = {"fuse_epilogues"}}),
         eager = compile(step, {.eager = true});
    const auto bits = [](const Tensor& y) {
      const Tensor host = copy(y, Device{});
      return std::vector<char>(host.impl()->data(), host.impl()->data() + host.spec().bytes());
    };
    const Tensor found = whole.call({})[0];
    EXPECT_EQ(bits(found), bits(apart.call({})[0]));
    EXPECT_EQ(bits(found), bits(eager.call({})[0]));
    return names(whole.prepare(Specs{}).compiled_graph()->graph);
  }

  static Tensor noise(const Shape& shape, uint64_t seed) { return random_normal(shape, seed); }
};

TEST_F(CudaPasses, ABiasGoesIntoTheProduct) {
  const auto layer = [](const Tensors& in) { return Tensors{linear(in[0], in[1], in[2])}; };
  for (const DType dtype : {DType::f32, DType::f64})
    for (const Placed placed : {Placed::aligned, Placed::off_by_one})
      for (const auto& [m, n, k] : {std::array<int64_t, 3>{7, 5, 3},
                                    {1, 1, 1},
                                    {33, 1, 65},
                                    {1, 33, 2},
                                    {65, 130, 9},
                                    {0, 4, 3},
                                    {4, 0, 3},
                                    {4, 5, 0}}) {
        const Tensors in{noise({m, k}, 1), noise({n, k}, 2), noise({n}, 3)};
        EXPECT_EQ(fused(layer, in, dtype, placed), "matmul") << m << "x" << n << "x" << k;
        EXPECT_LE(gpu_error(layer, in, dtype, placed), gpu_tolerance(dtype));
      }
}

// If everything is aligned and the library adds the bias, no kernel follows the product.
TEST_F(CudaPasses, TheLibraryAddsTheBias) {
  const NoGradScope no_grad;
  const Tensor x = copy(noise({9, 4}, 1), kGpu), w = copy(noise({6, 4}, 2), kGpu),
               b = copy(noise({6}, 3), kGpu);
  const DeviceScope scope(kGpu);
  auto step = compile([&](const Tensors&) { return Tensors{linear(x, w, b)}; });
  step.call({});
  const long before = kernels_run();
  step.call({});
  EXPECT_EQ(kernels_run(), before);
}

TEST_F(CudaPasses, ABiasOfPairsAndOfAnyOrder) {
  const auto pairs = [](const Tensors& in) { return Tensors{bias(matmul(in[0], in[1]), in[2])}; };
  EXPECT_EQ(fused(pairs, {noise({3, 5, 4}, 1), noise({3, 4, 6}, 2), noise({6}, 3)}, DType::f32),
            "matmul");
  const auto first = [](const Tensors& in) { return Tensors{in[2] + matmul(in[0], in[1])}; };
  EXPECT_EQ(fused(first, {noise({5, 4}, 1), noise({4, 6}, 2), noise({1, 6}, 3)}, DType::f32),
            "matmul");
}

TEST_F(CudaPasses, WhatTheLibraryDoesNotComputeStaysApart) {
  const Tensors in{noise({5, 4}, 1), noise({6, 4}, 2), noise({6}, 3), noise({5, 1}, 4),
                   noise({5, 6}, 5)};
  const auto steps = [&](const StepFunction& f) { return fused(f, in, DType::f32); };
  const auto product = [](const Tensors& x) { return matmul(x[0], x[1], {.transpose_b = true}); };
  EXPECT_EQ(steps([](const Tensors& x) { return Tensors{relu(linear(x[0], x[1], x[2]))}; }),
            "matmul bias+relu");
  EXPECT_EQ(steps([](const Tensors& x) { return Tensors{gelu(linear(x[0], x[1], x[2]))}; }),
            "matmul bias+gelu");
  EXPECT_EQ(steps([&](const Tensors& x) { return Tensors{relu(product(x))}; }), "matmul relu");
  EXPECT_EQ(steps([&](const Tensors& x) { return Tensors{product(x) + x[3]}; }), "matmul add");
  EXPECT_EQ(steps([&](const Tensors& x) { return Tensors{product(x) + x[4]}; }), "matmul add");
  EXPECT_EQ(steps([&](const Tensors& x) { return Tensors{product(x) * x[2]}; }), "matmul mul");
  EXPECT_EQ(steps([&](const Tensors& x) {
              const Tensor y = product(x);
              return Tensors{y + y};
            }),
            "matmul add");
}

// A product that is not finite is visible after the layer.
TEST_F(CudaPasses, NanGoesThroughALayerWithRelu) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor x = copy(from_vector<float>({2, 2}, {1, nan, -1, -1}), kGpu),
               w = copy(from_vector<float>({2, 2}, {1, 1, 1, 1}), kGpu),
               b = copy(from_vector<float>({2}, {0, 0}), kGpu);
  const DeviceScope scope(kGpu);
  const NoGradScope no_grad;
  auto step = compile([&](const Tensors&) { return Tensors{relu(linear(x, w, b))}; });
  const std::vector<float> y = step.call({})[0].to_vector<float>();
  EXPECT_TRUE(std::isnan(y[0]) && std::isnan(y[1]));
  EXPECT_EQ(y[2], 0);
}

}  // namespace
}  // namespace tessera
