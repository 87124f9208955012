#include "tessera/memory/planners/exact.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>

#include "tessera/memory/plan_check.h"
#include "tessera/memory/planners/search.h"
#include "tessera/runtime/integers.h"

namespace tessera::planning {

namespace {

// Returns the unit of offsets: if no buffer of a plan can be pushed further down, all offsets and
// ends are multiples of it.
int64_t step_of(const Problem& problem) {
  int64_t step = 0;
  for (const Interval& b : problem.buffers) {
    step = std::gcd(step, b.size);
    if (b.alignment > 1) step = std::gcd(step, b.alignment);
    if (b.offset > 0) step = std::gcd(step, b.offset);
  }
  return std::max<int64_t>(step, 1);
}

// --- peeling: leaves out buffers that can be placed whatever the others do ---
//
// A buffer overlaps others in time; wherever one of these is placed, it forbids as many offsets as
// both sizes allow. If all of them cannot forbid every offset within the capacity, the buffer may
// be placed last; without it, others may be placed last as well. Chaitin's allocator (1981) takes
// nodes with few neighbours out of a graph in the same way before it colours the rest.
//
//   capacity  +-----------------+    o forbids b all offsets in (o - b, o + o): a few small
//             |   bbb     ooo   |    neighbours always leave a free place
//             +-----------------+
struct Peeled {
  std::vector<int> core;  // the remaining buffers, in the order given
  std::vector<int> rest;  // the others, in an order in which each finds a place
};

// The number and bytes of buffers that begin before a time, or have ended by then.
struct Sum {
  int64_t count = 0;
  int64_t bytes = 0;
};

class Company {
 public:
  Company(const PreparedProblem& prepared, const std::vector<int>& core)
      : begun_(prepared.load.size() + 1), ended_(prepared.load.size() + 1) {
    for (int i : core) {
      const Item& item = prepared.items[i];
      add(begun_[item.lower + 1], item.size);
      add(ended_[item.upper], item.size);
    }
    for (size_t t = 1; t < begun_.size(); ++t) {
      begun_[t] = {begun_[t - 1].count + begun_[t].count, begun_[t - 1].bytes + begun_[t].bytes};
      ended_[t] = {ended_[t - 1].count + ended_[t].count, ended_[t - 1].bytes + ended_[t].bytes};
    }
  }

  // Returns the sum of all other buffers that overlap the item in time; gaps count as live.
  Sum of(const Item& item) const {
    const Sum begun = begun_[item.upper], ended = ended_[item.lower];
    return {begun.count - ended.count - 1, begun.bytes - ended.bytes - item.size};
  }

 private:
  static void add(Sum& sum, int64_t bytes) {
    ++sum.count;
    sum.bytes += bytes;
  }

