#include "tessera/models/study/verify_plan.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "tessera/engine/storage.h"
#include "tessera/graph/arena.h"
#include "tessera/models/training/generated_batches.h"
#include "tessera/models/training/memory_limit.h"
#include "tessera/models/training/memory_need.h"
#include "tessera/models/training/session.h"
#include "tessera/runtime/context.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/host_memory.h"
#include "tessera/runtime/text/bytes.h"

namespace tessera {
namespace {

// The results of a run by name: those of each step, then all persistent values.
struct Trace {
  std::vector<std::string> names;
  std::vector<std::vector<std::byte>> values;
  size_t arena_bytes = 0;

  void add(std::string name, const Tensor& tensor) {
    names.push_back(std::move(name));
    values.emplace_back(tensor.spec().bytes());
    copy_bytes(Device{}, values.back().data(), tensor.device(), tensor.impl()->data(),
               tensor.spec().bytes());
  }
};

// One way to run the same steps; allocates their memory only in run().
class Variant {
 public:
  Variant(const char* name, const Run& run, const CompileOptions& options)
      : name_(name),
        run_(run.as(Purpose::verification, DataNeed(), options)),
        session_(prepared_session(run_)) {}

  // Throws PlanInfeasible if the variant needs more than memory.limit.
  void require_fit() const;
  // Runs the steps. Call it once: it frees the session's memory.
  Trace run(int64_t steps);
  // Throws InternalError if the traces differ in a bit.
  void require_same(const Trace& mine, const Trace& expected) const;

 private:
  const char* name_;
  const Run run_;
  std::unique_ptr<Session> session_;
};

void Variant::require_fit() const {
  // The session, the batches, and two copies of the values: those of this run and the expected
  // ones.
  const Tensors persistent = session_->store().persistent();
  const std::optional<HostLimit> limited = host_limit(run_.config());
  const int64_t free = host_memory().free,
                limit = limited    ? limited->bytes
                        : free > 0 ? free
                                   : INT64_MAX,
                bytes = total_bytes(session_->regions()) +
                        total_bytes(other_blocks(run_, persistent)) +
                        2 * static_cast<int64_t>(session_->store().bytes());
  if (bytes <= limit) return;
  throw PlanInfeasible(fmt::format(
      "{}: --verify-plan also runs the steps {}, which needs {} ({} bytes), {} {}, over "
      "by {}; the training itself fits. Leave out --verify-plan, or verify with a "
      "smaller data.batch{}",
      limited ? limited->key : "memory", name_, byte_text(bytes), bytes,
      limited ? "the limit is" : "the free memory is", byte_text(limit), byte_text(bytes - limit),
      limited ? " or a higher limit" : ""));
}

Trace Variant::run(int64_t steps) {
  const std::unique_ptr<Session> session = std::move(session_);
  session->bind();
  const GeneratedBatches batches(run_.config(), *session);
  const RunSteps counts = run_.steps();
  Trace trace;
  for (int64_t i = 0; i < steps; ++i) {
    const bool evaluated = i % 3 == 2;
    const int64_t count = evaluated ? counts.train.back() : counts.train.front();
    CompiledStep& step = session->train_step(count);
    batches.fill(*session, step, i, count);
    step.submit();
    step.collect();
    trace.add(fmt::format("the loss of step {}", i), step.host_output(0));
    if (!evaluated) continue;
    const int64_t some = counts.evaluation.front();
    CompiledStep& evaluation = session->evaluation_step(some);
    batches.fill_evaluation(evaluation, i, some);
    evaluation.submit();
    evaluation.collect();
    trace.add(fmt::format("the loss of the evaluation after step {}", i),
              evaluation.host_output(0));
  }
  for (const Tensor& tensor : session->store().persistent())
    trace.add(tensor.impl()->storage->name, tensor);
  trace.arena_bytes = session->arena_bytes();
  return trace;
}

void Variant::require_same(const Trace& mine, const Trace& expected) const {
  for (size_t i = 0; i < mine.values.size(); ++i)
    if (mine.values[i] != expected.values[i])
      throw InternalError(fmt::format(
          "verify-plan: {} differs between the run {} (planner {}) and the run without a plan",
          mine.names[i], name_, run_.config().memory.planner));
}

}  // namespace

VerifyResult verify_plan(const Run& run, int64_t steps) {
  const SettingsScope settings(run.settings());
  require_fit_ahead(run);
  const Run planned = run.with([](Config& config) { config.mode = Mode::kGraph; });
  const Run unplanned = planned.with([](Config& config) {
    config.memory.planner = "none";
    config.memory.budget.reset();  // so that recomputed values are compared with kept ones
  });
  CompileOptions replayed, watched;
  replayed.replay_plan = true;
  watched.verify_plan = true;
  Variant without("without a plan", unplanned, {});
  Variant real("with the plan as it is", planned, replayed);
  Variant guarded("with red zones in the plan", planned, watched);
  for (const Variant* way : {&without, &real, &guarded}) way->require_fit();
  const Trace expected = without.run(steps);
  VerifyResult result{steps, 0, 0, expected.arena_bytes};
  for (const auto& [way, bytes] :
       {std::pair(&guarded, &result.arena_bytes), {&real, &result.plan_bytes}}) {
    const Trace trace = way->run(steps);
    way->require_same(trace, expected);
    *bytes = trace.arena_bytes;
  }
  return result;
}

}  // namespace tessera
