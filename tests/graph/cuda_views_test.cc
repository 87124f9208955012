// Views at addresses that wide loads and library plans do not allow: of arguments, parameters and
// intermediates. Steps give the bits of eager mode and the values of the CPU.
#include "tessera/engine/store.h"
#include "tessera/graph/compile.h"
#include "tessera/graph/compiled_graph.h"
#include "tessera/graph/program.h"
#include "tessera/layers/conv2d/conv2d.h"
#include "tessera/layers/ops/linear.h"
#include "tessera/layers/ops/pool2d.h"
#include "tessera/layers/ops/softmax.h"
#include "tessera/runtime/error.h"
#include "tessera/tests/engine/device_testing.h"

namespace tessera {
namespace {

using CudaViews = OnGpu;

// Returns the last rows of x, which have an odd number of elements each.
Tensor behind(const Tensor& x) { return rows(x, 1, x.shape()[0]); }

// Returns f as a step, whose arguments are in slots.
DeviceFunction compiled(const StepFunction& f) {
  return [=](const Tensors& in) { return compile(f).call(in); };
}

void expect_views_work(const StepFunction& f, const Tensors& in) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    EXPECT_LE(gpu_error(compiled(f), in, dtype), gpu_tolerance(dtype)) << name_of(dtype);
    const Tensors step = run_on_gpu(compiled(f), in, dtype), eager = run_on_gpu(f, in, dtype);
    for (size_t i = 0; i < eager.size(); ++i)
      EXPECT_EQ(as_doubles(step[i]), as_doubles(eager[i])) << name_of(dtype) << ", result " << i;
  }
}

Tensor noise(const Shape& shape, uint64_t seed) { return random_normal(shape, seed); }

// cuDNN takes only tensors at multiples of 16 bytes.
TEST_F(CudaViews, Convolutions) {
  const Conv2dParams same{.padding = 1};
  const auto passes = [&](const Tensor& x, const Tensor& w, const Tensor& dy) {
    return Tensors{conv2d(x, w, same), conv2d_input_grad(dy, w, 5, same),
                   conv2d_weight_grad(x, dy, 3, same)};
  };
  const Tensors in{noise({4, 5, 5, 3}, 1), noise({4, 3, 3, 3}, 2), noise({4, 5, 5, 3}, 3)};
  expect_views_work(
      [&](const Tensors& x) { return passes(behind(x[0]), behind(x[1]), behind(x[2])); }, in);
  expect_views_work(
      [&](const Tensors& x) {
        return passes(behind(x[0] * 2.0), behind(x[1] * 2.0), behind(x[2] * 2.0));
      },
      in);
}

TEST_F(CudaViews, ProductsAndWhatIsBehindThem) {
  const auto layers = [](const Tensors& x) {
    const Tensor y = linear(behind(x[0]), behind(x[1] * 2.0), reshape(behind(x[2]), {6}));
    return Tensors{y, softmax(behind(y)), behind(y) * 0.5 + behind(y)};
  };
  expect_views_work(layers, {noise({6, 5}, 1), noise({7, 5}, 2), noise({7, 1}, 3)});
}

TEST_F(CudaViews, Pools) {
  const auto pools = [](const Tensors& x) {
    return Tensors{max_pool2d(behind(x[0]), {.kernel = 2, .stride = 1}),
                   global_average_pool(behind(x[0] * 2.0))};
  };
  expect_views_work(pools, {noise({3, 5, 5, 3}, 1)});
}

TEST_F(CudaViews, Parameters) {
  const DeviceScope scope(Device{DeviceKind::gpu, 0});
  Store store(1);
  const Tensor w = store.parameter("w", {5, 3, 3, 3}, Initializer::normal(0.2));
  const auto layer = [&](const Tensors& x) {
    return Tensors{conv2d(x[0], behind(w), {.padding = 1})};
  };
  const Tensor x = copy(noise({2, 5, 5, 3}, 2), Device{DeviceKind::gpu, 0});
  const NoGradScope no_grad;
  const Tensors step = compile(layer).call({x}), eager = layer({x});
  EXPECT_EQ(step[0].to_vector<float>(), eager[0].to_vector<float>());
}

// External memory must be aligned like the GPU's own blocks.
TEST_F(CudaViews, SlotsThatAreBroughtAreAlignedAsTheGpusMemory) {
  const Device gpu{DeviceKind::gpu, 0};
  const DeviceScope scope(gpu);
  auto step = compile([](const Tensors& x) { return Tensors{x[0] * 2.0}; });
  Program& program = *step.prepare({TensorSpec{DType::f32, {5}, gpu}}).program();
  RawMemory& memory = context(gpu).memory();
  const size_t bytes = program.compiled().slot_bytes() + 64;
  auto* const block = static_cast<std::byte*>(memory.allocate(bytes));
  EXPECT_THROW(program.use_external_slots({block + 64, bytes - 64}, gpu), ConfigError);
  EXPECT_NO_THROW(program.use_external_slots({block, bytes}, gpu));
  memory.release(block, bytes);
}

}  // namespace
}  // namespace tessera
