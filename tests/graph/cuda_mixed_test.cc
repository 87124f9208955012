// One step with ops on the CPU and on a GPU, and copies between them: the CPU's values and
// gradients, with the same bits in both modes and in every schedule of the GPU.
#include "tessera/engine/pointwise.h"
#include "tessera/engine/store.h"
#include "tessera/graph/compile.h"
#include "tessera/graph/compiled_graph.h"
#include "tessera/layers/ops/activation.h"
#include "tessera/layers/ops/matmul.h"
#include "tessera/layers/optimizers/sgd.h"
#include "tessera/runtime/logical_devices.h"
#include "tessera/tests/engine/device_testing.h"
#include "tessera/tests/engine/gpu_schedule.h"

namespace tessera {
namespace {

constexpr Device kHost{}, kGpu{DeviceKind::gpu, 0};

class CudaMixed : public OnGpu {
 protected:
  // Runs ops on the host before, during and after those on `there`. Returns the loss and the
  // gradients of w and v.
  static Tensors step(Device there, const Tensors& in) {
    const Tensor w = requires_grad(in[1]), v = requires_grad(in[2]);
    const Tensor hidden = tanh(matmul(in[0], w));
    Tensor far;
    {
      const DeviceScope scope(there);
      const Tensor sent = copy(hidden, there), weights = copy(v, there);
      far = relu(matmul(sent, weights)) * 2.0 + sent;
    }
    const Tensor beside = sigmoid(hidden * hidden);
    Tensor back = copy(far, kHost) * beside;
    {
      const DeviceScope scope(there);
      back = copy(exp(copy(back, there) * -0.5), kHost);
    }
    const Tensor loss = sum(back * back);
    Tensors results{loss};
    const Tensors tracked{w, v};
    for (const Tensor& slope : gradients(loss, tracked)) results.push_back(slope);
    return results;
  }

  static Tensors arguments(DType dtype) {
    return {random_normal({37, 33}, 1, 0, 1, dtype), random_normal({33, 29}, 2, 0, 0.2, dtype),
            random_normal({29, 29}, 3, 0, 0.2, dtype)};
  }

