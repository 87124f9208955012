// local_search changes one thing at a time and keeps changes that do no harm. An order of the
// buffers determines a plan: each in turn goes to the lowest address at which it fits. One of the
// buffers that end at the top causes the height, so it moves to a random earlier place in the order
// (squeaky wheel, Joslin and Clements 1999). A change stays if the plan is not higher than the
// present one or than the one some changes ago, which leads out of local minima (late acceptance,
// Burke and Bykov 2017).
//
//   order   a b c D   ->   a D b c          the top was D
//
//   address |    DDD                |
//           |    DDD                |  ccc
//           |  ccc                  |    DDD
//           | bb                    | bb DDD
//           | aaaaaa                | aaaaaa
//           +---------> time        +---------> time
#include <array>
#include <random>

#include "tessera/memory/planners/placement.h"

namespace tessera::planning {
namespace {

constexpr Effort kBudget = 4'000'000;  // comparisons: some 5 to 10 ms
constexpr size_t kLate = 32;           // a plan may be as high as this many changes ago
constexpr size_t kPatience = 1000;     // changes without a lower plan until the search ends

// Returns a random place in the order whose buffer ends at the top; 0 if there is none.
size_t to_blame(const PreparedProblem& prepared, const std::vector<int>& order, const Plan& plan,
                std::mt19937& random) {
  size_t seen = 0, chosen = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    if (plan.offsets[order[i]] + prepared.items[order[i]].size != plan.bytes) continue;
    if (random() % ++seen == 0) chosen = i;
  }
  return chosen;
}

}  // namespace

Plan local_search(const PreparedProblem& prepared) {
  Effort effort = 0;
  std::mt19937 random(1);  // fixed seed: the plan is deterministic
  std::vector<int> order = order_by(prepared, size_first);
  Plan current = place(prepared, order, Fit::kLowest, INT64_MAX, &effort);
  Plan best = current;
  std::array<int64_t, kLate> late;
  late.fill(current.bytes);
  size_t give_up = kPatience;
  const auto done = [&] {
    return best.bytes <= prepared.good_enough || effort >= kBudget || prepared.deadline.passed();
  };
  for (size_t round = 0; round < give_up && !done(); ++round) {
    const size_t from = to_blame(prepared, order, current, random);
    if (from == 0) break;  // a fixed buffer or the first one: it has no earlier place
    const size_t to = random() % from;
    std::rotate(order.begin() + to, order.begin() + from, order.begin() + from + 1);
    const int64_t allowed = std::max(current.bytes, late[round % kLate]);
    Plan plan = place(prepared, order, Fit::kLowest, allowed + 1, &effort);
    if (plan.bytes <= allowed) {
      current = std::move(plan);
      if (current.bytes < best.bytes) {
        best = current;
        give_up = round + kPatience;
      }
    } else {
      std::rotate(order.begin() + to, order.begin() + to + 1, order.begin() + from + 1);
    }
    late[round % kLate] = current.bytes;
  }
  return best;
}

}  // namespace tessera::planning
