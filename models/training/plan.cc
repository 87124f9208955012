#include "tessera/models/training/plan.h"

#include <utility>

#include "tessera/engine/allocation_trace.h"
#include "tessera/models/run/inference.h"
#include "tessera/models/training/generated_batches.h"
#include "tessera/models/training/memory_need.h"
#include "tessera/models/training/run_steps.h"
#include "tessera/models/training/session.h"

namespace tessera {

PlanReport plan(const Config& config, const CompileOptions& options) {
  const DataNeed data = known_data(config);
  MemoryNeed need = memory_need(config, data, Purpose::training, options);
  const ImageShape image = step_image(config, data, Purpose::training);
  need.report.inference = planned_inference(config, image).text();
  for (const HostBuffer& block : need.blocks)
    need.report.add_part(block.name, static_cast<int64_t>(block.bytes));
  for (const HostBuffer& block : need.gpu_blocks)
    need.report.add_part(block.name, static_cast<int64_t>(block.bytes), true);
  need.report.parts_complete = need.complete;
  return std::move(need.report);
}

PlanPicture eager_picture(const Config& config, const std::string& title) {
  const DataNeed data = known_data(config);
  Config eager = config;
  eager.mode = Mode::kEager;
  eager.data.batch = run_steps(config, data, Purpose::training).train.front();
  const auto session = prepared_session(eager, data, Purpose::timing);
  CompiledStep& step = session->train_step(eager.data.batch);
  session->bind();
  const GeneratedBatches batches(eager, *session);
  const auto run = [&](int64_t index) {
    batches.fill(*session, step, index, eager.data.batch);
    step.submit();
  };
  run(0);  // fills the allocator's cache, as every step but the first finds it
  const AllocationTrace trace;
  run(1);
  return trace.picture(title);
}

}  // namespace tessera
