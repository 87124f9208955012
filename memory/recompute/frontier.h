// Sequences as policies, and the best of those seen. Private to memory/recompute.
//
// A policy says after which first run which value is forgotten. What is forgotten and then read is
// made again right before, with what that takes, and is there from then on until it is forgotten
// again.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

namespace tessera::recomputing {

// After the first run of `step`, `value` is no longer there.
struct Forget {
  int step;
  int value;
  auto operator<=>(const Forget&) const = default;
};

using Policy = std::vector<Forget>;  // ascending

struct Way {
  int64_t peak, cost;
  Policy policy;
};

// Of all ways seen, those that none is as low and as cheap as; the lowest first.
class Frontier {
 public:
  void add(int64_t peak, int64_t cost, const Policy& policy);
  // The cheapest within the budget, or nullptr.
  const Way* within(int64_t budget) const;
  const std::vector<Way>& ways() const { return ways_; }

 private:
  std::vector<Way> ways_;
};

}  // namespace tessera::recomputing
