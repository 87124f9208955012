#include "tessera/memory/planners/exact.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "tessera/memory/plan_check.h"
#include "tessera/memory/planners/deadline.h"
#include "tessera/memory/planners/peel.h"
#include "tessera/memory/planners/placement.h"
#include "tessera/memory/planners/search.h"
#include "tessera/runtime/integers.h"

namespace tessera::planning {

namespace {

// --- conflicts: small sets of buffers that cannot be planned together ---
// Returns two fixed buffers that are live at one time and share bytes, or an empty vector.
std::vector<int> clash_of(const Problem& problem) {
  Problem fixed;
  Plan plan{{}, INT64_MAX};
  std::vector<int> indices;
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    const Interval& b = problem.buffers[i];
    if (b.offset < 0) continue;
    fixed.buffers.push_back(b);
    plan.offsets.push_back(b.offset);
    indices.push_back(static_cast<int>(i));
  }
  const auto fault = check(fixed, plan);
  if (!fault) return {};
  const auto [first, second] = std::minmax(indices[fault->first], indices[fault->second]);
  return {first, second};
}

// Returns the suspects if the lower bound is above the capacity: the buffers live at one time.
std::vector<int> crowd_above(const Problem& problem, const PreparedProblem& prepared,
                             int64_t capacity, const Deadline& deadline) {
  std::vector<int> all;
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    const Interval& b = problem.buffers[i];
    if (!b.takes_room()) continue;
    if (std::max<int64_t>(b.offset, 0) > capacity - b.size) return {static_cast<int>(i)};
    all.push_back(static_cast<int>(i));
  }
  const auto most = std::max_element(prepared.load.begin(), prepared.load.end());
  if (most != prepared.load.end() && *most > capacity) {
    const auto time = static_cast<int32_t>(most - prepared.load.begin());
    std::erase_if(all, [&](int i) { return !prepared.lives(prepared.items[i], time); });
    return all;
  }
  // Otherwise only the rounding of sizes exceeds the capacity.
  const Sections sections(problem, all, deadline);
  for (int s = 0; s < sections.count(); ++s) {
    std::vector<int> live;
    int64_t padded = 0, spare = 0;
    for (int32_t b : sections.members(s)) {
      const Block& block = sections.blocks[b];
      live.push_back(block.buffer);
      padded += block.padded_size;
      spare = std::max(spare, block.padded_size - block.size);
    }
    if (padded - spare > capacity) return live;
  }
  return all;
}

// Returns a minimal infeasible subset of `suspects`: its buffers cannot be placed within the
// capacity, but without any one of them they can. Empty if finding it takes more decisions or time
// than allowed.
std::vector<int> conflict_of(const Problem& problem, const PreparedProblem& prepared,
                             std::vector<int> suspects, int64_t capacity, int64_t nodes,
                             const Deadline& deadline) {
  const int64_t step = step_of(problem);
  capacity = capacity / step * step;
  std::vector<int>& kept = suspects;
  for (size_t chunk = std::max<size_t>(kept.size() / 2, 1);; chunk /= 2) {
    for (size_t from = 0; from < kept.size();) {
      if (deadline.passed()) return {};
      const auto begin = kept.begin() + static_cast<std::ptrdiff_t>(from);
      const auto end =
          kept.begin() + static_cast<std::ptrdiff_t>(std::min(from + chunk, kept.size()));
      std::vector<int> others(kept.begin(), begin);
      others.insert(others.end(), end, kept.end());
      const Peeled peeled = peel(prepared, std::move(others), step, capacity);
      const Sections sections(problem, peeled.core, deadline);
      if (!sections.complete) return {};
      Search search(sections, capacity, {}, deadline);
      const Outcome outcome = search.run(std::max<int64_t>(chunk > 1 ? nodes / 8 : nodes, 1));
      nodes -= search.nodes();
      if (outcome == Outcome::kNone) {
        kept.erase(begin, end);
      } else if (chunk == 1 && outcome == Outcome::kSpent) {
        return {};
      } else {
        from += chunk;
      }
    }
    if (chunk == 1) break;
  }
  std::sort(kept.begin(), kept.end());
  return kept;
}

