#include "tessera/memory/by_name.h"
#include "tessera/memory/planners/exact.h"

namespace tessera {
namespace {

using planning::PreparedProblem;

// A planner that is a function: one that places, or one that also proves.
class FunctionPlanner final : public Planner {
 public:
  using Place = Plan (*)(const PreparedProblem& prepared);
  using Prove = Solution (*)(const PreparedProblem& prepared, int64_t nodes);

  FunctionPlanner(std::string_view name, std::string_view explanation, Place place,
                  Prove prove = nullptr)
      : name_(name), explanation_(explanation), place_(place), prove_(prove) {}

  std::string_view name() const override { return name_; }
  std::string_view explanation() const override { return explanation_; }
  Plan solve(const Problem& problem) const override {
    return prove_ != nullptr ? prove(problem).plan : place_(PreparedProblem(problem));
  }
  Solution prove(const Problem& problem, const Limits& limits = {}) const override {
    const PreparedProblem prepared(problem, planning::Deadline(limits.seconds));
    if (prove_ != nullptr) return prove_(prepared, limits.nodes);
    return judge(prepared, place_(prepared), limits.nodes);
  }

 private:
  const std::string_view name_, explanation_;
  const Place place_;
  const Prove prove_;
};

std::vector<const Planner*>& all_planners() {
  using namespace planning;
  static const FunctionPlanner built_in[] = {
      {"none", "shares nothing: every buffer has bytes of its own", none},
      {"in_order",
       "in the order of allocation, each at the lowest free address, as an eager allocator would",
       in_order},
      {"first_fit", "the largest first, each at the lowest address at which it fits", first_fit},
      {"first_fit_area",
       "the largest size x lifetime first, each at the lowest address at which it fits",
       first_fit_area},
      {"first_fit_lifetime", "the longest-lived first, each at the lowest address at which it fits",
       first_fit_lifetime},
      {"best_fit", "the largest first, each in the hole that it fills best", best_fit},
      {"skyline", "fills memory from the bottom, by area (size x lifetime)", skyline},
      {"xla", "XLA's: best fit by size and by lifetime, the lower of the two", xla},
      {"tflite",
       "TensorFlow Lite's: buffers that live throughout first, then by size in the tightest gap",
       tflite},
      {"local_search",
       "starts with the order by size, then moves buffers at the top to earlier positions",
       local_search},
      {"optimal",
       "an exact search: the lowest plan with proof, unless its limit of decisions ends it first",
       nullptr, optimal},
      {"best", "the lowest plan of cheap orders, an exact search and a local search (the default)",
       nullptr, best},
  };
  static std::vector<const Planner*> all = pointers_to<Planner>(built_in);
  return all;
}

}  // namespace

const std::vector<const Planner*>& planners() { return all_planners(); }

bool add_planner(const Planner& planner) { return add_by_name(all_planners(), planner); }

const Planner* find_planner(std::string_view name) { return find_by_name(all_planners(), name); }

std::string planner_names() { return names_in_order(all_planners()); }

}  // namespace tessera