  // Returns the results of three calls, the last with other arguments.
  static std::vector<std::vector<double>> run(Device there, DType dtype, bool eager) {
    auto compiled = compile([&](const Tensors& in) { return step(there, in); }, {.eager = eager});
    std::vector<std::vector<double>> values;
    for (int i = 0; i < 3; ++i) {
      Tensors in = arguments(dtype);
      if (i == 2) in[0] = in[0] * 0.5;
      for (const Tensor& y : compiled(in)) values.push_back(as_doubles(y));
    }
    if (!eager && there == kGpu) {
      EXPECT_EQ(compiled.step(0).compiled_graph()->plans.size(), 2u) << "an arena for each device";
    }
    return values;
  }
};

TEST_F(CudaMixed, ValuesAndGradientsAreTheCpus) {
  for (const DType dtype : {DType::f32, DType::f64})
    for (const bool eager : {false, true}) {
      const auto right = run(kHost, dtype, eager), found = run(kGpu, dtype, eager);
      ASSERT_EQ(found.size(), right.size());
      for (size_t r = 0; r < right.size(); ++r) {
        double difference = 0, largest = 0;
        ASSERT_EQ(found[r].size(), right[r].size());
        for (size_t i = 0; i < right[r].size(); ++i) {
          difference = std::max(difference, std::abs(found[r][i] - right[r][i]));
          largest = std::max(largest, std::abs(right[r][i]));
        }
        EXPECT_LE(difference, gpu_tolerance(dtype) * largest) << name_of(dtype) << ", result " << r;
      }
    }
}

TEST_F(CudaMixed, BothModesAndEveryScheduleGiveTheSameBits) {
  const auto right = run(kGpu, DType::f32, false);
  for (const std::string& text : GpuSchedule::all()) {
    const GpuSchedule schedule(text);
    EXPECT_TRUE(run(kGpu, DType::f32, false) == right) << text;
    EXPECT_TRUE(run(kGpu, DType::f32, true) == right) << text << ", eager mode";
  }
}

// Parameters on both devices, updated where they are.
TEST_F(CudaMixed, ParametersLearnOnBothDevices) {
  const auto learn = [](Device there, bool eager) {
    Store near(1), far(2);
    const Tensor a = near.parameter("a", {16, 16}, Initializer::normal(0.2));
    Tensor b;
    {
      const DeviceScope scope(there);
      b = far.parameter("b", {16, 16}, Initializer::normal(0.2));
    }
    Sgd near_sgd(near, near.parameters(), {.momentum = 0.9});
    std::optional<Sgd> far_sgd;
    {
      const DeviceScope scope(there);
      far_sgd.emplace(far, far.parameters(), SgdParams{.momentum = 0.9});
    }
    auto compiled = compile(
        [&](const Tensor& x, const Tensor& lr) {
          Tensor y = tanh(matmul(x, a));
          {
            const DeviceScope scope(there);
            y = copy(matmul(copy(y, there), b), kHost);
          }
          const Tensor loss = sum(y * y);
          const Tensors both{a, b};
          const Tensors slopes = gradients(loss, both);
          near_sgd.step(Tensors{slopes[0]}, lr);
          const DeviceScope scope(there);
          far_sgd->step(Tensors{slopes[1]}, copy(lr, there));
          return loss;
        },
        {.eager = eager});
    std::vector<double> values;
    const Tensor x = random_normal({9, 16}, 5), lr = scalar(0.01, DType::f64);
    for (int i = 0; i < 5; ++i) values.push_back(compiled(x, lr).item<double>());
    for (const Store* store : {&near, &far})
      for (const Tensor& tensor : store->persistent())
        for (const double value : as_doubles(copy(tensor, kHost))) values.push_back(value);
    return values;
  };
  const std::vector<double> right = learn(kHost, false), found = learn(kGpu, false);
  ASSERT_EQ(found.size(), right.size());
  for (size_t i = 0; i < right.size(); ++i) EXPECT_NEAR(found[i], right[i], 1e-5 * right[0]);
  EXPECT_LT(found[4], found[0]);
  for (const char* text : {"lazy", "random:3"}) {
    const GpuSchedule schedule(text);
    for (const bool eager : {false, true}) EXPECT_TRUE(learn(kGpu, eager) == found) << text;
  }
}

// Two parts of a GPU have separate streams: one step goes back and forth between them.
TEST_F(CudaMixed, PartsOfAGpuWorkOnOneStep) {
  configure_devices({{"gpu:0", 2, size_t{64} << 20}});
  const auto run = [](Device one, Device two, bool eager) {
    auto compiled = compile(
        [&](const Tensor& x) {
          const DeviceScope here(one);
          Tensor y = copy(x, one), sum_of_all = y * 0.0;
          for (int i = 0; i < 4; ++i) {
            y = tanh(y * 1.5);
            Tensor there;
            {
              const DeviceScope scope(two);
              there = exp(copy(y, two) * -0.5);
              const DeviceScope back(one);
              const Tensor again = tanh(y + 0.25);  // computed while no copy is pending
              const DeviceScope there_again(two);
              there = there + copy(again, two);
            }
            sum_of_all = sum_of_all + copy(there, one);
          }
          return copy(sum_of_all, kHost);
        },
        {.eager = eager});
    std::vector<std::vector<double>> values;
    for (int i = 0; i < 3; ++i)
      values.push_back(as_doubles(compiled(random_normal({40, 50}, static_cast<uint64_t>(i)))));
    return values;
  };
  const auto right = run(kGpu, kGpu, false);
  for (const std::string& text : GpuSchedule::all()) {
    const GpuSchedule schedule(text);
    for (const bool eager : {false, true})
      EXPECT_TRUE(run(kGpu, Device{DeviceKind::gpu, 1}, eager) == right) << text << eager;
  }
  configure_devices({});
}

// The source is in memory that the GPU reads itself; it may be overwritten when copy() returns.
TEST_F(CudaMixed, EagerCopiesHaveReadTheirSource) {
  const GpuSchedule lazy("lazy");
  auto compiled = compile([](const Tensors& in) { return Tensors{sum(in[0])}; });
  Tensor source, there;
  {
    const DeviceScope scope(kGpu);
    source = compiled.prepare({{DType::f32, {16}, kGpu}}).host_input(0);
  }
  source.assign(std::span<const float>(std::vector<float>(16, 3.f)));
  there = copy(source, kGpu);
  source.assign(std::span<const float>(std::vector<float>(16, 4.f)));
  EXPECT_EQ(as_doubles(copy(there, kHost)), std::vector<double>(16, 3));
}

}  // namespace
}  // namespace tessera
