#include "tessera/memory/planners/exact.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace tessera::planning {
namespace {

// Above so many pairs of a section and a block in it, a single decision takes too long.
constexpr size_t kMostPairs = 4'000'000;

// Every plan that is pushed down as far as it goes ends at a multiple of this.
int64_t step_of(const Problem& problem) {
  int64_t step = 0;
  for (const Interval& b : problem.buffers) {
    step = std::gcd(step, b.size);
    if (b.alignment > 1) step = std::gcd(step, b.alignment);
    if (b.offset > 0) step = std::gcd(step, b.offset);
  }
  return std::max<int64_t>(step, 1);
}

// What may be spent on showing why there is no plan.
constexpr int64_t kConflictNodes = 100'000;

int64_t round_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

Plan plan_of(const Problem& problem, const Sections& sections, const std::vector<int64_t>& found) {
  Plan plan;
  for (const Interval& b : problem.buffers) plan.offsets.push_back(std::max<int64_t>(b.offset, 0));
  for (size_t i = 0; i < sections.blocks.size(); ++i) {
    plan.offsets[sections.blocks[i].buffer] = found[i];
  }
  // Also those that are in a gap all their life, which are no blocks.
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    const Interval& b = problem.buffers[i];
    if (b.size == 0 || b.lower >= b.upper) continue;
    plan.bytes = std::max(plan.bytes, plan.offsets[i] + b.size);
  }
  return plan;
}

// Two fixed buffers that are live at one time and share bytes, or nothing.
std::vector<int> clash_of(const Problem& problem) {
  Problem only;
  std::vector<int> index;
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    if (problem.buffers[i].offset < 0) continue;
    only.buffers.push_back(problem.buffers[i]);
    index.push_back(static_cast<int>(i));
  }
  const Sections sections(only);
  for (int s = 0; s < sections.count(); ++s) {
    std::vector<int32_t> order(sections.members(s).begin(), sections.members(s).end());
    const std::vector<Block>& blocks = sections.blocks;
    std::sort(order.begin(), order.end(),
              [&](int32_t a, int32_t b) { return blocks[a].fixed < blocks[b].fixed; });
    for (size_t i = 1; i < order.size(); ++i) {
      const Block& below = blocks[order[i - 1]];
      const Block& above = blocks[order[i]];
      if (below.fixed + below.size <= above.fixed) continue;
      const auto [first, second] = std::minmax(index[below.buffer], index[above.buffer]);
      return {first, second};
    }
  }
  return {};
}

class Refinement {
 public:
  Refinement(const Problem& problem, const Sections& sections, const Limits& limits,
             const Inferences& inferences, Solution solution)
      : problem_(problem),
        sections_(sections),
        budget_(limits.nodes),
        deadline_(deadline(limits.seconds)),
        search_(sections, inferences, deadline_),
        solution_(std::move(solution)) {}

  Solution run() {
    if (problem_.capacity >= 0) {
      const Outcome outcome = attempt(problem_.capacity);
      solution_.verdict = Verdict::kNotFound;
      if (outcome == Outcome::kFound) solution_.verdict = Verdict::kWithin;
      if (outcome == Outcome::kNone) {
        solution_.verdict = Verdict::kInfeasible;
        solution_.bound = std::max(solution_.bound, problem_.capacity + 1);
        solution_.conflict = conflict_of(problem_, kConflictNodes);
      }
    } else {
      minimise();
      solution_.verdict = Verdict::kWithin;
    }
    if (solution_.verdict == Verdict::kWithin && solution_.plan.bytes <= solution_.bound) {
      solution_.verdict = Verdict::kOptimal;
    }
    solution_.nodes = search_.nodes();
    return std::move(solution_);
  }

 private:
  static std::optional<Search::Clock::time_point> deadline(double seconds) {
    if (seconds <= 0) return std::nullopt;
    return Search::Clock::now() + std::chrono::duration_cast<Search::Clock::duration>(
                                      std::chrono::duration<double>(std::min(seconds, 1e6)));
  }

  bool spent() const {
    return search_.nodes() >= budget_ || (deadline_ && Search::Clock::now() >= *deadline_);
  }

  Outcome attempt(int64_t capacity, int64_t nodes = INT64_MAX) {
    const Outcome outcome =
        search_.run(capacity, std::min(nodes, std::max<int64_t>(budget_ - search_.nodes(), 1)));
    if (outcome == Outcome::kFound) {
      solution_.plan = plan_of(problem_, sections_, search_.offsets());
    }
    return outcome;
  }

