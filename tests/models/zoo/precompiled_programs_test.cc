// The scalar programs of training steps are precompiled on the CPU: those of the zoo and of
// networks that users compose.
#include <fmt/format.h>

#include "tessera/engine/pointwise_precompiled.h"
#include "tessera/graph/capture.h"
#include "tessera/graph/lower.h"
#include "tessera/layers/shared/epilogue.h"
#include "tessera/models/config/config.h"
#include "tessera/models/config/network.h"
#include "tessera/tests/engine/op_testing.h"
#include "tessera/tests/models/zoo/zoo_step.h"

namespace tessera {
namespace {

// Returns the op's epilogue, or its program if it is pointwise.
std::optional<ScalarProgram> program_of(const Op& op) {
  if (auto* more = dynamic_cast<const HasEpilogue*>(&op)) return more->epilogue();
  return op.pointwise();
}

void expect_compiled(Graph graph, const std::string& network) {
  lower(graph, {});
  int programs = 0;
  for (const Node& node : graph.nodes) {
    const std::optional<ScalarProgram> program = program_of(*node.op);
    if (!program || program->code.empty()) continue;
    ++programs;
    const int known = std::max(precompiled_program(*program).program,
                               precompiled_program(*program, Constants::inputs).program);
    EXPECT_GE(known, 0) << network << " " << node.op->name() << "\n" << program->text();
  }
  EXPECT_GT(programs, 0) << network;
}

TEST(PrecompiledPrograms, AreThoseOfTheZoo) {
  for (const std::string& model : model_names()) {
    testing_zoo::ZooStep step(model, testing_zoo::natural_options(model), 4);
    expect_compiled(capture(step.function(), step.specs()), model);
  }
}

// Activations after batch norms, in and after residual blocks.
constexpr char kPlain[] = R"(
    - {{conv: {{filters: 8, kernel: 3, padding: 1, bias: false}}}}
    - batch_norm
    - {0}
    - residual:
      - {{conv: {{filters: 8, kernel: 3, padding: 1, bias: false}}}}
      - batch_norm
      - {0}
      - {{conv: {{filters: 8, kernel: 3, padding: 1, bias: false}}}}
      - batch_norm
    - {0}
    - residual:
        layers: [{{conv: {{filters: 16, kernel: 3, padding: 1, stride: 2}}}}, batch_norm, {0}]
        shortcut: [{{conv: {{filters: 16, kernel: 1, stride: 2}}}}, batch_norm]
    - {0}
)";
// Activations before the convolutions, after group norms.
constexpr char kFirst[] = R"(
    - {{conv: {{filters: 8, kernel: 3, padding: 1}}}}
    - residual:
      - {{group_norm: {{groups: 2}}}}
      - {0}
      - {{conv: {{filters: 8, kernel: 3, padding: 1}}}}
      - {{group_norm: {{groups: 4}}}}
      - {0}
      - {{conv: {{filters: 8, kernel: 3, padding: 1}}}}
    - residual: [batch_norm, {0}, {{conv: {{filters: 8, kernel: 1}}}}, layer_scale]
    - layer_norm
    - {0}
)";
// Activations between a convolution and its norm, and between linear layers.
constexpr char kMixer[] = R"(
    - {{conv: {{filters: 8, kernel: 2, stride: 2}}}}
    - {0}
    - batch_norm
    - residual: [{{conv: {{filters: 8, kernel: 3, padding: 1, groups: 8}}}}, {0}, batch_norm]
    - {{conv: {{filters: 8, kernel: 1}}}}
    - {0}
    - {{squeeze_excitation: {{squeeze: 2}}}}
    - global_average_pool
    - {{linear: {{units: 12}}}}
    - {0}
)";

TEST(PrecompiledPrograms, AreThoseOfOtherNetworks) {
  for (const char* network : {kPlain, kFirst, kMixer})
    for (const char* activation : {"relu", "relu6", "hard_swish", "silu", "gelu",
                                   "{leaky_relu: {slope: 0.1}}", "prelu", "elu", "mish"}) {
      const std::string text = "data: {image_size: 16}\nmodel:\n  classes: 10\n  layers:" +
                               fmt::format(fmt::runtime(network), activation) +
                               (network == kMixer ? "" : "    - global_average_pool\n") +
                               "    - {linear: {units: 10}}\n";
      const Config config = parse_config(text, "a.yaml");
      Store store;
      const auto model = make_layered(config.model.layers, {16, 16, 3}, 10, store);
      Sgd sgd(store, store.parameters(), {.momentum = 0.9, .weight_decay = 1e-4});
      const auto step = [&](const Tensors& in) {
        const TrainingScope training;
        const Tensor loss = cross_entropy((*model)(in[0]), in[1]);
        sgd.step(gradients(loss, store.parameters()), in[2]);
        return Tensors{loss};
      };
      expect_compiled(
          capture(step,
                  {{DType::f32, {4, 16, 16, 3}, {}}, {DType::i32, {4}, {}}, {DType::f64, {}, {}}}),
          activation);
    }
}

}  // namespace
}  // namespace tessera
