#include "tessera/models/training/plan.h"

#include <algorithm>

#include "tessera/engine/allocation_trace.h"
#include "tessera/graph/program.h"
#include "tessera/models/training/generated_batches.h"
#include "tessera/models/training/memory_need.h"

namespace tessera {

PlanReport plan(const Config& config, const CompileOptions& options) {
  Config graph = config;
  graph.mode = "graph";
  ImageShape image = loaded_shape(graph);
  Session session(graph, image, plain_normalization(image), options);
  const DataNeed data = known_data(graph);
  CompiledStep& train = session.train_step(running_batch(graph, data));
  session.evaluation_step(data.test_count > 0 ? std::min(graph.data.batch, data.test_count)
                                              : graph.data.batch);
  PlanReport report = plan_report(*train.program());
  report.arena = static_cast<int64_t>(session.arena()->bytes());
  const MemoryNeed need = memory_need(graph, data, Purpose::training, options.disabled_passes);
  for (const HostBuffer& block : need.blocks)
    report.add_part(block.name, static_cast<int64_t>(block.bytes));
  report.parts_complete = need.complete;
  return report;
}

PlanPicture eager_picture(const Config& config, const std::string& title) {
  Config eager = config;
  eager.mode = "eager";
  eager.data.batch = running_batch(config, known_data(config));
  const ImageShape image = loaded_shape(eager);
  Session session(eager, image, plain_normalization(image));
  CompiledStep& step = session.train_step(eager.data.batch);
  session.bind();
  const GeneratedBatches batches(eager, image);
  const auto run = [&](int64_t index) {
    batches.fill(session, step, index, eager.data.batch);
    step.run();
  };
  run(0);  // fills the allocator's cache, as every step but the first finds it
  const AllocationTrace trace;
  run(1);
  return trace.picture(title);
}

}  // namespace tessera
