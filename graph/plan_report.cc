#include "tessera/graph/plan_report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

#include "tessera/graph/compiled_graph.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/raw_memory.h"
#include "tessera/runtime/text/bytes.h"
#include "tessera/runtime/text/json.h"
#include "tessera/runtime/text/report.h"

namespace tessera {
namespace {

std::string human(int64_t bytes) { return byte_text(bytes, 1); }

const char* class_of(const Graph& graph, const Block& block) {
  if (block.node >= 0) return "workspace";
  int producer = graph.values[block.value].producer;
  return graph.nodes[producer].phase == Phase::forward ? "activations" : "gradients";
}

// Returns the first time at which the most bytes are live.
int64_t peak_time_of(const std::vector<Block>& blocks, Device device, size_t nodes) {
  std::vector<int64_t> change(nodes + 2, 0);
  for (const Block& block : blocks) {
    if (block.slot || block.device != device) continue;
    change[block.lower] += block.bytes;
    change[block.upper] -= block.bytes;
  }
  int64_t live = 0, most = -1, at = 0;
  for (size_t t = 0; t <= nodes; ++t) {
    live += change[t];
    if (live > most) most = live, at = static_cast<int64_t>(t);
  }
  return at;
}

const char* class_of(const Value& value) {
  if (value.role == Role::parameter) return "parameters";
  return value.role == Role::optimizer_state ? "optimizer" : "statistics";
}

// Returns the bytes of slots that are kept only for the gradient, rounded up like all slots.
int64_t saved_bytes(const Graph& graph, const Lifetimes& lifetimes, Device device) {
  std::set<int> counted{-1};
  const auto block_of = [&](ValueId id) { return lifetimes.block_of[lifetimes.root[id]]; };
  const size_t results = graph.outputs.size() - graph.saved;
  for (size_t i = 0; i < results; ++i) counted.insert(block_of(graph.outputs[i]));
  int64_t bytes = 0;
  for (size_t i = results; i < graph.outputs.size(); ++i)
    if (const int block = block_of(graph.outputs[i]); counted.insert(block).second)
      bytes += static_cast<int64_t>(round_to_alignment(
          static_cast<size_t>(lifetimes.blocks[block].bytes), alignment_of(device)));
  return bytes;
}

void add_classes(PlanReport& report, const CompiledGraph& compiled) {
  const Graph& graph = compiled.graph;
  const Lifetimes& lifetimes = compiled.lifetimes;
  for (const Value& value : graph.values) {
    if (!value.persistent() || value.previous >= 0) continue;
    report.classes[class_of(value)] += static_cast<int64_t>(
        round_to_alignment(value.spec.bytes(), alignment_of(value.spec.device)));
  }
  for (const auto& [name, bytes] : report.classes) report.persistent += bytes;
  const int64_t saved = saved_bytes(graph, lifetimes, compiled.device());
  report.classes["slots"] = report.slots - saved;
  if (saved > 0) report.classes["saved"] = saved;
  for (const Block& block : lifetimes.blocks)
    if (!block.slot && block.device == compiled.device() && block.lower <= report.peak_time &&
        report.peak_time < block.upper) {
      report.classes[class_of(graph, block)] += block.bytes;
      if (block.node < 0)
        report.dtypes[std::string(name_of(graph.values[block.value].spec.dtype))] += block.bytes;
    }
}

std::string node_name(const Node& node) {
  return fmt::format("{}{}{}{}", node.op->name(), node.module_path.empty() ? "" : " ",
                     node.module_path, node.recomputed ? " recomputed" : "");
}

// Returns the last node that reads a block; empty if none does.
std::string last_user(const Graph& graph, const Block& block) {
  if (block.upper - block.lower < 2) return "";
  const int64_t node = block.upper - 1;
  return fmt::format("{} {}", node, node_name(graph.nodes[node]));
}

void add_blocks(PlanReport& report, const CompiledGraph& compiled) {
  const Graph& graph = compiled.graph;
  const Lifetimes& lifetimes = compiled.lifetimes;
  std::vector<int> of_interval;
  lifetimes.problem(&of_interval, compiled.device());
  for (size_t i = 0; i < of_interval.size(); ++i) {
    const Block& block = lifetimes.blocks[of_interval[i]];
    const bool scratch = block.node >= 0;
    const Node& node = graph.nodes[scratch ? block.node : graph.values[block.value].producer];
    PlannedTensor tensor;
    tensor.name = scratch ? "workspace" : graph.value_text(block.value);
    tensor.op = node.op->name();
    tensor.module_path = node.module_path;
    tensor.recomputed = node.recomputed;
    if (!scratch) tensor.spec = graph.values[block.value].spec.text();
    tensor.group = class_of(graph, block);
    tensor.bytes = block.bytes;
    tensor.lower = block.lower;
    tensor.upper = block.upper;
    tensor.offset = report.plan.offsets[i];
    tensor.kept_by = last_user(graph, block);
    report.blocks.push_back(std::move(tensor));
  }
  for (const Node& node : graph.nodes) report.node_names.push_back(node_name(node));
}

double part(int64_t of, int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(of) / static_cast<double>(whole);
}

int64_t sum_of(const std::vector<std::pair<std::string, int64_t>>& parts) {
  int64_t sum = 0;
  for (const auto& part : parts) sum += part.second;
  return sum;
}

Json json_of(const auto& named_sizes) {
  std::vector<Json::Member> members;
  for (const auto& [name, bytes] : named_sizes) members.emplace_back(name, bytes);
  return Json::object(members);
}

Json json_of(const BudgetRecord& budget) {
  return Json::object({{"arena_budget_bytes", budget.budget},
                       {"unconstrained_bytes", budget.unconstrained},
                       {"recomputed_nodes", budget.recomputed},
                       {"strategy", budget.strategy},
                       {"overhead", rounded(budget.overhead(), 6)},
                       {"min_overhead", rounded(budget.min_overhead(), 6)}});
}

Json json_of(const PlannedTensor& t) {
  return Json::object({{"name", t.title()},
                       {"module_path", t.module_path},
                       {"spec", t.spec},
                       {"class", t.group},
                       {"bytes", t.bytes},
                       {"lower", t.lower},
                       {"upper", t.upper},
                       {"offset", t.offset},
                       {"recomputed", t.recomputed}});
}

struct Life {
  int64_t bytes = 0, nodes = 0;
  bool operator==(const Life&) const = default;
};

struct PlanFile {
  std::map<std::string, int64_t> sizes;
  std::map<std::string, Life> tensors;  // by name and module path; duplicates are numbered
};

PlanFile read(const std::string& text, const std::string& name) {
  PlanFile file;
  try {
    const Json root = Json::parse(text);
    require_format(root, kPlanFormat);
    for (const char* key : {"total_bytes", "arena_bytes", "lower_bound_bytes", "unplanned_bytes",
                            "persistent_bytes", "slot_bytes", "tensors", "nodes"})
      file.sizes[key] = root[key].integer();
    for (const auto& [name, bytes] : root["classes"].members())
      file.sizes["class " + name] = bytes.integer();
    std::map<std::string, int> seen;
    for (const Json& block : root["blocks"].items()) {
      // Without "%12 ": ids change when a node is added before.
      std::string title = block["name"].string();
      if (title.starts_with('%')) title = title.substr(std::min(title.find(' ') + 1, title.size()));
      title = fmt::format("{} {}", title, block["module_path"].string());
      if (const int n = seen[title]++; n > 0) title = fmt::format("{} ({})", title, n + 1);
      file.tensors[title] = {block["bytes"].integer(),
                             block["upper"].integer() - block["lower"].integer()};
    }
  } catch (const Error& error) {
    throw ConfigError(
        fmt::format("{}: is not a plan of `trainer plan --json`: {}", name, error.what()));
  }
  return file;
}

struct Change {
  int64_t weight;
  std::string text;
};

void add_tensors(const PlanFile& a, const PlanFile& b, std::vector<Change>& changes) {
  for (const auto& [name, life] : a.tensors) {
    const auto other = b.tensors.find(name);
    if (other == b.tensors.end()) {
      changes.push_back({life.bytes, fmt::format("- {} bytes  {}", life.bytes, name)});
    } else if (other->second != life) {
      const Life& now = other->second;
      changes.push_back({std::abs(now.bytes - life.bytes),
                         fmt::format("~ {} -> {} bytes, {} -> {} nodes  {}", life.bytes, now.bytes,
                                     life.nodes, now.nodes, name)});
    }
  }
  for (const auto& [name, life] : b.tensors) {
    if (a.tensors.contains(name)) continue;
    changes.push_back({life.bytes, fmt::format("+ {} bytes  {}", life.bytes, name)});
  }
}

}  // namespace

std::string PlannedTensor::title() const {
  return fmt::format("{} {}{}", name, op, recomputed ? " recomputed" : "");
}

double BudgetRecord::overhead() const { return part(extra, time); }
double BudgetRecord::min_overhead() const { return part(bound, time); }

std::string BudgetRecord::text() const {
  if (strategy.empty()) return "no node is recomputed";
  return fmt::format("{} nodes recomputed, {:.2f} % of a step by estimate (at least {:.2f} %)",
                     recomputed, 100 * overhead(), 100 * min_overhead());
}

std::vector<PlannedTensor> PlanReport::largest(size_t count) const {
  std::vector<const PlannedTensor*> order;
  for (const PlannedTensor& block : blocks) order.push_back(&block);
  count = std::min(count, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<long>(count), order.end(),
                    [](const PlannedTensor* a, const PlannedTensor* b) {
                      return std::pair(-a->bytes, a->lower) < std::pair(-b->bytes, b->lower);
                    });
  std::vector<PlannedTensor> top;
  for (size_t i = 0; i < count; ++i) top.push_back(*order[i]);
  return top;
}

std::string PlanReport::peak_tensors_text(size_t count) const {
  std::vector<const PlannedTensor*> there;
  for (const PlannedTensor& t : blocks)
    if (t.lower <= peak_time && peak_time < t.upper) there.push_back(&t);
  std::ranges::stable_sort(there, std::greater(), &PlannedTensor::bytes);
  std::string text;
  for (size_t i = 0; i < std::min(count, there.size()); ++i)
    text += fmt::format("  {:>12}  {} {}  {}\n", byte_text(there[i]->bytes), there[i]->title(),
                        there[i]->spec, there[i]->module_path);
  return text;
}

void PlanReport::add_parts(const std::vector<MemoryItem>& blocks, bool on_gpu) {
  auto& list = on_gpu ? gpu_parts : parts;
  for (const MemoryItem& block : blocks) {
    auto known = std::ranges::find(list, block.name, &std::pair<std::string, int64_t>::first);
    if (known == list.end()) known = list.emplace(known, block.name, 0);
    known->second += static_cast<int64_t>(block.bytes);
  }
}

int64_t PlanReport::need() const {
  return parts.empty() && gpu_parts.empty() ? total() : sum_of(parts);
}

int64_t PlanReport::gpu_need() const { return sum_of(gpu_parts); }

double PlanReport::ratio() const {
  return lower_bound == 0 ? 1 : static_cast<double>(arena) / static_cast<double>(lower_bound);
}

PlanReport plan_report(const CompiledGraph& compiled) {
  const Graph& graph = compiled.graph;
  const std::vector<Block>& blocks = compiled.lifetimes.blocks;
  PlanReport report;
  report.arena = compiled.plan().bytes;
  report.lower_bound = lower_bound(compiled.problem());
  report.unplanned = unplanned_bytes(compiled.problem());
  report.slots = static_cast<int64_t>(compiled.slot_bytes());
  report.budget = compiled.budget;
  report.planner = compiled.planner;
  report.device = compiled.device().name();
  report.alignment = static_cast<int64_t>(alignment_of(compiled.device()));
  report.problem = compiled.problem();
  report.plan = compiled.plan();
  report.nodes = static_cast<int>(graph.nodes.size());
  report.tensors = static_cast<int>(blocks.size());
  report.peak_time = peak_time_of(blocks, compiled.device(), graph.nodes.size());
  const auto backward = std::ranges::find(graph.nodes, Phase::backward, &Node::phase);
  if (backward != graph.nodes.end()) report.forward_ends = backward - graph.nodes.begin();
  add_classes(report, compiled);
  add_blocks(report, compiled);
  return report;
}

// Long members follow in chunks, one tensor each.
void PlanReport::json(const std::function<void(std::string_view)>& piece) const {
  std::string open = Json::object({{"format", kPlanFormat},
                                   {"arena_bytes", arena},
                                   {"lower_bound_bytes", lower_bound},
                                   {"ratio", rounded(ratio(), 6)},
                                   {"unplanned_bytes", unplanned},
                                   {"persistent_bytes", persistent},
                                   {"slot_bytes", slots},
                                   {"total_bytes", total()},
                                   {"tensors", tensors},
                                   {"nodes", nodes},
                                   {"planner", planner},
                                   {"device", device},
                                   {"alignment", alignment},
                                   {"need_bytes", need()},
                                   {"need_is_complete", parts_complete},
                                   {"parts", json_of(parts)},
                                   {"gpu_need_bytes", gpu_need()},
                                   {"gpu_parts", json_of(gpu_parts)},
                                   {"classes", json_of(classes)},
                                   {"dtypes", json_of(dtypes)}})
                         .text();
  open.pop_back();  // the closing brace
  piece(open);
  if (budget.budget >= 0) piece(",\n\"budget\":" + json_of(budget).text());
  if (!arena_of.empty()) piece(fmt::format(",\n\"arena_of\":\"{}\"", arena_of));
  if (trainable >= 0)
    piece(fmt::format(",\n\"parameters\":{{\"trainable\":{},\"frozen\":{}}}", trainable, frozen));
  if (!inference.empty()) piece(",\n\"inference\":" + inference);
  const auto list = [&](const char* name, const auto& listed) {
    piece(fmt::format(",\n\"{}\":[", name));
    const char* comma = "";
    for (const PlannedTensor& tensor : listed) {
      piece(fmt::format("{}\n{}", comma, json_of(tensor).text()));
      comma = ",";
    }
    piece("]");
  };
  list("top", largest(10));
  list("blocks", blocks);
  piece("}");
}

std::string PlanReport::json() const {
  std::string text;
  json([&](std::string_view piece) { text += piece; });
  return text;
}

std::string PlanReport::text() const {
  Table table({{nullptr, "", true}, {nullptr, ""}, {nullptr, "", true}});
  const auto row = [&](const std::string& name, int64_t bytes, const std::string& remark = "") {
    table.add({name, byte_count(bytes), remark});
  };
  const auto list = [&](const char* title, int64_t sum, const auto& parts,
                        const char* remark = "") {
    if (parts.empty()) return;
    table.add({"", "", ""});
    table.add({title, sum < 0 ? "" : byte_count(sum), remark});
    for (const auto& [name, bytes] : parts)
      row(name == "slots" && sum >= 0 ? "  slots of all steps" : "  " + name, bytes);
  };
  row("total", total(), "arena + persistent + slots");
  row("arena", arena,
      fmt::format("planner {}, {:.4f} x the lower bound of {}{}", planner, ratio(),
                  human(lower_bound), arena_of.empty() ? "" : ", both of the " + arena_of));
  row("unplanned", unplanned, fmt::format("{} tensors, if none shared memory", tensors));
  row("persistent", persistent);
  row("slots", slots);
  table.add({"nodes", nodes, ""});
  if (trainable >= 0)
    table.add({"parameters", trainable + frozen,
               fmt::format("{} trainable, {} frozen", trainable, frozen)});
  if (budget.budget >= 0)
    row("budget", budget.budget,
        fmt::format("for the arena, which needs {} without a budget: {}",
                    human(budget.unconstrained), budget.text()));
  const std::string on_device = "on " + device;
  list(on_device.c_str(), gpu_need(), gpu_parts);
  list(gpu_parts.empty() ? "the whole training" : "on the host", need(), parts,
       parts_complete
           ? "with loaders, data and checkpoints"
           : "with loaders, data and checkpoints; plus the memory of the image decoders");
  list("at the peak", -1, classes);
  for (const DType type : {DType::bf16, DType::f16})
    if (const auto found = dtypes.find(std::string(name_of(type))); found != dtypes.end())
      row("  in " + found->first, found->second,
          "of activations and gradients; twice as much in float32");
  return table.text() + largest_text();
}

std::string PlanReport::largest_text() const {
  Table table({{nullptr, ""},
               {nullptr, "", true},
               {nullptr, "", true},
               {nullptr, "", true},
               {nullptr, "", true}});
  for (const PlannedTensor& t : largest(10))
    table.add({byte_count(t.bytes), fmt::format("nodes {:>4} to {}", t.lower, t.upper - 1),
               t.title(), t.spec, t.module_path});
  return "\nlargest tensors\n" + table.text();
}

std::string PlanReport::why(const std::string& word) const {
  std::string text;
  const auto node = [&](int64_t t) { return fmt::format("{} {}", t, node_names[t]); };
  for (const PlannedTensor& t : blocks) {
    const std::string whole = t.title() + " " + t.module_path;
    if (whole.find(word) == whole.npos) continue;
    text += fmt::format("{} {}  {}\n  {}, {} at offset {}\n  computed by {}\n", t.title(), t.spec,
                        t.module_path, t.group, human(t.bytes), t.offset, node(t.lower));
    if (!t.kept_by.empty())
      text += fmt::format("  kept until  {}, {} nodes in all\n", t.kept_by, t.upper - t.lower);
  }
  if (!text.empty()) return text;
  throw ConfigError(fmt::format(
      "no tensor of the plan has '{}' in its name, op or module path; the largest is '{}'", word,
      blocks.empty() ? "" : largest(1)[0].title()));
}

PlanPicture PlanReport::picture(const std::string& title) const {
  PlanPicture picture{title, problem, plan, {}, node_names, forward_ends};
  for (const PlannedTensor& t : blocks) {
    std::string details = t.spec + (t.module_path.empty() ? "" : "  " + t.module_path);
    if (!t.kept_by.empty()) details += "\nlast used by " + t.kept_by;
    picture.labels.push_back({t.title(), t.group, details});
  }
  return picture;
}

std::string diff_plans(const std::string& a, const std::string& name_a, const std::string& b,
                       const std::string& name_b) {
  const PlanFile before = read(a, name_a), after = read(b, name_b);
  std::string text;
  std::map<std::string, int64_t> keys = before.sizes;
  keys.insert(after.sizes.begin(), after.sizes.end());
  for (const auto& entry : keys) {
    const std::string& key = entry.first;
    const auto value = [&](const PlanFile& file) {
      const auto at = file.sizes.find(key);
      return at == file.sizes.end() ? 0 : at->second;
    };
    const int64_t from = value(before), to = value(after);
    if (from != to)
      text += fmt::format("{:<20} {:>14} -> {:>14}  {:+}\n", key, from, to, to - from);
  }
  std::vector<Change> changes;
  add_tensors(before, after, changes);
  std::ranges::stable_sort(changes, std::greater(), &Change::weight);
  if (!changes.empty()) text += "\n";
  for (const Change& change : changes) text += change.text + "\n";
  return text.empty() ? fmt::format("{} and {} are the same plan\n", name_a, name_b) : text;
}

}  // namespace tessera
