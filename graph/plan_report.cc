#include "tessera/graph/plan_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/graph/program.h"
#include "tessera/runtime/raw_memory.h"

namespace tessera {
namespace {

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (static_cast<unsigned char>(c) < 0x20) result += fmt::format("\\u{:04x}", c);
    else result += c;
  }
  return result + '"';
}

std::string human(int64_t bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  for (; value >= 1024 && unit < 3; ++unit) value /= 1024;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, units[unit]);
}

const char* class_of(const Graph& graph, const Block& block) {
  if (block.step >= 0) return "workspace";
  int producer = graph.values[block.value].producer;
  return graph.steps[producer].phase == Phase::forward ? "activations" : "gradients";
}

// The first time at which the most bytes are live.
int64_t fullest_time(const std::vector<Block>& blocks, size_t steps) {
  std::vector<int64_t> change(steps + 2, 0);
  for (const Block& block : blocks) {
    if (block.slot) continue;
    change[static_cast<size_t>(block.lower)] += block.bytes;
    change[static_cast<size_t>(block.upper)] -= block.bytes;
  }
  int64_t live = 0, most = -1, at = 0;
  for (size_t t = 0; t <= steps; ++t) {
    live += change[t];
    if (live > most) most = live, at = static_cast<int64_t>(t);
  }
  return at;
}

void add_classes(PlanReport& report, const Graph& graph, const std::vector<Block>& blocks) {
  for (const Value& value : graph.values) {
    if (!value.persistent() || value.previous >= 0) continue;
    report.classes[value.kind == Kind::parameter ? "parameters" : "state"] +=
        static_cast<int64_t>(round_to_alignment(value.spec.bytes()));
  }
  for (const auto& [name, bytes] : report.classes) report.persistent += bytes;
  report.classes["slots"] = report.slots;
  int64_t at = fullest_time(blocks, graph.steps.size());
  for (const Block& block : blocks)
    if (!block.slot && block.lower <= at && at < block.upper)
      report.classes[class_of(graph, block)] += block.bytes;
}

void add_top(PlanReport& report, const Graph& graph, std::vector<Block> blocks) {
  std::erase_if(blocks, [](const Block& block) { return block.slot; });
  size_t count = std::min<size_t>(10, blocks.size());
  std::partial_sort(blocks.begin(), blocks.begin() + static_cast<long>(count), blocks.end(),
                    [](const Block& a, const Block& b) {
                      return std::pair(-a.bytes, a.lower) < std::pair(-b.bytes, b.lower);
                    });
  for (size_t i = 0; i < count; ++i) {
    const Block& block = blocks[i];
    const GraphStep& step =
        graph.steps[block.step >= 0 ? block.step : graph.values[block.value].producer];
    std::string what = block.step >= 0 ? "workspace" : graph.value_text(block.value);
    std::string spec = block.step >= 0 ? "" : graph.values[block.value].spec.text();
    report.top.push_back({fmt::format("{} {}", what, step.op->name()), step.place, spec,
                          block.bytes, block.lower, block.upper});
  }
}

}  // namespace

double PlanReport::ratio() const {
  return lower_bound == 0 ? 1 : static_cast<double>(arena) / static_cast<double>(lower_bound);
}

PlanReport plan_report(const Program& program) {
  const Graph& graph = program.graph();
  const std::vector<Block>& blocks = program.lifetimes().blocks;
  PlanReport report;
  report.arena = program.plan().bytes;
  report.lower_bound = lower_bound(program.problem());
  report.unplanned = unplanned_bytes(program.problem());
  report.slots = static_cast<int64_t>(program.slot_bytes());
  report.planner = program.planner();
  report.problem = program.problem();
  report.plan = program.plan();
  report.steps = static_cast<int>(graph.steps.size());
  report.tensors = static_cast<int>(blocks.size());
  add_classes(report, graph, blocks);
  add_top(report, graph, blocks);
  return report;
}

std::string PlanReport::json() const {
  std::string text = fmt::format(
      "{{\"arena_bytes\": {}, \"lower_bound_bytes\": {}, \"ratio\": {:.6f}, \"unplanned_bytes\": {}, "
      "\"persistent_bytes\": {}, \"slot_bytes\": {}, \"total_bytes\": {}, \"tensors\": {}, "
      "\"steps\": {}, \"planner\": {}, \"classes\": {{",
      arena, lower_bound, ratio(), unplanned, persistent, slots, total(), tensors, steps,
      quoted(planner));
  const char* comma = "";
  for (const auto& [name, bytes] : classes) {
    text += fmt::format("{}{}: {}", comma, quoted(name), bytes);
    comma = ", ";
  }
  text += "}, \"top\": [";
  comma = "";
  for (const PlannedTensor& t : top) {
    text += fmt::format(
        "{}{{\"name\": {}, \"place\": {}, \"spec\": {}, \"bytes\": {}, \"lower\": {}, \"upper\": {}}}",
        comma, quoted(t.name), quoted(t.place), quoted(t.spec), t.bytes, t.lower, t.upper);
    comma = ", ";
  }
  return text + "]}";
}

std::string PlanReport::text() const {
  std::string text = fmt::format(
      "total        {:>12}  arena + persistent + slots\n"
      "arena        {:>12}  planner {}, {:.4f} x the lower bound of {}\n"
      "unplanned    {:>12}  {} tensors, if none shared memory\n"
      "persistent   {:>12}\n"
      "slots        {:>12}\n"
      "steps        {:>12}\n\nat the fullest time\n",
      human(total()), human(arena), planner, ratio(), human(lower_bound), human(unplanned), tensors,
      human(persistent), human(slots), steps);
  for (const auto& [name, bytes] : classes)
    text += fmt::format("  {:<12} {:>12}\n", name, human(bytes));
  text += "\nlargest tensors\n";
  for (const PlannedTensor& t : top)
    text += fmt::format("  {:>10}  steps {:>4} to {:<4}  {:<44} {}\n", human(t.bytes), t.lower,
                        t.upper - 1, t.spec.empty() ? t.name : t.name + " " + t.spec, t.place);
  return text;
}

}  // namespace tessera
