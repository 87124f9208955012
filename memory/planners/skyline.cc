// skyline fills memory from the bottom, like settling snow: a skyline of heights covers the time
// axis. Each round takes the lowest flat stretch and puts on it the first buffer, by a rule, that
// is live only within the stretch. If there is none, the stretch is lost and rises to its lower
// neighbour.
//
//   height            the lowest stretch is [2,6): a buffer that is live
//     |####           within it comes next, or the stretch rises to the level on its right
//     |####    ###
//     +----------> time
//      0 2  4  6  8
//
// The idea is bottom-left strip packing (Burke, Kendall and Whitwell 2004) with given times, as
// Sekiyama et al. use it for training graphs (2018). Fixed offsets, alignments and gaps are left to
// the placement that follows: only the order is used, and placing in that order at the lowest
// addresses never ends above the skyline.
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "tessera/memory/planners/placement.h"

namespace tessera::planning {
namespace {

constexpr size_t kTurnsPerLook = 64;  // between looks at the clock

// Finds the first buffer, in the order of a rule, that is live only within a stretch. The nodes of
// a binary tree over that order store the latest beginning and the earliest end below them.
class Candidates {
 public:
  Candidates(const PreparedProblem& prepared, std::vector<int> ranked)
      : ranked_(std::move(ranked)) {
    while (leaves_ < ranked_.size()) leaves_ *= 2;
    nodes_.assign(2 * leaves_, kNothing);
    for (size_t i = 0; i < ranked_.size(); ++i) {
      const Item& item = prepared.items[ranked_[i]];
      nodes_[leaves_ + i] = {item.lower, item.upper};
    }
    for (size_t i = leaves_; i-- > 1;) merge(i);
    starts_.assign(prepared.load.size() + 1, 0);
    for (int index : ranked_) ++starts_[prepared.items[index].lower + 1];
    for (size_t time = 1; time < starts_.size(); ++time) starts_[time] += starts_[time - 1];
    by_lower_.resize(ranked_.size());
    std::vector<int32_t> next = starts_;
    for (size_t i = 0; i < ranked_.size(); ++i)
      by_lower_[next[prepared.items[ranked_[i]].lower]++] = static_cast<int32_t>(leaves_ + i);
  }

  // Removes the first buffer that is live only in [lower, upper) and returns its index, or -1.
  int take(int32_t lower, int32_t upper) {
    const bool few = starts_[upper] - starts_[lower] <= kFew;
    const size_t leaf = few ? scan(lower, upper) : search(1, lower, upper);
    if (leaf == 0) return -1;
    nodes_[leaf] = kNothing;
    for (size_t i = leaf / 2; i > 0; i /= 2) merge(i);
    return ranked_[leaf - leaves_];
  }

  // Moves all remaining buffers to `order`, in the order of the rule.
  void take_all(std::vector<int>& order) {
    for (size_t i = 0; i < ranked_.size(); ++i) {
      Node& leaf = nodes_[leaves_ + i];
      if (leaf.latest_lower != kNothing.latest_lower) order.push_back(ranked_[i]);
      leaf = kNothing;
    }
  }

  Effort effort() const { return effort_; }

 private:
  struct Node {
    int32_t latest_lower;
    int32_t earliest_upper;
  };
  static constexpr Node kNothing{std::numeric_limits<int32_t>::min(),
                                 std::numeric_limits<int32_t>::max()};

  void merge(size_t i) {
    nodes_[i] = {std::max(nodes_[2 * i].latest_lower, nodes_[2 * i + 1].latest_lower),
                 std::min(nodes_[2 * i].earliest_upper, nodes_[2 * i + 1].earliest_upper)};
  }

  size_t search(size_t node, int32_t lower, int32_t upper) {
    ++effort_;
    if (nodes_[node].latest_lower < lower || nodes_[node].earliest_upper > upper) return 0;
    if (node >= leaves_) return node;
    const size_t leaf = search(2 * node, lower, upper);
    return leaf != 0 ? leaf : search(2 * node + 1, lower, upper);
  }

  // Searches a short stretch: examines all buffers that begin in it.
  size_t scan(int32_t lower, int32_t upper) {
    size_t first = 0;
    for (int32_t i = starts_[lower]; i < starts_[upper]; ++i) {
      ++effort_;
      const size_t leaf = by_lower_[i];
      if (nodes_[leaf].earliest_upper <= upper && (first == 0 || leaf < first)) first = leaf;
    }
    return first;
  }

