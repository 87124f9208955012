#include "tessera/memory/planners/placement.h"

#include <algorithm>

#include "tessera/runtime/integers.h"

namespace tessera::planning {
namespace {

struct Placed {
  int64_t offset;
  int64_t end;
  int32_t lower;
  int32_t upper;
  int32_t item;
  bool gaps;
};

int64_t aligned_to(int64_t value, int64_t unit) {
  return unit == 1 ? value : round_up(value, unit);
}

constexpr Effort kEffortToPlace = 64;
constexpr size_t kPerSlice = 256;      // buffers, on average
constexpr size_t kPlacedPerLook = 16;  // placed between looks at the clock

// Placed buffers in the order of their offsets, in chunks, so that an insertion moves only a few.
class Pile {
 public:
  void insert(const Placed& entry) {
    const auto above = [](const Placed& a, const Placed& b) { return a.offset < b.offset; };
    auto chunk =
        std::upper_bound(chunks_.begin(), chunks_.end(), entry,
                         [&](const Placed& a, const Chunk& b) { return above(a, b.front()); });
    if (chunk != chunks_.begin()) --chunk;
    if (chunk == chunks_.end()) chunk = chunks_.emplace(chunk);
    chunk->insert(std::upper_bound(chunk->begin(), chunk->end(), entry, above), entry);
    if (chunk->size() < kPerChunk) return;
    const auto half = chunk->begin() + kPerChunk / 2;
    Chunk rest(half, chunk->end());
    chunk->erase(half, chunk->end());
    chunks_.insert(chunk + 1, std::move(rest));
  }

  // Calls `enough` for one buffer after the other until it returns true; returns the number passed.
  template <class See>
  int64_t walk(See enough) const {
    int64_t passed = 0;
    for (const Chunk& chunk : chunks_) {
      for (const Placed& placed : chunk) {
        if (enough(placed)) return passed;
        ++passed;
      }
    }
    return passed;
  }

 private:
  using Chunk = std::vector<Placed>;
  static constexpr size_t kPerChunk = 128;
  std::vector<Chunk> chunks_;
};

// The buffers placed so far, by slices of time, by slices of four times that width, and so on up to
// all of time. A buffer that is live within one slice overlaps none outside of it.
class Shelf {
 public:
  explicit Shelf(const PreparedProblem& prepared) : prepared_(prepared) {
    for (size_t count = 1 + prepared.items.size() / kPerSlice; count > 1; count = (count + 3) / 4)
      add_level(count);
    add_level(1);
  }

  void put(int index, int64_t offset) {
    const Item& item = prepared_.items[index];
    const Placed entry{offset, offset + item.size, item.lower, item.upper,
                       index,  item.gap_count > 0};
    for (Level& level : levels_) {
      const int32_t last = level.slice(item.upper - 1);
      for (int32_t s = level.slice(item.lower); s <= last; ++s) level.slices[s].insert(entry);
    }
    top_ = std::max(top_, entry.end);
  }

  // Returns the offset for a buffer: walks upwards past all that overlap it in time and examines
  // each hole in between.
  int64_t find(int index, Fit fit) {
    const Item& item = prepared_.items[index];
    const bool gaps = item.gap_count > 0;
    int64_t candidate = 0;
    int64_t tightest = INT64_MAX;
    int64_t chosen = -1;
    effort_ += kEffortToPlace + around(item).walk([&](const Placed& at) {
      if (at.lower >= item.upper || item.lower >= at.upper) return false;
      if ((gaps || at.gaps) && !prepared_.meet(item, prepared_.items[at.item])) return false;
      const int64_t left = at.offset - candidate - item.size;
      if (left >= 0) {
        if (fit == Fit::kLowest) return true;
        if (left < tightest) {
          tightest = left;
          chosen = candidate;
        }
      }
      if (at.end > candidate) candidate = aligned_to(at.end, item.alignment);
      return false;
    });
    return chosen >= 0 ? chosen : candidate;
  }

  int64_t top() const { return top_; }
  Effort effort() const { return effort_; }

 private:
  struct Level {
    int32_t width;  // ranks per slice
    std::vector<Pile> slices;
    int32_t slice(int32_t time) const { return time / width; }
  };

  void add_level(size_t count) {
    const size_t times = prepared_.load.size();
    levels_.push_back({static_cast<int32_t>(1 + times / count), std::vector<Pile>(count)});
  }

  // Returns a pile with all that the item may overlap in time, and more.
  const Pile& around(const Item& item) const {
    auto level = levels_.begin();
    while (level->slice(item.lower) != level->slice(item.upper - 1)) ++level;
    return level->slices[level->slice(item.lower)];
  }

  const PreparedProblem& prepared_;
  std::vector<Level> levels_;
  int64_t top_ = 0;
  Effort effort_ = 0;
};

// Returns the largest load in [lower, upper) with two look-ups.
class RangeMaximum {
 public:
  explicit RangeMaximum(const std::vector<int64_t>& values) : levels_{values} {
    for (size_t width = 1; 2 * width <= values.size(); width *= 2) {
      const std::vector<int64_t>& below = levels_.back();
      std::vector<int64_t> level(values.size() - 2 * width + 1);
      for (size_t i = 0; i < level.size(); ++i) level[i] = std::max(below[i], below[i + width]);
      levels_.push_back(std::move(level));
    }
  }

  int64_t operator()(int32_t lower, int32_t upper) const {
    size_t level = 0;
    while ((int32_t{2} << level) <= upper - lower) ++level;
    return std::max(levels_[level][lower], levels_[level][upper - (int32_t{1} << level)]);
  }

