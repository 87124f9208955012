// Tests of NodeObserver, and of the locations of nodes.
#include <gtest/gtest.h>

#include "tessera/engine/pointwise.h"
#include "tessera/engine/scope.h"
#include "tessera/engine/structural.h"
#include "tessera/graph/compiled_graph.h"
#include "tessera/graph/passes/fusion.h"
#include "tessera/graph/program.h"
#include "tessera/layers/ops/activation.h"
#include "tessera/layers/ops/matmul.h"
#include "tessera/tests/models/zoo/zoo_step.h"

namespace tessera {
namespace {

using testing_zoo::small_options;
using testing_zoo::ZooStep;

class Seen final : public NodeObserver {
 public:
  void begin(size_t node) override {
    EXPECT_FALSE(inside_);
    inside_ = true;
    nodes.push_back(node);
  }
  void end(size_t node) override {
    EXPECT_TRUE(inside_);
    inside_ = false;
    EXPECT_EQ(node, nodes.back());
  }
  std::vector<size_t> nodes;

 private:
  bool inside_ = false;
};

TEST(Observe, EveryKernelIsToldOnceInItsTurnAndViewsAreNot) {
  ZooStep net("lenet5", small_options("lenet5"), 2);
  Compiled compiled(net.function(), {});
  CompiledStep& step = compiled.prepare(net.specs());
  Program& program = *step.program();
  std::vector<size_t> kernels;
  for (size_t n = 0; n < program.compiled().graph.nodes.size(); ++n) {
    EXPECT_EQ(program.compiled().algorithms[n].empty(),
              program.compiled().graph.nodes[n].op->view_of(0) >= 0)
        << n;
    if (!program.compiled().algorithms[n].empty()) kernels.push_back(n);
  }
  EXPECT_LT(kernels.size(), program.compiled().graph.nodes.size());  // flatten() is a view
  Seen seen;
  compiled.call(net.arguments(0));
  program.observe(&seen);
  compiled.call(net.arguments(1));
  EXPECT_EQ(seen.nodes, kernels);
  program.observe(nullptr);
  compiled.call(net.arguments(2));
  EXPECT_EQ(seen.nodes, kernels);
}

TEST(Observe, TheNameOfTheAlgorithmIsToldByEachNode) {
  const SettingsScope eigen({.cpu = {.kernels = CpuKernels::eigen}});
  ZooStep net("lenet5", small_options("lenet5"), 2);
  Compiled compiled(net.function(), {});
  const Program& program = *compiled.prepare(net.specs()).program();
  int products = 0;
  for (size_t n = 0; n < program.compiled().graph.nodes.size(); ++n) {
    const std::string_view op = program.compiled().graph.nodes[n].op->name();
    const bool product = op == "matmul" || op.starts_with("conv2d");
    products += product;
    if (product) {
      EXPECT_EQ(program.compiled().algorithms[n], "eigen") << op;
    } else if (!program.compiled().algorithms[n].empty()) {
      EXPECT_EQ(program.compiled().algorithms[n], "default") << op;
    }
  }
  EXPECT_GT(products, 10);
}

TEST(Observe, AnOpThatAbsorbedAnotherStandsWhereItStood) {
  const auto fn = [](const Tensor& x, const Tensor& w, const Tensor& b) {
    const ModulePathScope block("block");
    Tensor y;
    {
      const ModulePathScope fc("fc");
      y = matmul(x, w);
    }
    Tensor shifted;
    {
      const ModulePathScope bias("bias");
      shifted = y + b;
    }
    return relu(shifted);
  };
  auto compiled = compile(fn);
  const Specs specs(3, {DType::f32, {4, 4}, {}});
  const Graph& graph = compiled.prepare(specs).compiled_graph()->graph;
  ASSERT_EQ(graph.nodes.size(), 1u);
  EXPECT_EQ(graph.nodes[0].module_path, "block.fc");
}

TEST(Observe, OfPointwiseOpsThatHaveBecomeOneThePlaceThatIsWithinTheOtherIsKept) {
  const auto fn = [](const Tensor& x) {
    const ModulePathScope block("block");
    Tensor y;
    {
      const ModulePathScope norm("norm");
      y = x * 2.0;
    }
    return relu(y);
  };
  auto compiled = compile(fn);
  const Specs specs{{DType::f32, {4, 4}, {}}};
  const Graph& graph = compiled.prepare(specs).compiled_graph()->graph;
  ASSERT_EQ(graph.nodes.size(), 1u);
  EXPECT_EQ(graph.nodes[0].module_path, "block.norm");
}

TEST(Observe, JoinedPlaces) {
  EXPECT_EQ(joined_module_path("", ""), "");
  EXPECT_EQ(joined_module_path("a", ""), "a");
  EXPECT_EQ(joined_module_path("", "a"), "a");
  EXPECT_EQ(joined_module_path("a.b", "a"), "a.b");
  EXPECT_EQ(joined_module_path("a", "a.b"), "a.b");
  EXPECT_EQ(joined_module_path("a.b", "a.b"), "a.b");
  EXPECT_EQ(joined_module_path("a.b", "a.c"), "a.b+a.c");
  EXPECT_EQ(joined_module_path("a.b", "a.bc"), "a.b+a.bc");
  EXPECT_EQ(joined_module_path("a.b+a.c", "a"), "a.b+a.c");
  EXPECT_EQ(joined_module_path("a", "a.b+a.c"), "a.b+a.c");
  EXPECT_EQ(joined_module_path("a.b+a.c", "a.c.d"), "a.b+a.c.d");
}

TEST(NonFinite, NamesTheOpWhoseResultExceedsFloat16) {
  auto step = compile([](const Tensor& x) { return exp(cast(x, DType::f16) * -1.0); },
                      {.disabled_passes = {"fuse_pointwise"}});
  CompiledStep& ready = step.prepare({{DType::f32, {3}, {}}});
  const auto run = [&](std::vector<float> x) {
    Tensor(ready.input(0)).assign(std::span<const float>(x));
    ready.run();
    return ready.find_non_finite();
  };
  EXPECT_FALSE(run({1, 11, 2}));
  const auto found = run({1, 70000, 2});  // in float32 all results would be finite
  ASSERT_TRUE(found);
  EXPECT_EQ(found->op, "cast");
  EXPECT_EQ(found->element, 1);
}

}  // namespace
}  // namespace tessera
