// Every op on a GPU gives the CPU's values, and the same bits in eager and compiled code.
#include "tessera/graph/compile.h"
#include "tessera/tests/engine/device_testing.h"
#include "tessera/tests/graph/gradient_cases.h"

namespace tessera {
namespace {

using namespace gradient_cases;

class CudaGradients : public OnGpu {};

const Device kGpu{DeviceKind::gpu, 0};

// Returns max |a - b| / max |a|, the largest of all results.
double distance(const std::vector<std::vector<double>>& a,
                const std::vector<std::vector<double>>& b) {
  double worst = 0;
  for (size_t k = 0; k < a.size(); ++k) {
    double difference = 0, largest = 1e-30;
    if (a[k].size() != b[k].size()) return INFINITY;
    for (size_t i = 0; i < a[k].size(); ++i) {
      difference = std::max(difference, std::abs(a[k][i] - b[k][i]));
      largest = std::max(largest, std::abs(a[k][i]));
    }
    worst = std::max(worst, difference / largest);
  }
  return a.size() == b.size() ? worst : INFINITY;
}

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