  // The bound first, which most problems reach; then halving what lies between it and the plan,
  // passing over what cannot be decided in this turn; then again with more decisions.
  void minimise() {
    const int64_t step = step_of(problem_);
    int64_t& bound = solution_.bound;
    bound = round_up(bound, step);
    const int64_t dives = 4 * std::ssize(sections_.blocks);  // to the last block, some
    for (int64_t share = std::max(budget_ / 16, dives); !spent(); share *= 2) {
      int64_t lowest = bound;
      bool first = true;
      while (lowest < solution_.plan.bytes && !spent()) {
        const int64_t half = (solution_.plan.bytes - lowest) / 2 / step * step;
        const int64_t capacity = first ? lowest : lowest + half;
        first = false;
        const Outcome outcome = attempt(capacity, capacity == bound ? 4 * share : share);
        if (outcome == Outcome::kFound) continue;
        lowest = capacity + step;
        if (outcome == Outcome::kNone) bound = lowest;
      }
      if (solution_.plan.bytes <= bound) return;
    }
  }

  const Problem& problem_;
  const Sections& sections_;
  const int64_t budget_;
  const std::optional<Search::Clock::time_point> deadline_;
  Search search_;
  Solution solution_;
};

Problem without(const Problem& problem, const std::vector<int>& kept, size_t from, size_t to) {
  Problem rest{{}, problem.capacity};
  for (size_t i = 0; i < kept.size(); ++i) {
    if (i < from || i >= to) rest.buffers.push_back(problem.buffers[kept[i]]);
  }
  return rest;
}

// A few buffers to begin with: those of a section that holds too much, if there is one.
std::vector<int> suspects(const Problem& problem, const Sections& sections) {
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    const Interval& b = problem.buffers[i];
    if (b.size == 0 || b.lower >= b.upper) continue;
    if (std::max<int64_t>(b.offset, 0) > problem.capacity - b.size) return {static_cast<int>(i)};
  }
  for (int s = 0; s < sections.count(); ++s) {
    std::vector<int> live;
    int64_t room = 0, spare = 0;
    for (int32_t b : sections.members(s)) {
      const Block& block = sections.blocks[b];
      live.push_back(block.buffer);
      room += block.room;
      spare = std::max(spare, block.room - block.size);
    }
    if (room - spare > problem.capacity) return live;
  }
  std::vector<int> all;
  for (const Block& block : sections.blocks) all.push_back(block.buffer);
  return all;
}

}  // namespace

std::vector<int> conflict_of(const Problem& problem, int64_t nodes) {
  const Sections sections(problem);
  std::vector<int> kept = suspects(problem, sections);
  for (size_t chunk = std::max<size_t>(kept.size() / 2, 1);; chunk /= 2) {
    for (size_t from = 0; from < kept.size();) {
      const size_t to = std::min(from + chunk, kept.size());
      const Problem rest = without(problem, kept, from, to);
      const Sections rest_sections(rest);
      Search search(rest_sections);
      const Outcome outcome = search.run(problem.capacity, std::max<int64_t>(nodes, 1));
      nodes -= search.nodes();
      if (outcome == Outcome::kNone) {
        kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(from),
                   kept.begin() + static_cast<std::ptrdiff_t>(to));
      } else if (chunk == 1 && outcome == Outcome::kSpent) {
        return {};
      } else {
        from = to;
      }
    }
    if (chunk == 1) break;
  }
  std::sort(kept.begin(), kept.end());
  return kept;
}

Solution judge(const Problem& problem, Plan plan) {
  Solution solution{std::move(plan), Verdict::kWithin, lower_bound(problem), 0, {}};
  const bool fits = problem.capacity < 0 || solution.plan.bytes <= problem.capacity;
  if (!fits) solution.verdict = Verdict::kNotFound;
  solution.conflict = clash_of(problem);
  if (!solution.conflict.empty()) {
    solution.verdict = Verdict::kInfeasible;
  } else if (problem.capacity >= 0 && solution.bound > problem.capacity) {
    solution.verdict = Verdict::kInfeasible;
    solution.conflict = conflict_of(problem, kConflictNodes);
  } else if (solution.plan.bytes == solution.bound) {
    solution.verdict = Verdict::kOptimal;
  }
  return solution;
}

Solution refine(const Problem& problem, Plan known, const Limits& limits,
                const Inferences& inferences) {
  Solution solution = judge(problem, std::move(known));
  const bool fits = problem.capacity >= 0 && solution.plan.bytes <= problem.capacity;
  if (solution.verdict == Verdict::kOptimal || fits) return solution;
  if (solution.verdict == Verdict::kInfeasible) return solution;
  const Sections sections(problem);
  size_t pairs = 0;
  for (int s = 0; s < sections.count(); ++s) pairs += sections.members(s).size();
  if (pairs > kMostPairs) return solution;
  return Refinement(problem, sections, limits, inferences, std::move(solution)).run();
}

}  // namespace tessera::planning

namespace tessera {

double Solution::gap() const {
  if (bound <= 0) return 0;
  return static_cast<double>(plan.bytes) / static_cast<double>(bound) - 1;
}

Solution Planner::prove(const Problem& problem, const Limits&) const {
  return planning::judge(problem, solve(problem));
}

}  // namespace tessera