  static constexpr int32_t kFew = 64;
  std::vector<int> ranked_;
  size_t leaves_ = 1;
  std::vector<Node> nodes_;
  std::vector<int32_t> starts_;    // number of buffers that begin before a time
  std::vector<int32_t> by_lower_;  // leaves in the order of their beginnings
  Effort effort_ = 0;
};

// A partition of the time axis into stretches of one height.
class Skyline {
 public:
  explicit Skyline(int32_t end) { add(0, end, 0); }

  struct Stretch {
    int32_t lower;
    int32_t upper;
    int64_t height;
  };

  Stretch lowest() const {
    const auto& [height, lower] = *by_height_.begin();
    return {lower, stretches_.at(lower).upper, height};
  }

  // Raises [lower, upper), a part of the stretch, by `bytes`.
  void stack(const Stretch& on, int32_t lower, int32_t upper, int64_t bytes) {
    remove(on.lower);
    if (on.lower < lower) add(on.lower, lower, on.height);
    if (upper < on.upper) add(upper, on.upper, on.height);
    add_merged(lower, upper, on.height + bytes);
  }

  // Raises the whole stretch to its lower neighbour.
  void level(const Stretch& stretch) {
    int64_t height = std::numeric_limits<int64_t>::max();
    const auto at = stretches_.find(stretch.lower);
    if (at != stretches_.begin()) height = std::prev(at)->second.height;
    if (std::next(at) != stretches_.end()) height = std::min(height, std::next(at)->second.height);
    remove(stretch.lower);
    add_merged(stretch.lower, stretch.upper, height);
  }

 private:
  struct Value {
    int32_t upper;
    int64_t height;
  };

  void add(int32_t lower, int32_t upper, int64_t height) {
    stretches_[lower] = {upper, height};
    by_height_.emplace(height, lower);
  }

  void remove(int32_t lower) {
    const auto at = stretches_.find(lower);
    by_height_.erase({at->second.height, lower});
    stretches_.erase(at);
  }

  void add_merged(int32_t lower, int32_t upper, int64_t height) {
    auto after = stretches_.lower_bound(lower);
    if (after != stretches_.end() && after->second.height == height) {
      upper = after->second.upper;
      remove(after->first);
      after = stretches_.lower_bound(lower);
    }
    if (after != stretches_.begin() && std::prev(after)->second.height == height) {
      lower = std::prev(after)->first;
      remove(lower);
    }
    add(lower, upper, height);
  }

  std::map<int32_t, Value> stretches_;
  std::set<std::pair<int64_t, int32_t>> by_height_;
};

std::vector<int> ranked_by(const PreparedProblem& prepared, SkylineRule rule) {
  return order_by(prepared, [rule](const Item& item) {
    const int64_t time = item.lifetime();
    if (rule == SkylineRule::kLongest) return std::tuple<double, int64_t>(time, item.size);
    if (rule == SkylineRule::kLargest) return std::tuple<double, int64_t>(item.size, time);
    return std::tuple<double, int64_t>(item.area(), time);
  });
}

}  // namespace

std::vector<int> skyline_order(const PreparedProblem& prepared, SkylineRule rule, Effort* effort) {
  std::vector<int> order;
  order.reserve(prepared.movable.size());
  Candidates candidates(prepared, ranked_by(prepared, rule));
  Skyline skyline(static_cast<int32_t>(prepared.load.size()));
  for (size_t turn = 0; order.size() < prepared.movable.size(); ++turn) {
    if (turn % kTurnsPerLook == 0 && prepared.deadline.passed()) {
      candidates.take_all(order);
      break;
    }
    const Skyline::Stretch lowest = skyline.lowest();
    const int index = candidates.take(lowest.lower, lowest.upper);
    if (index < 0) {
      skyline.level(lowest);
    } else {
      order.push_back(index);
      const Item& item = prepared.items[index];
      skyline.stack(lowest, item.lower, item.upper, item.size);
    }
  }
  // A round of the skyline costs as much as some hundred comparisons.
  if (effort != nullptr) *effort += 4 * candidates.effort() + 800 * std::ssize(order);
  return order;
}

Plan skyline(const PreparedProblem& prepared) {
  return place(prepared, skyline_order(prepared, SkylineRule::kMaxArea), Fit::kLowest);
}

}  // namespace tessera::planning
