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
      return fmt::format("the peak is {} bytes, but the plan has {}", peak, plan_.peak);
    return status();
  }

 private:
  std::string run_text(size_t run) const {
    const int step = plan_.runs[run];
    const std::string& id = p_.steps[step].id;
    return fmt::format("run {} (step {}{})", run, step, id.empty() ? "" : ", " + id);
  }

  // Checks that every step runs, first after all those before it, and again only if it may.
  Fault in_order() const {
    std::vector<int> times(p_.steps.size(), 0);
    for (size_t run = 0; run < plan_.runs.size(); ++run) {
      const int step = plan_.runs[run];
      if (step < 0 || step >= std::ssize(p_.steps))
        return fmt::format("run {}: step {} does not exist", run, step);
      if (step > 0 && times[step - 1] == 0)
        return fmt::format("{}: step {} has not run before it", run_text(run), step - 1);
      if (++times[step] > 1 && !p_.steps[step].recomputable)
        return fmt::format("{}: the step must not run again", run_text(run));
    }
    const auto never = std::find(times.begin(), times.end(), 0);
    if (never != times.end()) return fmt::format("step {} never runs", never - times.begin());
    return {};
  }

  // Checks that no run reads a missing or overwritten value, or makes an overwritten one again.
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
                             state[v] == kMissing ? "is missing" : "was overwritten");
      for (int v : step.makes) {
        if (state[v] == kOverwritten)
          return fmt::format("{}: it recomputes value {}, which was overwritten", run_text(run), v);
        state[v] = kThere;
      }
      for (int v : step.overwrites) state[v] = kOverwritten;
    }
    return {};
  }

  // Computes the peak from the last run to the first, with the values needed after each run.
  int64_t peak_backwards() const {
    int64_t external = 0, needed_bytes = 0;
    std::vector<bool> needed(p_.values.size(), false);
    const auto set = [&](int v, bool now) {
      if (made_by_step_[v] && needed[v] != now)
        needed_bytes += now ? p_.values[v].bytes : -p_.values[v].bytes;
      needed[v] = now;
    };
    for (size_t v = 0; v < p_.values.size(); ++v) {
      if (!made_by_step_[v]) external += p_.values[v].bytes;
      if (p_.values[v].result) set(static_cast<int>(v), true);
    }
    int64_t peak = external;
    for (size_t run = plan_.runs.size(); run-- > 0;) {
      const RecomputeStep& step = p_.steps[plan_.runs[run]];
      const int64_t shared = shared_blocks(step, needed);
      for (int v : step.makes) set(v, true);
      for (int v : step.reads) set(v, true);
      peak = std::max(peak, external + needed_bytes + step.scratch - shared);
      for (int v : step.makes) set(v, false);
    }
    return peak;
  }

  // Returns the bytes of outputs in blocks of inputs that are not needed after the run.
  int64_t shared_blocks(const RecomputeStep& step, const std::vector<bool>& needed_after) const {
    int64_t bytes = 0;
    std::vector<int> gone;
    for (int made : step.makes) {
      const std::vector<int>& from = p_.values[made].may_reuse;
      const auto takes = std::find_if(from.begin(), from.end(), [&](int v) {
        return !needed_after[v] && std::find(gone.begin(), gone.end(), v) == gone.end();
      });
      if (takes == from.end()) continue;
      gone.push_back(*takes);
      bytes += p_.values[made].bytes;
    }
    return bytes;
  }

  Fault status() const {
    int64_t cost = 0, once = 0;
    for (int step : plan_.runs) cost += p_.steps[step].cost;
    for (const RecomputeStep& step : p_.steps) once += step.cost;
    if (cost != plan_.cost || cost - once != plan_.extra)
      return fmt::format("the runs cost {}, of which {} is extra, but the plan has {} and {}", cost,
                         cost - once, plan_.cost, plan_.extra);
    if (plan_.peak < plan_.lowest)
      return fmt::format("the peak of {} bytes is below the lower bound of all peaks, {}",
                         plan_.peak, plan_.lowest);
    const bool fits = p_.budget < 0 || plan_.peak <= p_.budget;
    const bool says_fits =
        plan_.status == SolveStatus::kOptimal || plan_.status == SolveStatus::kFeasible;
    if (fits != says_fits)
      return fmt::format("the peak is {} bytes of {}, but according to the status it {}",
                         plan_.peak, p_.budget, says_fits ? "fits" : "does not fit");
    if (fits && plan_.cost < plan_.bound)
      return fmt::format("the cost of {} is below its bound, {}", plan_.cost, plan_.bound);
    return {};
  }

  const RecomputeProblem& p_;
  const RecomputePlan& plan_;
  std::vector<bool> made_by_step_;
};

constexpr int64_t kLargestSum = int64_t{1} << 62;

std::string name_of(const char* kind, const std::string& id, int index) {
  return id.empty() ? fmt::format("{} {}", kind, index) : fmt::format("{} '{}'", kind, id);
}

// Finds the first fault of a problem.
class Inspection {
 public:
  explicit Inspection(const RecomputeProblem& problem)
      : p_(problem), producer_(problem.values.size(), -1), overwriter_(problem.values.size(), -1) {}

