#include "tessera/memory/plan_why.h"

#include <algorithm>

#include <fmt/format.h>

#include "tessera/memory/planners/placement.h"

namespace tessera {
namespace {

using planning::PreparedProblem;

void find_fullest(const PreparedProblem& prepared, int buffer, BufferExplanation& story) {
  const auto live_at = [&](int i, int32_t rank) {
    return prepared.items[i].size > 0 && prepared.lives(prepared.items[i], rank);
  };
  int64_t most = 0;
  for (int32_t rank = 0; rank < std::ssize(prepared.load); ++rank) {
    const int64_t load = prepared.load[rank];
    most = std::max(most, load);
    if (load <= story.load || !live_at(buffer, rank)) continue;
    story.load = load;
    story.peak_time = prepared.times[rank];
  }
  story.makes_bound = story.load == most;
  const std::vector<int64_t>& times = prepared.times;
  const auto after = std::upper_bound(times.begin(), times.end(), story.peak_time);
  const auto peak = static_cast<int32_t>(after - times.begin()) - 1;
  for (int i = 0; i < std::ssize(prepared.items); ++i)
    if (i != buffer && live_at(i, peak)) story.beside.push_back(i);
  std::stable_sort(story.beside.begin(), story.beside.end(),
                   [&](int a, int b) { return prepared.items[a].size > prepared.items[b].size; });
}

void find_neighbours(const PreparedProblem& prepared, const Plan& plan, int buffer,
                     BufferExplanation& story) {
  const int64_t bottom = plan.offsets[buffer], top = bottom + prepared.items[buffer].size;
  story.hole_below = bottom;
  story.hole_above = plan.bytes - top;
  const auto note = [](std::vector<int>& nearest, int64_t& hole, int64_t distance, int i) {
    if (distance < 0 || distance > hole) return;
    if (distance < hole) nearest.clear();
    hole = distance;
    nearest.push_back(i);
  };
  for (int i = 0; i < std::ssize(prepared.items); ++i) {
    const Interval& other = prepared.problem.buffers[i];
    if (i == buffer || !other.takes_room()) continue;
    if (!prepared.meet(prepared.items[buffer], prepared.items[i])) continue;
    note(story.below, story.hole_below, bottom - (plan.offsets[i] + other.size), i);
    note(story.above, story.hole_above, plan.offsets[i] - top, i);
  }
}

std::string names(const Problem& problem, const std::vector<int>& buffers) {
  constexpr size_t kMax = 8;
  std::string text;
  for (size_t i = 0; i < buffers.size() && i < kMax; ++i) {
    const Interval& buffer = problem.buffers[buffers[i]];
    text += fmt::format("{}{} ({})", i == 0 ? "" : ", ", buffer.id, buffer.size);
  }
  if (buffers.size() > kMax) text += fmt::format(" and {} more", buffers.size() - kMax);
  return text;
}

std::string neighbour_text(const Problem& problem, const std::vector<int>& nearest, int64_t hole,
                           std::string_view end) {
  const std::string who = nearest.empty() ? std::string(end) : names(problem, nearest);
  return hole == 0 ? who : fmt::format("{} free bytes, then {}", hole, who);
}

}  // namespace

BufferExplanation why(const Problem& problem, const Plan& plan, int buffer,
                      const Planner& planner) {
  BufferExplanation story;
  const PreparedProblem prepared(problem);
  find_fullest(prepared, buffer, story);
  find_neighbours(prepared, plan, buffer, story);
  Problem without = problem;
  without.buffers.erase(without.buffers.begin() + buffer);
  story.bytes_without = planner.solve(without).bytes;
  story.bound_without = lower_bound(without);
  return story;
}

std::string explanation_text(const Problem& problem, const Plan& plan, int buffer,
                             const Planner& planner) {
  const BufferExplanation story = why(problem, plan, buffer, planner);
  const Interval& b = problem.buffers[buffer];
  const int64_t offset = plan.offsets[buffer];
  std::string text = fmt::format("{}: {} bytes at [{}, {})", b.id, b.size, offset, offset + b.size);
  if (b.alignment > 1) text += fmt::format(", a multiple of {}", b.alignment);
  if (b.offset >= 0) text += ", fixed there";
  text += fmt::format("\nlive        in [{}, {})", b.lower, b.upper);
  for (const Gap& gap : b.gaps) text += fmt::format(", not in [{}, {})", gap.lower, gap.upper);
  if (story.load > 0) {
    text += fmt::format(
        "\npeak        at time {}, when {} bytes are live, {:.1f} % of them in this buffer\n",
        story.peak_time, story.load,
        100 * static_cast<double>(b.size) / static_cast<double>(story.load));
  } else {
    text += "\npeak        none: the buffer has no live bytes\n";
  }
  if (story.makes_bound) {
    text += "lower bound includes this buffer: at no time are more bytes live\n";
  } else {
    text +=
        fmt::format("lower bound does not include this buffer: {} bytes are live at another time\n",
                    lower_bound(problem));
  }
  const std::string beside = story.beside.empty() ? "nothing" : names(problem, story.beside);
  text += fmt::format("live then   {}\n", beside);
  text += "below it    " +
          neighbour_text(problem, story.below, story.hole_below, "the bottom of the plan") + "\n";
  text += "above it    " +
          neighbour_text(problem, story.above, story.hole_above, "the top of the plan") + "\n";
  return text + fmt::format(
                    "without it  {} needs {} bytes instead of {}, and the lower bound is {} "
                    "instead of {}\n",
                    planner.name(), story.bytes_without, plan.bytes, story.bound_without,
                    lower_bound(problem));
}

}  // namespace tessera
