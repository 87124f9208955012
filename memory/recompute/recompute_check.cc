#include <algorithm>

#include <fmt/format.h>

#include "tessera/memory/recompute/recompute.h"

namespace tessera {
namespace {

using Fault = std::optional<std::string>;

class Checker {
 public:
  Checker(const RecomputeProblem& problem, const RecomputePlan& plan)
      : p_(problem), plan_(plan), made_by_step_(problem.values.size(), false) {
    for (const RecomputeStep& step : p_.steps)
      for (int v : step.makes) made_by_step_[v] = true;
  }

  Fault fault() {
    if (Fault fault = in_order()) return fault;
    if (Fault fault = reads()) return fault;
    const int64_t peak = peak_backwards();
    if (peak != plan_.peak)
      return fmt::format("the peak is {} bytes, the plan says {}", peak, plan_.peak);
    return verdict();
  }

 private:
  std::string run_text(size_t run) const {
    const int step = plan_.runs[run];
    const std::string& id = p_.steps[step].id;
    return fmt::format("run {} (step {}{})", run, step, id.empty() ? "" : ", " + id);
  }

  // Every step runs, for the first time after all those before it, and again only if it may.
  Fault in_order() const {
    std::vector<int> times(p_.steps.size(), 0);
    for (size_t run = 0; run < plan_.runs.size(); ++run) {
      const int step = plan_.runs[run];
      if (step < 0 || step >= std::ssize(p_.steps))
        return fmt::format("run {}: there is no step {}", run, step);
      if (step > 0 && times[step - 1] == 0)
        return fmt::format("{}: step {} has not run before it", run_text(run), step - 1);
      if (++times[step] > 1 && !p_.steps[step].again)
        return fmt::format("{}: it must not run again", run_text(run));
    }
    const auto never = std::find(times.begin(), times.end(), 0);
    if (never != times.end()) return fmt::format("step {} never runs", never - times.begin());
    return {};
  }

  // What is read is there and has not been overwritten, nor is it made anew after that.
  Fault reads() const {
    enum State { kMissing, kThere, kOverwritten };
    std::vector<State> state(p_.values.size(), kMissing);
    for (size_t v = 0; v < state.size(); ++v)
      if (!made_by_step_[v]) state[v] = kThere;
    for (size_t run = 0; run < plan_.runs.size(); ++run) {
      const RecomputeStep& step = p_.steps[plan_.runs[run]];
      for (int v : step.reads)
        if (state[v] != kThere)
          return fmt::format("{}: it reads value {}, which {}", run_text(run), v,
                             state[v] == kMissing ? "is not made" : "was overwritten");
      for (int v : step.makes) {
        if (state[v] == kOverwritten)
          return fmt::format("{}: it makes value {} anew, which was overwritten", run_text(run), v);
        state[v] = kThere;
      }
      for (int v : step.overwrites) state[v] = kOverwritten;
    }
    return {};
  }

  // From the end to the beginning: what is needed after a run, and so before it.
  int64_t peak_backwards() const {
    int64_t outside = 0, needed_bytes = 0;
    std::vector<bool> needed(p_.values.size(), false);
    const auto set = [&](int v, bool now) {
      if (made_by_step_[v] && needed[v] != now)
        needed_bytes += now ? p_.values[v].bytes : -p_.values[v].bytes;
      needed[v] = now;
    };
    for (size_t v = 0; v < p_.values.size(); ++v) {
      if (!made_by_step_[v]) outside += p_.values[v].bytes;
      if (p_.values[v].result) set(static_cast<int>(v), true);
    }
    int64_t peak = outside;
    for (size_t run = plan_.runs.size(); run-- > 0;) {
      const RecomputeStep& step = p_.steps[plan_.runs[run]];
      const int64_t shared = shared_blocks(step, needed);
      for (int v : step.makes) set(v, true);
      for (int v : step.reads) set(v, true);
      peak = std::max(peak, outside + needed_bytes + step.scratch - shared);
      for (int v : step.makes) set(v, false);
    }
    return peak;
  }

  // Bytes of outputs that stand in the blocks of inputs which nobody needs after the run.
  int64_t shared_blocks(const RecomputeStep& step, const std::vector<bool>& needed_after) const {
    int64_t bytes = 0;
    std::vector<int> gone;
    for (int made : step.makes) {
      const std::vector<int>& from = p_.values[made].may_take;
      const auto takes = std::find_if(from.begin(), from.end(), [&](int v) {
        return !needed_after[v] && std::find(gone.begin(), gone.end(), v) == gone.end();
      });
      if (takes == from.end()) continue;
      gone.push_back(*takes);
      bytes += p_.values[made].bytes;
    }
    return bytes;
  }

  Fault verdict() const {
    int64_t cost = 0, once = 0;
    for (int step : plan_.runs) cost += p_.steps[step].cost;
    for (const RecomputeStep& step : p_.steps) once += step.cost;
    if (cost != plan_.cost || cost - once != plan_.extra)
      return fmt::format("the runs cost {}, {} of it extra; the plan says {} and {}", cost,
                         cost - once, plan_.cost, plan_.extra);
    if (plan_.peak < plan_.lowest)
      return fmt::format("the peak of {} bytes is below what no peak is below, {}", plan_.peak,
                         plan_.lowest);
    const bool fits = p_.budget < 0 || plan_.peak <= p_.budget;
    const bool says_fits = plan_.verdict == Verdict::kOptimal || plan_.verdict == Verdict::kWithin;
    if (fits != says_fits)
      return fmt::format("the peak is {} bytes of {}, the verdict says it {}", plan_.peak,
                         p_.budget, says_fits ? "fits" : "does not fit");
    if (fits && plan_.cost < plan_.bound)
      return fmt::format("the cost of {} is below its bound, {}", plan_.cost, plan_.bound);
    return {};
  }

  const RecomputeProblem& p_;
  const RecomputePlan& plan_;
  std::vector<bool> made_by_step_;
};

}  // namespace

std::optional<std::string> check_recompute(const RecomputeProblem& problem,
                                           const RecomputePlan& plan) {
  return Checker(problem, plan).fault();
}

}  // namespace tessera
