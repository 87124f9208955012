// The scalar programs of the zoo's training steps are compiled on the CPU.
#include "tessera/engine/pointwise_known.h"
#include "tessera/graph/capture.h"
#include "tessera/graph/lower.h"
#include "tessera/layers/shared/epilogue.h"
#include "tessera/tests/engine/op_testing.h"
#include "tessera/tests/models/zoo/zoo_step.h"

namespace tessera {
namespace {

// What an op runs on its own or on its result.
std::optional<ScalarProgram> program_of(const Op& op) {
  if (auto* more = dynamic_cast<const HasEpilogue*>(&op)) return more->epilogue();
  return op.pointwise();
}

TEST(KnownPrograms, AreThoseOfTheZoo) {
  for (const std::string& model : model_names()) {
    testing_zoo::ZooStep step(model, testing_zoo::natural_options(model), 4);
    Graph graph = capture(step.function(), step.specs());
    lower(graph, {});
    int epilogues = 0, programs = 0;
    for (const Node& node : graph.nodes) {
      const std::optional<ScalarProgram> program = program_of(*node.op);
      if (!program || program->code.empty()) continue;
      ++(node.op->pointwise() ? programs : epilogues);
      EXPECT_GE(known_program(*program).program, 0) << model << " " << node.op->name() << "\n"
                                                    << program->text();
    }
    EXPECT_GT(programs + epilogues, 0) << model;
  }
}

}  // namespace
}  // namespace tessera
