// What may not be in a problem.
#include <algorithm>

#include <fmt/format.h>

#include "tessera/memory/recompute/recompute.h"

namespace tessera {
namespace {

constexpr int64_t kLargest = int64_t{1} << 62;

std::string name_of(const char* kind, const std::string& id, int index) {
  return id.empty() ? fmt::format("{} {}", kind, index) : fmt::format("{} '{}'", kind, id);
}

class Inspection {
 public:
  explicit Inspection(const RecomputeProblem& problem)
      : p_(problem), maker_(problem.values.size(), -1), overwriter_(problem.values.size(), -1) {}

  std::optional<RecomputeFault> fault() {
    const int values = static_cast<int>(p_.values.size());
    const int steps = static_cast<int>(p_.steps.size());
    for (int v = 0; v < values; ++v)
      if (auto text = of_value(v); !text.empty()) return {{-1, v, text}};
    for (int s = 0; s < steps; ++s)
      if (auto text = of_numbers(s); !text.empty()) return {{s, -1, text}};
    for (int s = 0; s < steps; ++s)
      if (auto text = find_maker(s); !text.empty()) return {{s, -1, text}};
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
    if (bytes >= kLargest - sum_of_bytes_)
      return fmt::format("{}: with it the sizes add up to more than 62 bits", value(v));
    sum_of_bytes_ += bytes;
    return {};
  }

  std::string of_numbers(int s) {
    const RecomputeStep& at = p_.steps[s];
    if (at.cost < 0) return fmt::format("{}: its cost is below 0: {}", step(s), at.cost);
    if (at.scratch < 0) return fmt::format("{}: its scratch is below 0: {}", step(s), at.scratch);
    if (at.cost >= kLargest - sum_of_costs_)
      return fmt::format("{}: with it the costs add up to more than 62 bits", step(s));
    if (at.scratch >= kLargest - sum_of_bytes_)
      return fmt::format("{}: its scratch and the sizes add up to more than 62 bits", step(s));
    sum_of_costs_ += at.cost;
    for (const auto& list : {at.reads, at.makes, at.overwrites})
      for (int v : list)
        if (!known(v))
          return fmt::format("{}: there is no value {}, there are {}", step(s), v,
                             p_.values.size());
    return {};
  }

  std::string find_maker(int s) {
    for (int v : p_.steps[s].makes) {
      if (maker_[v] == s) return fmt::format("{}: it makes {} twice", step(s), value(v));
      if (maker_[v] >= 0)
        return fmt::format("{}: it makes {}, which {} makes", step(s), value(v), step(maker_[v]));
      maker_[v] = s;
    }
    return {};
  }

  // In the order of steps: what stands before has been looked at, so no cycle is left over.
  std::string of_step(int s) {
    const RecomputeStep& at = p_.steps[s];
    for (int v : at.reads) {
      if (maker_[v] >= s)
        return fmt::format("{}: it reads {} before {} makes it", step(s), value(v),
                           maker_[v] == s ? "it" : step(maker_[v]));
      if (overwriter_[v] >= 0)
        return fmt::format("{}: it reads {} after {} has overwritten it", step(s), value(v),
                           step(overwriter_[v]));
    }
    for (int v : at.overwrites) {
      if (at.again)
        return fmt::format("{}: it overwrites {}, so it must not run again", step(s), value(v));
      if (maker_[v] >= s)
        return fmt::format("{}: it overwrites {} before it is made", step(s), value(v));
      if (overwriter_[v] >= 0)
        return fmt::format("{}: it overwrites {}, as {} does", step(s), value(v),
                           step(overwriter_[v]));
      if (p_.values[v].result)
        return fmt::format("{}: it overwrites {}, a result", step(s), value(v));
      overwriter_[v] = s;
    }
    return {};
  }

  std::string of_blocks(int v) const {
    for (int other : p_.values[v].may_take) {
      const std::string name = value(v);
      if (!known(other))
        return fmt::format("{}: it may take value {}, there are {}", name, other, p_.values.size());
      if (maker_[v] < 0 || maker_[other] < 0)
        return fmt::format("{}: it may take {}, and no step makes {}", name, value(other),
                           maker_[v] < 0 ? "it" : "that");
      const std::vector<int>& reads = p_.steps[maker_[v]].reads;
      if (std::find(reads.begin(), reads.end(), other) == reads.end())
        return fmt::format("{}: it may take {}, which {} does not read", name, value(other),
                           step(maker_[v]));
      if (p_.values[other].bytes != p_.values[v].bytes)
        return fmt::format("{}: it may take {}, and has {} bytes where that has {}", name,
                           value(other), p_.values[v].bytes, p_.values[other].bytes);
    }
    return {};
  }

  const RecomputeProblem& p_;
  std::vector<int> maker_, overwriter_;
  int64_t sum_of_bytes_ = 0, sum_of_costs_ = 0;
};

}  // namespace

std::optional<RecomputeFault> malformed(const RecomputeProblem& problem) {
  return Inspection(problem).fault();
}

}  // namespace tessera
