// Compares every network of the zoo with constant weights with its evaluation.
#include <gtest/gtest.h>

#include "tessera/graph/arena.h"
#include "tessera/graph/capture.h"
#include "tessera/graph/lower.h"
#include "tessera/graph/program.h"
#include "tessera/layers/shared/epilogue.h"
#include "tessera/tests/models/zoo/zoo_step.h"

namespace tessera {
namespace {

using testing_zoo::small_options;

class FrozenZoo : public testing::TestWithParam<std::string> {};

TEST_P(FrozenZoo, ComputesWhatEvaluationComputes) {
  const ModelOptions options = small_options(GetParam());
  Store store(3);
  const auto network = make_model(GetParam(), options, store);
  const NoGradScope no_grad;
  const Shape shape{2, options.height, options.width, options.channels};
  const Tensor x = random_normal(shape, 5);
  {  // changes the running statistics
    const TrainingScope training;
    const RandomScope random(1, from_vector<int64_t>({2}, {0, 0}));
    (*network)(x);
  }
  const TrainingScope evaluation(false);
  const std::vector<float> wanted = (*network)(x).to_vector<float>();
  CompileOptions compile;
  compile.constant_parameters = true;
  compile.arenas = std::make_shared<Arenas>();
  Program program(
      capture([&](const Tensors& in) { return Tensors{(*network)(in[0])}; }, {x.spec()}), compile);
  program.bind();
  Tensor(program.input(0)).assign(std::span<const float>(x.to_vector<float>()));
  program.run();
  const std::vector<float> found = program.output(0).to_vector<float>();
  ASSERT_EQ(found.size(), wanted.size());
  double most = 0, largest = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    most = std::max<double>(most, std::abs(found[i] - wanted[i]));
    largest = std::max<double>(largest, std::abs(wanted[i]));
  }
  EXPECT_LE(most, 1e-5 * largest);
}

// Returns the epilogues of the graph that are not `good`, as text.
template <class Good>
std::string other_epilogues(const Graph& graph, Good good) {
  std::string text;
  for (const Node& node : graph.nodes) {
    const auto* op = dynamic_cast<const HasEpilogue*>(node.op.get());
    if (op == nullptr || op->epilogue().code.empty()) continue;
    Specs extra;
    for (const ValueId id : node.inputs) extra.push_back(graph.values[id].spec);
    extra.erase(extra.begin(), extra.end() - (op->epilogue().inputs - 1));
    const TensorSpec out = graph.values[node.outputs[0]].spec;
    TensorSpec product = out;
    product.dtype = compute_type(out.dtype);
    if (!good(op->epilogue(), extra, product, out.dtype))
      text += std::string(node.op->name()) + "\n" + op->epilogue().text() + "\n";
  }
  return text;
}

Graph frozen_graph(const char* model, DType dtype) {
  const ModelOptions options = small_options(model);
  Store store(3);
  const auto network = make_model(model, options, store);
  const NoGradScope no_grad;
  const TrainingScope evaluation(false);
  const TensorSpec x{dtype, {2, options.height, options.width, options.channels}, {}};
  Graph graph = capture([&](const Tensors& in) { return Tensors{(*network)(in[0])}; }, {x});
  CompileOptions compile;
  compile.constant_parameters = true;
  lower(graph, compile);
  return graph;
}

// Batch norms that are not folded into filters of bfloat16 stay a factor and a bias.
TEST(FrozenNetworks, InBfloat16HavePrecompiledPrograms) {
  for (const char* model :
       {"resnet18", "resnet50", "mobilenet_v2", "vgg16_bn", "efficientnet_b0"}) {
    const auto good = [](const ScalarProgram& epilogue, SpecView extra, const TensorSpec& result,
                         DType to) {
      return to == DType::f32 || is_plain(epilogue) ||  // float32: logits
             epilogue_plan(epilogue, extra, result, to).is_precompiled();
    };
    EXPECT_EQ(other_epilogues(frozen_graph(model, DType::bf16), good), "") << model;
  }
}

// All batch norms are folded into filters and biases, those of both summands of a shortcut too.
TEST(FrozenNetworks, InFloat32HaveBiasesAndActivations) {
  for (const char* model : {"resnet18", "resnet50", "mobilenet_v2"})
    EXPECT_EQ(other_epilogues(frozen_graph(model, DType::f32), bias_activation), "") << model;
}

INSTANTIATE_TEST_SUITE_P(Zoo, FrozenZoo, testing::ValuesIn(model_names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace tessera