  std::optional<RecomputeFault> fault() {
    const int values = static_cast<int>(p_.values.size());
    const int steps = static_cast<int>(p_.steps.size());
    for (int v = 0; v < values; ++v)
      if (auto text = of_value(v); !text.empty()) return {{-1, v, text}};
    for (int s = 0; s < steps; ++s)
      if (auto text = of_numbers(s); !text.empty()) return {{s, -1, text}};
    for (int s = 0; s < steps; ++s)
      if (auto text = find_producer(s); !text.empty()) return {{s, -1, text}};
    for (int s = 0; s < steps; ++s)
      if (auto text = of_step(s); !text.empty()) return {{s, -1, text}};
    for (int v = 0; v < values; ++v)
      if (auto text = of_blocks(v); !text.empty()) return {{-1, v, text}};
    return std::nullopt;
  }

 private:
  std::string value(int v) const { return name_of("value", p_.values[v].id, v); }
  std::string step(int s) const { return name_of("step", p_.steps[s].id, s); }
  bool known(int v) const { return v >= 0 && v < std::ssize(p_.values); }

  std::string of_value(int v) {
    const int64_t bytes = p_.values[v].bytes;
    if (bytes < 0) return fmt::format("{}: its size is below 0: {}", value(v), bytes);
    if (bytes >= kLargestSum - sum_of_bytes_)
      return fmt::format("{}: the sum of the sizes up to this value must fit 62 bits", value(v));
    sum_of_bytes_ += bytes;
    return {};
  }

  std::string of_numbers(int s) {
    const RecomputeStep& at = p_.steps[s];
    if (at.cost < 0) return fmt::format("{}: its cost is below 0: {}", step(s), at.cost);
    if (at.scratch < 0) return fmt::format("{}: its scratch is below 0: {}", step(s), at.scratch);
    if (at.cost >= kLargestSum - sum_of_costs_)
      return fmt::format("{}: the sum of the costs up to this step must fit 62 bits", step(s));
    if (at.scratch >= kLargestSum - sum_of_bytes_)
      return fmt::format("{}: the sum of its scratch and all sizes must fit 62 bits", step(s));
    sum_of_costs_ += at.cost;
    for (const auto& list : {at.reads, at.makes, at.overwrites})
      for (int v : list)
        if (!known(v))
          return fmt::format("{}: value {} does not exist; the problem has {} values", step(s), v,
                             p_.values.size());
    return {};
  }

  std::string find_producer(int s) {
    for (int v : p_.steps[s].makes) {
      if (producer_[v] == s) return fmt::format("{}: it makes {} twice", step(s), value(v));
      if (producer_[v] >= 0)
        return fmt::format("{}: it makes {}, which {} also makes", step(s), value(v),
                           step(producer_[v]));
      producer_[v] = s;
    }
    return {};
  }

  // Checks a step. The steps before it have been checked, so no cycle can remain.
  std::string of_step(int s) {
    const RecomputeStep& at = p_.steps[s];
    for (int v : at.reads) {
      if (producer_[v] >= s)
        return fmt::format("{}: it reads {} before {} makes it", step(s), value(v),
                           producer_[v] == s ? "this step" : step(producer_[v]));
      if (overwriter_[v] >= 0)
        return fmt::format("{}: it reads {} after {} has overwritten it", step(s), value(v),
                           step(overwriter_[v]));
    }
    for (int v : at.overwrites) {
      if (at.recomputable)
        return fmt::format("{}: it overwrites {}, so the step must not run again", step(s),
                           value(v));
      if (producer_[v] >= s)
        return fmt::format("{}: it overwrites {} before the value is made", step(s), value(v));
      if (overwriter_[v] >= 0)
        return fmt::format("{}: it overwrites {}, which {} also overwrites", step(s), value(v),
                           step(overwriter_[v]));
      if (p_.values[v].result)
        return fmt::format("{}: it overwrites {}, a result", step(s), value(v));
      overwriter_[v] = s;
    }
    return {};
  }

  std::string of_blocks(int v) const {
    for (int other : p_.values[v].may_reuse) {
      const std::string name = value(v);
      if (!known(other))
        return fmt::format("{}: it may reuse value {}, but the problem has {} values", name, other,
                           p_.values.size());
      if (producer_[v] < 0 || producer_[other] < 0)
        return fmt::format("{}: it may reuse {}, but no step makes {}", name, value(other),
                           producer_[v] < 0 ? "the first" : "the second");
      const std::vector<int>& reads = p_.steps[producer_[v]].reads;
      if (std::find(reads.begin(), reads.end(), other) == reads.end())
        return fmt::format("{}: it may reuse {}, which {} does not read", name, value(other),
                           step(producer_[v]));
      if (p_.values[other].bytes != p_.values[v].bytes)
        return fmt::format("{}: it may reuse {}, but their sizes differ: {} and {} bytes", name,
                           value(other), p_.values[v].bytes, p_.values[other].bytes);
    }
    return {};
  }

  const RecomputeProblem& p_;
  std::vector<int> producer_, overwriter_;
  int64_t sum_of_bytes_ = 0, sum_of_costs_ = 0;
};

}  // namespace

std::optional<RecomputeFault> malformed(const RecomputeProblem& problem) {
  return Inspection(problem).fault();
}

std::optional<std::string> check_recompute(const RecomputeProblem& problem,
                                           const RecomputePlan& plan) {
  return Checker(problem, plan).fault();
}

}  // namespace tessera
