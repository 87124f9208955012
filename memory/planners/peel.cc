#include "tessera/memory/planners/peel.h"

#include <algorithm>
#include <utility>

namespace tessera::planning {
namespace {

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

}  // namespace

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

}  // namespace tessera::planning
