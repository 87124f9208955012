#include "tessera/models/study/plan.h"

#include <utility>

#include "tessera/engine/allocation_trace.h"
#include "tessera/models/run/inference.h"
#include "tessera/models/training/generated_batches.h"
#include "tessera/models/training/memory_need.h"
#include "tessera/models/training/session.h"

namespace tessera {

PlanReport plan(const Run& run) {
  MemoryNeed need = memory_need(run);
  need.report.inference = planned_inference(run.config(), run.image()).text();
  for (const HostBuffer& block : need.blocks)
    need.report.add_part(block.name, static_cast<int64_t>(block.bytes));
  for (const HostBuffer& block : need.gpu_blocks)
    need.report.add_part(block.name, static_cast<int64_t>(block.bytes), true);
  need.report.parts_complete = need.complete;
  return std::move(need.report);
}

PlanPicture eager_picture(const Run& run, const std::string& title) {
  const int64_t batch = run.steps().train.front();
  const Run eager = run.as(Purpose::timing, run.data_need()).with([&](Config& config) {
    config.mode = Mode::kEager;
    config.data.batch = batch;
  });
  Session& session = eager.session();
  CompiledStep& step = session.train_step(batch);
  session.bind();
  const GeneratedBatches batches(eager.config(), session);
  const auto step_once = [&](int64_t index) {
    batches.fill(session, step, index, batch);
    step.submit();
  };
  step_once(0);  // fills the allocator's cache, as every step but the first finds it
  const AllocationTrace trace;
  step_once(1);
  return trace.picture(title);
}

}  // namespace tessera
