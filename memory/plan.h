// Memory planning ahead of time: given the lifetime of each buffer, finds its offset.
//
// Integers only: no code that solves, checks or draws a Problem uses tensors. Time is the index of
// a node; a lifetime is half-open, [lower, upper); addresses are bytes from the start of the arena.
// Two buffers may share bytes unless both are live at the same time.
//
//   address                    lifetimes  a = [0,2)  b = [0,5)  c = [2,5)
//     12 +-------+----------+
//        |   a   |    c     |             a and c share the bytes 4..12; b shares none
//      4 +-------+----------+
//        |        b         |
//      0 +-------+----------+--> time
//        0       2          5
//
// Nothing here throws. Const methods may be called by several threads at once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

// A half-open part of a lifetime in which the buffer need not keep its bytes.
struct Gap {
  int64_t lower = 0;
  int64_t upper = 0;
  bool operator==(const Gap&) const = default;
};

struct Interval {
  int64_t lower = 0;        // first time at which the buffer is live
  int64_t upper = 0;        // end of the lifetime, exclusive; never live if upper <= lower
  int64_t size = 0;         // bytes; may be 0
  int64_t alignment = 1;    // divisor of the offset
  int64_t offset = -1;      // required offset; -1: the planner decides
  std::vector<Gap> gaps{};  // inside [lower, upper), ascending, without overlaps
  int64_t hint = -1;        // offset in an earlier plan, not binding; -1: unknown
  std::string id{};         // for files, faults and drawings only
  bool operator==(const Interval&) const = default;
  bool takes_room() const { return size > 0 && lower < upper; }
};

struct Problem {
  std::vector<Interval> buffers;
  int64_t capacity = -1;  // maximum bytes of the plan; -1: no limit
  bool operator==(const Problem&) const = default;
};

struct Plan {
  std::vector<int64_t> offsets;  // one per buffer, in the problem's order
  int64_t bytes = 0;             // arena size: the largest offset + size of a buffer ever live
  bool operator==(const Plan&) const = default;
};

enum class SolveStatus {
  kOptimal,     // no plan is smaller
  kFeasible,    // the plan fits the capacity, and is above Solution::bound by Solution::gap()
  kInfeasible,  // no plan fits the capacity, or fixed buffers overlap
  kUnknown,     // no plan that fits was found, and none is proved impossible
};

// A plan with its status and a lower bound.
struct Solution {
  Plan plan;  // if none fits the capacity: the smallest one found
  SolveStatus status = SolveStatus::kUnknown;
  int64_t bound = 0;  // no plan needs fewer bytes
  int64_t nodes = 0;  // decisions of the search
  std::vector<int>
      conflict;  // if infeasible: a minimal set that does not fit; empty: none was found
  // Returns plan.bytes / bound - 1: 0.01 means that the plan is within 1 % of the bound.
  double gap() const {
    return bound <= 0 ? 0 : static_cast<double>(plan.bytes) / static_cast<double>(bound) - 1;
  }
};

// The limits of a search.
struct Limits {
  int64_t nodes = 0;   // decisions, the same on every machine; 0: the planner's default
  double seconds = 0;  // a guard, on which the plan then depends; 0: none
};

// Returns the fault of a problem (a size below 0, an alignment below 1, gaps out of order, a total
// that does not fit 62 bits ...), naming the buffer; nullopt if the problem is valid.
std::optional<std::string> malformed(const Problem& problem);

// Returns the parts of a lifetime between its gaps.
std::vector<Gap> live_parts(const Interval& buffer);

// Returns a lower bound of all plans: the largest sum of sizes that are live at one time. Sizes are
// rounded up to the largest alignment that all buffers share, as far as that is sound.
int64_t lower_bound(const Problem& problem);

// Returns the bytes of a plan without sharing: the sum of all sizes, each aligned.
int64_t unplanned_bytes(const Problem& problem);

// An algorithm that plans memory. To add one, derive from it in a file of your own.
class Planner {
 public:
  virtual ~Planner() = default;

  // Returns the name in configurations: "first_fit".
  virtual std::string_view name() const = 0;
  // Returns one sentence for lists and help texts.
  virtual std::string_view explanation() const = 0;
  // Returns a plan, the same on every run, as effort is counted in operations, not in seconds.
  // Alignments, fixed offsets and gaps hold, except where fixed buffers overlap, which check()
  // reports. If no plan fits the capacity, returns the smallest one found: compare its bytes.
  // Requires a problem that is not malformed().
  virtual Plan solve(const Problem& problem) const = 0;
  // Solves the problem and also returns a bound and a status. Any plan that fits the capacity is
  // enough; without a capacity, the smallest plan is sought. The default calls solve() and compares
  // the plan with lower_bound().
  virtual Solution prove(const Problem& problem, const Limits& limits = {}) const;
};

// Returns all built-in planners, from the simplest to the default, then the added ones.
const std::vector<const Planner*>& planners();
// Adds a planner, which must outlive all lookups. Returns false, and adds nothing, if the name is
// already registered. Not thread-safe: call it before anything is planned.
bool add_planner(const Planner& planner);
// Returns the planner of that name, or nullptr; "best" is the default.
const Planner* find_planner(std::string_view name);
// Returns "none, in_order, ...", for error messages.
std::string planner_names();

}  // namespace tessera
