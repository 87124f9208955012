#include "tessera/models/training/memory_need.h"

#include <utility>

#include <fmt/format.h>

#include "tessera/graph/compiled_graph.h"
#include "tessera/graph/program.h"
#include "tessera/models/config/config_data.h"
#include "tessera/models/data/loader.h"
#include "tessera/models/run/weights.h"
#include "tessera/models/training/checkpointing.h"
#include "tessera/models/training/generated_batches.h"
#include "tessera/models/training/session.h"

namespace tessera {
namespace {

// Reports the lower bound of the step with the largest arena, and names that step if it is not the
// first.
void bound_arena(PlanReport& report, Session& session, const RunSteps& steps) {
  int64_t most = report.plan.bytes;
  const auto look = [&](CompiledStep& step, const char* kind, int64_t images) {
    const Program& program = *step.program();
    if (program.compiled().plan().bytes <= most) return;
    most = program.compiled().plan().bytes;
    report.lower_bound = lower_bound(program.compiled().problem());
    report.arena_of = fmt::format("{} of {} images", kind, images);
  };
  for (const int64_t count : steps.train) look(session.train_step(count), "training", count);
  for (const int64_t count : steps.evaluation)
    look(session.evaluation_step(count), "evaluation", count);
}

}  // namespace

int64_t MemoryNeed::bytes() const { return total_bytes(blocks); }
int64_t MemoryNeed::gpu_bytes() const { return total_bytes(gpu_blocks); }

MemoryNeed memory_need(Session& session, const Run& run) {
  const RunSteps steps = run.steps();
  MemoryNeed need{session.regions(), session.gpu_regions(),
                  plan_report(*first_step(session, steps).compiled_graph()),
                  run.data_need().complete || run.purpose() == Purpose::timing};
  need.report.arena = static_cast<int64_t>(session.arena_bytes());
  bound_arena(need.report, session, steps);
  const ParameterCount parameters = parameter_count(run);
  need.report.trainable = parameters.trainable;
  need.report.frozen = parameters.frozen;
  for (MemoryItem& block : other_blocks(run, session.store().persistent()))
    need.blocks.push_back(std::move(block));
  return need;
}

MemoryNeed memory_need(const Run& run) {
  if (run.config().mode == Mode::kEager)
    return memory_need(run.with([](Config& config) { config.mode = Mode::kGraph; }));
  return memory_need(run.session(), run);
}

CompiledStep& first_step(Session& session, const RunSteps& steps) {
  return steps.train.empty() ? session.evaluation_step(steps.evaluation.front())
                             : session.train_step(steps.train.front());
}

std::vector<MemoryItem> loader_blocks(const Run& run, Device device) {
  const DataNeed& data = run.data_need();
  const ImageShape read = run.read_image();
  const auto bytes = [&](int64_t images, bool training) {
    const LoaderOptions options =
        training ? run.training_loader(device) : loader_options(run.config(), false, device);
    return static_cast<size_t>(
        Loader::planned_bytes(read, images > 0 ? images : options.batch, options));
  };
  const MemoryItem evaluation{"loader of evaluation", bytes(data.test_count, false)};
  if (run.purpose() != Purpose::training) return {evaluation};
  std::vector<MemoryItem> blocks{{"loader of training", bytes(data.train_count, true)}, evaluation};
  if (run.config().data.validation.any())
    blocks.push_back({"loader of validation", bytes(data.validation_count, false)});
  return blocks;
}

std::vector<MemoryItem> other_blocks(const Run& run, const Tensors& persistent) {
  if (run.purpose() == Purpose::timing || run.purpose() == Purpose::verification) {
    const int64_t bytes = GeneratedBatches::planned_bytes(run.config().data.batch, run.image());
    return {{"generated batches", static_cast<size_t>(bytes)}};
  }
  std::vector<MemoryItem> blocks = loader_blocks(run, persistent.at(0).device());
  if (const int64_t bytes = run.data_need().bytes; bytes > 0)
    blocks.push_back({"data set", static_cast<size_t>(bytes)});
  if (const size_t copied = weights_copy_bytes(persistent); copied > 0)
    blocks.push_back({"weights", copied});
  if (run.purpose() == Purpose::training)
    for (MemoryItem& block : Checkpointing::planned_buffers(run.config(), persistent))
      blocks.push_back(std::move(block));
  return blocks;
}

}  // namespace tessera
