#include "tessera/memory/recompute/frontier.h"

#include <algorithm>

namespace tessera::recomputing {

void Frontier::add(int64_t peak, int64_t cost, const Policy& policy) {
  const auto lower = [](const Way& way, int64_t p) { return way.peak < p; };
  auto at = std::lower_bound(ways_.begin(), ways_.end(), peak, lower);
  if (at != ways_.end() && at->peak == peak && at->cost <= cost) return;
  if (at != ways_.begin() && std::prev(at)->cost <= cost) return;
  auto end = at;
  while (end != ways_.end() && end->cost >= cost) ++end;
  at = ways_.erase(at, end);
  ways_.insert(at, {peak, cost, policy});
}

const Way* Frontier::within(int64_t budget) const {
  const auto above = [](int64_t b, const Way& way) { return b < way.peak; };
  const auto at = std::upper_bound(ways_.begin(), ways_.end(), budget, above);
  return at == ways_.begin() ? nullptr : &*std::prev(at);
}

}  // namespace tessera::recomputing