  std::vector<Sum> begun_, ended_;
};

// Returns whether the item can be placed last. Computes in double, because counts times sizes may
// not fit an integer.
bool can_wait(const Item& item, const Sum& others, int64_t step, int64_t capacity) {
  if (item.fixed >= 0 || item.size > capacity) return false;
  const bool coarse = item.alignment > step;
  const double unit = static_cast<double>(coarse ? item.alignment : step);
  const double count = static_cast<double>(others.count);
  const double reach =
      (static_cast<double>(others.bytes) + count * static_cast<double>(item.size)) / unit;
  // An open interval of n units contains n - 1 multiples of the unit if it begins at one, else n or
  // fewer, and one more if n is not whole.
  const double forbidden = coarse ? reach + count : reach - count;
  const double offsets = static_cast<double>(capacity - item.size) / unit;
  return forbidden * (1 + 1e-9) < offsets;
}

// Peels the chosen buffers. Requires offsets that are multiples of `step`, as all sizes and
// alignments above 1 are.
Peeled peel(const PreparedProblem& prepared, std::vector<int> chosen, int64_t step,
            int64_t capacity) {
  Peeled peeled{std::move(chosen), {}};
  std::vector<int>& core = peeled.core;
  for (size_t before = core.size() + 1; core.size() < before;) {
    before = core.size();
    const Company company(prepared, core);
    const auto waits = [&](int i) {
      return can_wait(prepared.items[i], company.of(prepared.items[i]), step, capacity);
    };
    const auto from =
        std::stable_partition(core.begin(), core.end(), [&](int i) { return !waits(i); });
    peeled.rest.insert(peeled.rest.end(), from, core.end());
    core.erase(from, core.end());
  }
  std::reverse(peeled.rest.begin(), peeled.rest.end());
  return peeled;
}

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
std::vector<int> crowd_above_capacity(const PreparedProblem& prepared) {
  const Problem& problem = prepared.problem;
  const int64_t capacity = problem.capacity;
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
  const Sections sections(prepared, all);
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

// Returns a minimal infeasible subset of `kept`: its buffers cannot be placed within the capacity,
// but without any one of them they can. Empty if finding it takes too much time, or too many
// decisions in proportion to the `nodes` of a search.
std::vector<int> conflict_of(const PreparedProblem& prepared, std::vector<int> kept,
                             int64_t nodes) {
  nodes = 16 * std::min<int64_t>(nodes, 6'000);
  const int64_t step = step_of(prepared.problem);
  const int64_t capacity = prepared.problem.capacity / step * step;
  for (size_t chunk = std::max<size_t>(kept.size() / 2, 1);; chunk /= 2) {
    for (size_t from = 0; from < kept.size();) {
      if (prepared.deadline.passed()) return {};
      const auto begin = kept.begin() + static_cast<std::ptrdiff_t>(from);
      const auto end =
          kept.begin() + static_cast<std::ptrdiff_t>(std::min(from + chunk, kept.size()));
      std::vector<int> others(kept.begin(), begin);
      others.insert(others.end(), end, kept.end());
      const Peeled peeled = peel(prepared, std::move(others), step, capacity);
      const Sections sections(prepared, peeled.core);
      if (!sections.complete) return {};
      Search search(sections, capacity, {}, prepared.deadline);
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
  Question(const PreparedProblem& prepared, int64_t step, int64_t capacity,
           const Inferences& inferences)
      : prepared_(prepared),
        capacity_(capacity / step * step),
        peeled_(inferences.peeling ? peel(prepared, all_of(prepared), step, capacity_)
                                   : Peeled{all_of(prepared), {}}) {
    const auto begin = Clock::now();
    add_parts();
    // Building the searches takes about twice as long as building the parts.
    if (!prepared.deadline.leaves(3 * (Clock::now() - begin))) return;
    for (const auto& part : parts_)
      if (!part->sections.complete) return;
    for (const auto& part : parts_)
      part->search.emplace(part->sections, capacity_, inferences, prepared.deadline);
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
    explicit Part(Sections made) : sections(std::move(made)) {}
    Sections sections;
    std::optional<Search> search;
    bool found = false;
  };

  // Splits the core in time only if it is too large as a whole: the search itself splits, too.
  void add_parts() {
    const auto add = [&](std::span<const int> buffers) {
      parts_.push_back(std::make_unique<Part>(Sections(prepared_, buffers)));
    };
    add(peeled_.core);
    if (parts_[0]->sections.complete) return;
    const std::vector<std::vector<int>> apart = apart_in_time(prepared_.problem, peeled_.core);
    if (apart.size() < 2) return;
    parts_.clear();
    for (const std::vector<int>& part : apart) add(part);
  }

  Plan full_plan() const {
    Plan plan;
    for (const Interval& b : prepared_.problem.buffers)
      plan.offsets.push_back(std::max<int64_t>(b.offset, 0));
    for (const auto& part : parts_) {
      const std::vector<Block>& blocks = part->sections.blocks;
      for (size_t i = 0; i < blocks.size(); ++i)
        plan.offsets[blocks[i].buffer] = part->search->offsets()[i];
    }
    return place_around(prepared_, peeled_.core, std::move(plan), peeled_.rest);
  }

  const PreparedProblem& prepared_;
  const int64_t capacity_;
  const Peeled peeled_;
  std::vector<std::unique_ptr<Part>> parts_;
  bool hopeless_ = true;
  int64_t nodes_ = 0;  // decisions in all parts
  Plan plan_;
};

class Refinement {
 public:
  Refinement(const PreparedProblem& prepared, Solution judged, int64_t nodes,
             const Inferences& inferences)
      : problem_(prepared.problem),
        prepared_(prepared),
        budget_(std::min(nodes, kMaxNodes)),
        inferences_(inferences),
        step_(step_of(problem_)),
        solution_(std::move(judged)) {}

  Solution run() {
    problem_.capacity >= 0 ? fit() : minimise();
    return std::move(solution_);
  }

 private:
  bool spent() const { return solution_.nodes >= budget_ || prepared_.deadline.passed(); }

  std::unique_ptr<Question> question(int64_t capacity) const {
    return std::make_unique<Question>(prepared_, step_, capacity, inferences_);
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
      solution_.conflict = conflict_of(prepared_, fits->core(), budget_);
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
  const Inferences inferences_;
  const int64_t step_;
  Solution solution_;
};

}  // namespace

SolveStatus status_of(const Problem& problem, const Solution& solution) {
  const int64_t bytes = solution.plan.bytes;
  if (problem.capacity >= 0 && bytes > problem.capacity) return SolveStatus::kUnknown;
  return bytes == solution.bound ? SolveStatus::kOptimal : SolveStatus::kFeasible;
}

Solution judge(const PreparedProblem& prepared, Plan plan, int64_t nodes) {
  const Problem& problem = prepared.problem;
  Solution solution{std::move(plan), SolveStatus::kFeasible, prepared.bound, 0, {}};
  solution.status = status_of(problem, solution);
  solution.conflict = clash_of(problem);
  if (!solution.conflict.empty()) {
    solution.status = SolveStatus::kInfeasible;
  } else if (problem.capacity >= 0 && solution.bound > problem.capacity) {
    solution.status = SolveStatus::kInfeasible;
    solution.conflict =
        conflict_of(prepared, crowd_above_capacity(prepared), nodes > 0 ? nodes : 10'000);
  }
  return solution;
}

Solution refine(const PreparedProblem& prepared, Solution judged, int64_t nodes,
                const Inferences& inferences) {
  const int64_t capacity = prepared.problem.capacity;
  const bool fits = capacity >= 0 && judged.plan.bytes <= capacity;
  if (judged.status == SolveStatus::kOptimal || judged.status == SolveStatus::kInfeasible || fits ||
      prepared.deadline.passed())
    return judged;
  return Refinement(prepared, std::move(judged), nodes, inferences).run();
}

}  // namespace tessera::planning

namespace tessera {

Solution Planner::prove(const Problem& problem, const Limits& limits) const {
  const planning::PreparedProblem prepared(problem, planning::Deadline(limits.seconds));
  return planning::judge(prepared, solve(problem), limits.nodes);
}

}  // namespace tessera
