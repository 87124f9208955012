// The scalar programs of the zoo's training steps have precompiled kernels, with the bits of the
// CPU.
#include <algorithm>

#include "tessera/engine/pointwise.h"
#include "tessera/engine/pointwise_precompiled.h"
#include "tessera/graph/capture.h"
#include "tessera/graph/lower.h"
#include "tessera/layers/shared/sample_pointwise.h"
#include "tessera/runtime/logical_devices.h"
#include "tessera/tests/engine/device_testing.h"
#include "tessera/tests/models/zoo/zoo_step.h"

namespace tessera {
namespace {

using testing_zoo::natural_options;
using testing_zoo::ZooStep;

// The GPU for which steps are captured need not exist.
TEST(CudaPrecompiledPrograms, AreThoseOfTheZoo) {
  const Device gpu{DeviceKind::gpu, 9};
  const DescribedDevice described(gpu);
  const DeviceScope scope(gpu);
  for (const std::string& model : model_names()) {
    ZooStep step(model, natural_options(model), 4);
    Specs specs = step.specs();
    for (TensorSpec& spec : specs) spec.device = gpu;
    Graph graph = capture(step.function(), specs);
    lower(graph, {});
    int programs = 0;
    for (const Node& node : graph.nodes) {
      const std::optional<ScalarProgram> program = node.op->pointwise();
      if (!program) continue;
      ++programs;
      EXPECT_GE(precompiled_program(*program).program, 0) << model << " " << node.op->name() << "\n"
                                                          << program->text();
    }
    EXPECT_GT(programs, 0) << model;
  }
}

ScalarProgram program_of(const PrecompiledProgram& known) {
  return {known.inputs, {known.code, known.code + known.length}};
}

using CudaKnown = OnGpu;

// exp, erf and sigmoid round differently on each device. 1 + erf(x) cancels for x far below 0,
// where the error is large next to the result.
bool is_exact(const ScalarProgram& program) {
  return std::none_of(program.code.begin(), program.code.end(), [](const Instruction& step) {
    return step.op == ScalarOp::exp || step.op == ScalarOp::erf || step.op == ScalarOp::sigmoid;
  });
}

void expect_gpu_like_cpu(const ScalarProgram& program, const DeviceFunction& f,
                         const Tensors& inputs) {
  if (is_exact(program)) return expect_gpu_has_cpu_bits(f, inputs);
  const bool cancels = std::ranges::any_of(
      program.code, [](const Instruction& step) { return step.op == ScalarOp::erf; });
  expect_gpu_matches(f, inputs, kGpuTypes, cancels);
}

// Input k has shape k of `shapes`, or the first shape if there are fewer.
void expect_bits(const ScalarProgram& program, const std::vector<Shape>& shapes) {
  Tensors inputs;
  for (size_t k = 0; k < static_cast<size_t>(program.inputs); ++k) {
    const Shape& shape = k < shapes.size() ? shapes[k] : shapes[0];
    inputs.push_back(random_normal(shape, k + 1, 0, 1, DType::f64));
  }
  expect_gpu_like_cpu(
      program, [&](const Tensors& in) { return Tensors{pointwise("test", program, in)}; }, inputs);
}

// Programs that round between their stages do so to the type of the result.
TEST_F(CudaKnown, RoundToFloat16Too) {
  for (int i = kPrecompiledPrograms.rounding; i < kPrecompiledPrograms.count; ++i) {
    ScalarProgram program = program_of(kPrecompiledPrograms.list[i]);
    for (Instruction& step : program.code)
      if (step.op == ScalarOp::bfloat16) step.op = ScalarOp::float16;
    SCOPED_TRACE(program.text());
    for (const Shape& shape : {Shape{64}, Shape{3, 5, 8}, Shape{3, 5, 33}}) {
      Tensors inputs;
      for (size_t k = 0; k < static_cast<size_t>(program.inputs); ++k)
        inputs.push_back(random_normal(shape, k + 1, 0, 1, DType::f64));
      const DeviceFunction f = [&](const Tensors& in) {
        return Tensors{pointwise("test", program, in)};
      };
      constexpr DType kFloat16[] = {DType::f16};
      if (is_exact(program))
        expect_gpu_has_cpu_bits(f, inputs, kFloat16);
      else
        expect_gpu_matches(f, inputs, kFloat16);
    }
  }
}

TEST_F(CudaKnown, HaveTheBitsOfTheCpu) {
  for (const PrecompiledProgram& known : kPrecompiledPrograms) {
    const ScalarProgram program = program_of(known);
    ASSERT_GE(precompiled_program(program).program, 0);
    SCOPED_TRACE(program.text());
    for (const int64_t count : {0, 1, 5, 64, 3001}) expect_bits(program, {{count}});
    for (const int64_t c : {1, 3, 8, 33}) {
      const Shape y{3, 5, c}, channel{c}, one{}, sample{3, 1, 1}, middle{5, 1};
      expect_bits(program, {y, channel, channel, channel, channel, channel});
      expect_bits(program, {y, y, channel, one, middle, channel, y, channel});
      expect_bits(program, {y, sample, one, y, sample, middle});
    }
  }
}

// Inputs that differ only in how they are broadcast are read separately.
TEST_F(CudaKnown, ReadEachInputAtItsOwnPlace) {
  const ScalarProgram program =
      program_of(*std::find_if(kPrecompiledPrograms.begin(), kPrecompiledPrograms.end(),
                               [](const PrecompiledProgram& known) { return known.inputs == 6; }));
  for (const int64_t c : {4, 12}) {
    const Shape y{2, 4, c}, channel{c}, plane{4, c};
    expect_bits(program, {y, channel, plane, plane, channel, y});
  }
}

TEST_F(CudaKnown, ValuesForEachChannelOfEachSample) {
  const auto f = [](const ScalarProgram& program) {
    return [program](const Tensors& in) {
      return Tensors{sample_pointwise("test", program, {in.begin(), in.begin() + program.inputs})};
    };
  };
  for (const int64_t c : {1, 3, 8, 12})
    for (const int64_t n : {0, 1, 3}) {
      const auto normal = [&](const Shape& shape, uint64_t key) {
        return random_normal(shape, key, 0, 1, DType::f64);
      };
      const Tensors in{normal({n, 5, c}, 1), normal({n, c}, 2), normal({n, c}, 3), normal({c}, 4),
                       normal({c}, 5)};
      ScalarBuilder b(4);  // interpreted
      expect_gpu_has_cpu_bits(f(b.build(b.add(b.mul(b.in(0), b.in(1)), b.sub(b.in(2), b.in(3))))),
                              in);
      for (const PrecompiledProgram& known : kPrecompiledPrograms)
        if (known.inputs <= 5) expect_gpu_like_cpu(program_of(known), f(program_of(known)), in);
    }
}

}  // namespace
}  // namespace tessera