 private:
  std::vector<std::vector<int64_t>> levels_;
};

void fill(const PreparedProblem& prepared, const std::vector<int>& order, Fit fit, int64_t stop_at,
          Shelf& shelf, Plan& plan) {
  size_t i = 0;
  for (; i < order.size() && shelf.top() < stop_at; ++i) {
    if (i % kPlacedPerLook == 0 && prepared.deadline.passed()) break;
    plan.offsets[order[i]] = shelf.find(order[i], fit);
    shelf.put(order[i], plan.offsets[order[i]]);
  }
  plan.bytes = shelf.top();
  if (plan.bytes < stop_at) stack(prepared, order, i, plan);
}

}  // namespace

PreparedProblem::PreparedProblem(const Problem& planned, const Deadline& until)
    : problem(planned),
      deadline(until),
      bound(lower_bound(problem)),
      good_enough(std::max(bound, problem.capacity)) {
  rank_times();
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].size == 0 || items[i].lower >= items[i].upper) continue;
    (items[i].fixed >= 0 ? fixed : movable).push_back(static_cast<int>(i));
  }
  measure_load();
}

void PreparedProblem::rank_times() {
  for (const Interval& buffer : problem.buffers) {
    times.push_back(buffer.lower);
    times.push_back(buffer.upper);
    for (const Gap& gap : buffer.gaps) {
      times.push_back(gap.lower);
      times.push_back(gap.upper);
    }
  }
  std::sort(times.begin(), times.end());
  times.erase(std::unique(times.begin(), times.end()), times.end());
  const auto rank = [&](int64_t time) {
    return static_cast<int32_t>(std::lower_bound(times.begin(), times.end(), time) - times.begin());
  };
  items.reserve(problem.buffers.size());
  for (const Interval& buffer : problem.buffers) {
    items.push_back({buffer.size, buffer.alignment, buffer.offset, rank(buffer.lower),
                     rank(buffer.upper), static_cast<int32_t>(gaps.size()),
                     static_cast<int32_t>(buffer.gaps.size())});
    for (const Gap& gap : buffer.gaps) gaps.push_back({rank(gap.lower), rank(gap.upper)});
  }
  load.assign(times.size(), 0);
}

void PreparedProblem::measure_load() {
  const auto add = [&](int32_t lower, int32_t upper, int64_t bytes) {
    load[lower] += bytes;
    load[upper] -= bytes;
  };
  for (const Item& item : items) {
    if (item.lower >= item.upper) continue;
    add(item.lower, item.upper, item.size);
    for (int32_t g = 0; g < item.gap_count; ++g)
      add(gaps[item.first_gap + g].lower, gaps[item.first_gap + g].upper, -item.size);
  }
  for (size_t i = 1; i < load.size(); ++i) load[i] += load[i - 1];
  const RangeMaximum maximum(load);
  peak_load.assign(items.size(), 0);
  for (size_t i = 0; i < items.size(); ++i)
    if (items[i].lower < items[i].upper) peak_load[i] = maximum(items[i].lower, items[i].upper);
}

bool PreparedProblem::meet(const Item& a, const Item& b) const {
  if (a.lower >= b.upper || b.lower >= a.upper) return false;
  return (a.gap_count | b.gap_count) == 0 || meet_outside_gaps(a, b);
}

bool PreparedProblem::lives(const Item& item, int32_t time) const {
  if (time < item.lower || item.upper <= time) return false;
  return std::none_of(gaps.begin() + item.first_gap, gaps.begin() + item.first_gap + item.gap_count,
                      [&](const RankedGap& gap) { return gap.lower <= time && time < gap.upper; });
}

bool PreparedProblem::meet_outside_gaps(const Item& a, const Item& b) const {
  // Looks for a time in both lifetimes and in no gap: each gap that covers the time advances it.
  int32_t time = std::max(a.lower, b.lower);
  const int32_t end = std::min(a.upper, b.upper);
  const auto past_gap = [&](const Item& item) {
    for (int32_t g = item.first_gap; g < item.first_gap + item.gap_count; ++g)
      if (gaps[g].lower <= time && time < gaps[g].upper) time = gaps[g].upper;
  };
  for (int32_t before = -1; time < end && before != time;) {
    before = time;
    past_gap(a);
    past_gap(b);
  }
  return time < end;
}

void stack(const PreparedProblem& prepared, const std::vector<int>& order, size_t first,
           Plan& plan) {
  for (size_t i = first; i < order.size(); ++i) {
    const Item& item = prepared.items[order[i]];
    plan.offsets[order[i]] = aligned_to(plan.bytes, item.alignment);
    plan.bytes = plan.offsets[order[i]] + item.size;
  }
}

Plan place(const PreparedProblem& prepared, const std::vector<int>& order, Fit fit, int64_t stop_at,
           Effort* effort) {
  Plan plan;
  plan.offsets.resize(prepared.items.size());
  for (size_t i = 0; i < prepared.items.size(); ++i)
    plan.offsets[i] = std::max<int64_t>(prepared.items[i].fixed, 0);
  Shelf shelf(prepared);
  for (int index : prepared.fixed) shelf.put(index, prepared.items[index].fixed);
  fill(prepared, order, fit, stop_at, shelf, plan);
  if (effort != nullptr) *effort += shelf.effort();
  return plan;
}

Plan place_around(const PreparedProblem& prepared, const std::vector<int>& there, Plan plan,
                  const std::vector<int>& order) {
  Shelf shelf(prepared);
  for (int index : there) shelf.put(index, plan.offsets[index]);
  fill(prepared, order, Fit::kLowest, INT64_MAX, shelf, plan);
  return plan;
}

}  // namespace tessera::planning