// Returns the decisions for finding a conflict, in addition to a search of `nodes` decisions.
int64_t conflict_nodes(int64_t nodes) { return 16 * std::min<int64_t>(nodes, 6'000); }

constexpr int64_t kMaxNodes = int64_t{1} << 50;

std::vector<int> all_of(const PreparedProblem& prepared) {
  std::vector<int> all = prepared.movable;
  all.insert(all.end(), prepared.fixed.begin(), prepared.fixed.end());
  std::sort(all.begin(), all.end());
  return all;
}

// Splits the buffers at times that no lifetime crosses; the parts are independent problems.
std::vector<std::vector<int>> apart_in_time(const Problem& problem, std::vector<int> buffers) {
  std::sort(buffers.begin(), buffers.end(), [&](int a, int b) {
    return std::pair(problem.buffers[a].lower, a) < std::pair(problem.buffers[b].lower, b);
  });
  std::vector<std::vector<int>> parts;
  int64_t end = INT64_MIN;
  for (int i : buffers) {
    if (problem.buffers[i].lower >= end) parts.emplace_back();
    parts.back().push_back(i);
    end = std::max(end, problem.buffers[i].upper);
  }
  return parts;
}

// A search for a plan within a capacity, which can be resumed.
class Question {
 public:
  Question(const Problem& problem, const PreparedProblem& prepared, int64_t step, int64_t capacity,
           const Inferences& inferences, const Deadline& deadline)
      : problem_(problem),
        prepared_(prepared),
        deadline_(deadline),
        capacity_(capacity / step * step),
        peeled_(inferences.peeling ? peel(prepared, all_of(prepared), step, capacity_)
                                   : Peeled{all_of(prepared), {}}) {
    const Stopwatch watch;
    add_parts();
    // Building the searches takes about twice as long as building the parts.
    if (!deadline.leaves(3 * watch.seconds())) return;
    for (const auto& part : parts_) {
      if (!part->sections.complete) return;
    }
    for (const auto& part : parts_) {
      part->search.emplace(part->sections, capacity_, inferences, deadline);
    }
    hopeless_ = false;
  }

  Outcome ask(int64_t nodes) {
    if (hopeless_) return Outcome::kSpent;
    const int64_t most = nodes_ + nodes;
    bool all = true;
    for (size_t i = 0; i < parts_.size(); ++i) {
      Part& part = *parts_[i];
      if (part.found) continue;
      const int64_t before = part.search->nodes();
      const int64_t share = (most - nodes_) / static_cast<int64_t>(parts_.size() - i);
      const Outcome outcome = part.search->run(std::max<int64_t>(share, 1));
      nodes_ += part.search->nodes() - before;
      if (outcome == Outcome::kNone) return outcome;
      part.found = outcome == Outcome::kFound;
      all = all && part.found;
    }
    if (!all) return Outcome::kSpent;
    plan_ = full_plan();
    return plan_.bytes <= capacity_ ? Outcome::kFound : Outcome::kSpent;  // past the deadline
  }

  Plan& plan() { return plan_; }  // valid after kFound
  int64_t nodes() const { return nodes_; }
  int64_t blocks() const {
    return std::accumulate(
        parts_.begin(), parts_.end(), int64_t{0},
        [](int64_t sum, const auto& p) { return sum + std::ssize(p->sections.blocks); });
  }
  bool hopeless() const { return hopeless_; }                    // too large to be searched
  const std::vector<int>& core() const { return peeled_.core; }  // infeasible as well, after kNone

 private:
  struct Part {
    Part(const Problem& problem, std::span<const int> chosen, const Deadline& deadline)
        : sections(problem, chosen, deadline) {}
    Sections sections;
    std::optional<Search> search;
    bool found = false;
  };

  // Splits the core in time only if it is too large as a whole: the search itself splits, too.
  void add_parts() {
    const auto add = [&](std::span<const int> buffers) {
      parts_.push_back(std::make_unique<Part>(problem_, buffers, deadline_));
    };
    add(peeled_.core);
    if (parts_[0]->sections.complete) return;
    const std::vector<std::vector<int>> apart = apart_in_time(problem_, peeled_.core);
    if (apart.size() < 2) return;
    parts_.clear();
    for (const std::vector<int>& part : apart) add(part);
  }

  Plan full_plan() const {
    Plan plan;
    for (const Interval& b : problem_.buffers) {
      plan.offsets.push_back(std::max<int64_t>(b.offset, 0));
    }
    for (const auto& part : parts_) {
      const std::vector<Block>& blocks = part->sections.blocks;
      for (size_t i = 0; i < blocks.size(); ++i) {
        plan.offsets[blocks[i].buffer] = part->search->offsets()[i];
      }
    }
    return place_around(prepared_, peeled_.core, std::move(plan), peeled_.rest, deadline_);
  }

  const Problem& problem_;
  const PreparedProblem& prepared_;
  const Deadline& deadline_;
  const int64_t capacity_;
  const Peeled peeled_;
  std::vector<std::unique_ptr<Part>> parts_;
  bool hopeless_ = true;
  int64_t nodes_ = 0;  // decisions in all parts
  Plan plan_;
};

class Refinement {
 public:
  Refinement(const Problem& problem, const PreparedProblem& prepared, Solution judged,
             int64_t nodes, const Deadline& deadline, const Inferences& inferences)
      : problem_(problem),
        prepared_(prepared),
        budget_(std::min(nodes, kMaxNodes)),
        deadline_(deadline),
        inferences_(inferences),
        step_(step_of(problem)),
        solution_(std::move(judged)) {}

  Solution run() {
    problem_.capacity >= 0 ? fit() : minimise();
    return std::move(solution_);
  }

 private:
  bool spent() const { return solution_.nodes >= budget_ || deadline_.passed(); }

  std::unique_ptr<Question> question(int64_t capacity) const {
    return std::make_unique<Question>(problem_, prepared_, step_, capacity, inferences_, deadline_);
  }

  Outcome ask(Question& question, int64_t nodes) {
    const int64_t before = question.nodes();
    const int64_t left = std::max<int64_t>(budget_ - solution_.nodes, 1);
    const Outcome outcome = question.ask(std::min(nodes, left));
    solution_.nodes += question.nodes() - before;
    if (outcome == Outcome::kFound) solution_.plan = std::move(question.plan());
    return outcome;
  }

  void fit() {
    const auto fits = question(problem_.capacity);
    const Outcome outcome = ask(*fits, budget_);
    solution_.status = status_of(problem_, solution_);
    if (outcome == Outcome::kNone) {
      solution_.status = SolveStatus::kInfeasible;
      solution_.bound = std::max(solution_.bound, problem_.capacity + 1);
      solution_.conflict = conflict_of(problem_, prepared_, fits->core(), problem_.capacity,
                                       conflict_nodes(budget_), deadline_);
    }
  }

  // Tries the bound first, which most problems reach. Then bisects between the bound and the plan,
  // skipping capacities that cannot be decided in this round, and repeats with more decisions.
  void minimise() {
    int64_t& bound = solution_.bound;
    bound = round_up(bound, step_);
    std::unique_ptr<Question> lowest_question = question(bound);
    int64_t asked = bound;
    if (lowest_question->hopeless()) return;
    // Each round has decisions for a descent to the last block, and for several if possible.
    const int64_t way = lowest_question->blocks() * 5 / 4 + 64;
    const int64_t ways = std::max(way, std::min(4 * way, budget_ / 4));
    for (int64_t share = std::max(budget_ / 16, ways); !spent();
         share = std::min(2 * share, budget_)) {
      Outcome outcome = ask(*lowest_question, std::min(4 * share, std::max(budget_ / 2, way)));
      int64_t lowest = bound + step_;
      if (outcome == Outcome::kNone) bound = lowest;
      while (lowest < solution_.plan.bytes && !spent()) {
        const int64_t half = (solution_.plan.bytes - lowest) / 2 / step_ * step_;
        const int64_t capacity = lowest + half;
        outcome = ask(*question(capacity), share);
        if (outcome == Outcome::kFound) continue;
        lowest = capacity + step_;
        if (outcome == Outcome::kNone) bound = lowest;
      }
      solution_.status = status_of(problem_, solution_);
      if (solution_.status == SolveStatus::kOptimal) return;
      // Ask about the new bound from now on: another "no plan" at the old one would prove nothing.
      if (bound > asked) lowest_question = question(asked = bound);
    }
  }

  const Problem& problem_;
  const PreparedProblem& prepared_;
  const int64_t budget_;
  const Deadline& deadline_;
  const Inferences inferences_;
  const int64_t step_;
  Solution solution_;
};

}  // namespace

int64_t step_of(const Problem& problem) {
  int64_t step = 0;
  for (const Interval& b : problem.buffers) {
    step = std::gcd(step, b.size);
    if (b.alignment > 1) step = std::gcd(step, b.alignment);
    if (b.offset > 0) step = std::gcd(step, b.offset);
  }
  return std::max<int64_t>(step, 1);
}

int64_t judge_nodes(const Limits& limits) { return limits.nodes > 0 ? limits.nodes : 10'000; }

SolveStatus status_of(const Problem& problem, const Solution& solution) {
  const int64_t bytes = solution.plan.bytes;
  if (problem.capacity >= 0 && bytes > problem.capacity) return SolveStatus::kUnknown;
  return bytes == solution.bound ? SolveStatus::kOptimal : SolveStatus::kFeasible;
}

Solution judge(const Problem& problem, const PreparedProblem& prepared, Plan plan, int64_t nodes,
               const Deadline& deadline) {
  Solution solution{std::move(plan), SolveStatus::kFeasible, prepared.bound, 0, {}};
  solution.status = status_of(problem, solution);
  solution.conflict = clash_of(problem);
  if (!solution.conflict.empty()) {
    solution.status = SolveStatus::kInfeasible;
  } else if (problem.capacity >= 0 && solution.bound > problem.capacity) {
    solution.status = SolveStatus::kInfeasible;
    solution.conflict =
        conflict_of(problem, prepared, crowd_above(problem, prepared, problem.capacity, deadline),
                    problem.capacity, conflict_nodes(nodes), deadline);
  }
  return solution;
}

Solution refine(const Problem& problem, const PreparedProblem& prepared, Solution judged,
                int64_t nodes, const Deadline& deadline, const Inferences& inferences) {
  const bool fits = problem.capacity >= 0 && judged.plan.bytes <= problem.capacity;
  if (judged.status == SolveStatus::kOptimal || fits) return judged;
  if (judged.status == SolveStatus::kInfeasible || deadline.passed()) return judged;
  return Refinement(problem, prepared, std::move(judged), nodes, deadline, inferences).run();
}

}  // namespace tessera::planning

namespace tessera {

double Solution::gap() const {
  if (bound <= 0) return 0;
  return static_cast<double>(plan.bytes) / static_cast<double>(bound) - 1;
}

Solution Planner::prove(const Problem& problem, const Limits& limits) const {
  const planning::Deadline deadline(limits.seconds);
  return planning::judge(problem, planning::PreparedProblem(problem), solve(problem),
                         planning::judge_nodes(limits), deadline);
}

}  // namespace tessera
