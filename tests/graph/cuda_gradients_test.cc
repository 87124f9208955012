// Every op on a GPU gives the CPU's values, and the same bits in eager and compiled code.
#include "tessera/graph/compile.h"
#include "tessera/tests/engine/device_testing.h"
#include "tessera/tests/graph/gradient_cases.h"

namespace tessera {
namespace {

using namespace gradient_cases;

class CudaGradients : public OnGpu {};

const Device kGpu{DeviceKind::gpu, 0};

// Returns the gradients of the function, then its values.
std::vector<std::vector<double>> all_of(const Function& f, const Tensors& inputs) {
  std::vector<std::vector<double>> all = slopes_of(f, inputs);
  all.push_back(f(inputs).to_vector<double>());
  return all;
}

TEST_F(CudaGradients, OfEveryOpAreThoseOfTheCpu) {
  const std::vector<Case> here = cases();
  const DeviceScope scope(kGpu);
  const std::vector<Case> there = cases();
  for (size_t i = 0; i < here.size(); ++i) {
    const Case& c = there[i];
    std::vector<std::vector<double>> right;
    {
      const DeviceScope cpu(Device{});
      right = all_of(here[i].f, here[i].inputs);
    }
    const auto found = all_of(c.f, c.inputs);
    EXPECT_LE(distance(right, found), 1e-12) << c.name;
    auto compiled = compile([&](const Tensors& t) { return Tensors{c.f(t)}; });
    const auto part = [&](const Tensors& t) { return compiled(t)[0]; };
    EXPECT_EQ(all_of(part, c.inputs), found) << c.name;
  }
}

// The sums of a GPU have another order, which may round to the neighbour.
TEST_F(CudaGradients, OfSixteenBitsAreThoseOfTheCpu) {
  const std::vector<Case> here = cases();
  const DeviceScope scope(kGpu);
  const std::vector<Case> there = cases();
  for (const DType half : {DType::bf16, DType::f16})
    for (size_t i = 0; i < here.size(); ++i) {
      const Case& c = there[i];
      std::vector<std::vector<double>> right;
      {
        const DeviceScope cpu(Device{});
        right = in_half(here[i].f, here[i].inputs, half);
      }
      const auto found = in_half(c.f, c.inputs, half);
      EXPECT_LE(distance(right, found), half == DType::bf16 ? 0x1p-6 : 0x1p-9)
          << c.name << " " << name_of(half);
      auto compiled = compile([&](const Tensors& t) { return Tensors{c.f(t)}; });
      const auto part = [&](const Tensors& t) { return compiled(t)[0]; };
      EXPECT_EQ(in_half(part, c.inputs, half), found) << c.name << " " << name_of(half);
    }
}

TEST_F(CudaGradients, ANanIsWhereTheCpuHasIt) {
  for (const Case& c : elementwise_cases())
    for (size_t k = 0; k < c.inputs.size(); ++k)
      for (const DType dtype : {DType::f32, DType::f64}) {
        Tensors inputs = with_nan(c.inputs, k, 3, dtype);
        inputs.push_back(cast(normal(c.f(c.inputs).shape(), 99), dtype));
        const DeviceFunction all =
            with_gradients([&](const Tensors& t) { return Tensors{c.f(t)}; }, c.inputs.size());
        EXPECT_LE(gpu_error(all, inputs, dtype), dtype == DType::f32 ? 1e-4 : 1e-12)
            << c.name << ", argument " << k << ", " << name_of(dtype);
      }
}

}  // namespace
}  // namespace tessera
