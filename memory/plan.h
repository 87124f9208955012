// Planning memory ahead: when each block is needed is known, where it stands is wanted.
//
// Integers only: this file and everything that solves, checks or draws a Problem knows no tensors.
// Time is the number of a step, a lifetime is half-open, [lower, upper); addresses are bytes from
// the start of the arena. Two buffers may share bytes unless both are live at the same time.
//
//   address                    lifetimes  a = [0,2)  b = [0,5)  c = [2,5)
//     12 +-------+----------+
//        |   a   |    c     |             a and c share the bytes 4..12; b stands alone
//      4 +-------+----------+
//        |        b         |
//      0 +-------+----------+--> time
//        0       2          5
//
// Nothing here throws; a Planner is const and may be used by several threads at once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

// A half-open piece of a lifetime in which the buffer need not keep its bytes.
struct Gap {
  int64_t lower = 0;
  int64_t upper = 0;
  bool operator==(const Gap&) const = default;
};

struct Interval {
  int64_t lower = 0;        // first time at which it is live
  int64_t upper = 0;        // first time at which it is dead again; never live when upper <= lower
  int64_t size = 0;         // bytes; 0 takes no room
  int64_t alignment = 1;    // its offset must be a multiple of this
  int64_t offset = -1;      // where it must stand; -1: the planner decides
  std::vector<Gap> gaps{};  // inside [lower, upper), ascending, none overlapping another
  int64_t hint = -1;        // where it stood in an earlier plan, not binding; -1: unknown
  std::string id{};         // for files, faults and drawings only
  bool operator==(const Interval&) const = default;
};

struct Problem {
  std::vector<Interval> buffers;
  int64_t capacity = -1;  // bytes the plan may take; -1: no limit
  bool operator==(const Problem&) const = default;
};

struct Plan {
  std::vector<int64_t> offsets;  // one per buffer, in the problem's order
  int64_t bytes = 0;             // what the arena needs: the largest offset + size of those live
  bool operator==(const Plan&) const = default;
};

enum class SolveStatus {
  kOptimal,     // no plan is lower
  kFeasible,    // it fits the capacity, and is above Solution::bound by Solution::gap()
  kInfeasible,  // no plan fits the capacity, or fixed buffers clash
  kUnknown,     // none was found that fits the capacity, and none is proved impossible
};

// A plan and what is known of it.
struct Solution {
  Plan plan;  // when no plan fits the capacity: the lowest one found, which is above it
  SolveStatus status = SolveStatus::kUnknown;
  int64_t bound = 0;  // no plan is below
  int64_t nodes = 0;  // decisions that a search has made
  std::vector<int>
      conflict;  // when infeasible: buffers that cannot be planned within the capacity,
                 // though without any one of them they can; empty: none was found
  // By which part of the bound the plan is above it: 0.01 means within 1 %.
  double gap() const;
};

// How far a search may go.
struct Limits {
  int64_t nodes = 0;   // decisions, the same on every machine; 0: what the planner thinks right
  double seconds = 0;  // a guard, on which the plan then depends; 0: none
};

// What is wrong with a problem (a size below 0, an alignment below 1, gaps out of order, a total
// that does not fit 62 bits ...), naming the buffer; nothing when planners may be given it.
std::optional<std::string> malformed(const Problem& problem);

// The parts of a lifetime between its gaps.
std::vector<Gap> live_parts(const Interval& buffer);

// Bytes below which no plan can be: the largest sum of sizes that are live at one time. Sizes are
// rounded up to the largest alignment that all buffers share, as far as that is sound.
int64_t lower_bound(const Problem& problem);

// The sum of all sizes, each at its alignment: what it takes to share nothing.
int64_t unplanned_bytes(const Problem& problem);

// One way to turn a problem into a plan. Derive from it in a file of your own to add one.
class Planner {
 public:
  virtual ~Planner() = default;

  // As chosen in a configuration: "first_fit".
  virtual std::string_view name() const = 0;
  // One sentence for lists and help texts.
  virtual std::string_view explanation() const = 0;
  // The same plan for the same problem, on every run: effort is counted in steps, not in seconds.
  // Requires a problem that is not malformed(). Alignments, fixed offsets and gaps hold in the
  // result, except where fixed buffers clash with one another, which check() reports. When
  // the capacity cannot be met the smallest plan found is returned; compare bytes with it.
  virtual Plan solve(const Problem& problem) const = 0;
  // The same, and what it is worth. Unless a planner can do better it is solve(), held against the
  // lower bound. With a capacity any plan that fits will do, without one the lowest is sought.
  virtual Solution prove(const Problem& problem, const Limits& limits = {}) const;
};

// All built-in planners, from the simplest to the default, then those that were added.
const std::vector<const Planner*>& planners();
// Adds a planner that is not built in; it must live as long as it may be found. False, and not
// added, where the name is taken. Not thread-safe: call it before anything is planned.
bool add_planner(const Planner& planner);
// The planner of that name, or nullptr; "best" is the default.
const Planner* find_planner(std::string_view name);
// "none, in_order, ...", for error messages.
std::string planner_names();

}  // namespace tessera
