#include "tessera/graph/compiled_graph.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "tessera/engine/allocation_trace.h"
#include "tessera/engine/prepare.h"
#include "tessera/engine/scope.h"
#include "tessera/graph/arena_budget.h"
#include "tessera/graph/plan_guard.h"
#include "tessera/memory/plan_check.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/text/clock.h"

namespace tessera {
namespace {

// Returns the largest argument if a separate copy of it is worthwhile, else -1.
int largest_argument(const Graph& graph) {
  constexpr size_t kWorthIt = 4096;
  size_t largest = 0, all = 0;
  int found = -1;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const size_t bytes = graph.values[graph.inputs[i]].spec.bytes();
    all += bytes;
    if (bytes <= largest) continue;
    largest = bytes;
    found = static_cast<int>(i);
  }
  return largest >= std::max(kWorthIt, all / 2) ? found : -1;
}

}  // namespace

CompiledGraph::CompiledGraph(Graph captured, const CompileOptions& options)
    : settings(tessera::settings()),
      graph(std::move(captured)),
      passes(lower(graph, options)),
      guarded(options.verify_plan) {
  choose_algorithms();
  if (options.arena_budget >= 0) keep_to_budget(options);
  make_plans(options);
  place_slots();
  if (slot_layout && slot_layout->prefetched >= 0) find_last_user();
}

// Views move no data and have no kernel.
void CompiledGraph::choose_algorithms() {
  scratch_bytes.assign(graph.nodes.size(), 0);
  algorithms.assign(graph.nodes.size(), "");
  for (size_t s = 0; s < graph.nodes.size(); ++s) {
    const Node& node = graph.nodes[s];
    if (node.only_views()) continue;
    at_node(graph, node, [&](const Specs& in, Context& ctx) {
      const Algorithm chosen = choose_algorithm(*node.op, in, ctx.target());
      scratch_bytes[s] = static_cast<int64_t>(chosen.scratch_bytes);
      algorithms[s] = chosen.name;
    });
  }
}

void CompiledGraph::keep_to_budget(const CompileOptions& options) {
  const Device device = graph.devices().front();
  const Planner& solver = options.planner ? *options.planner : *find_planner("best");
  const RecomputeStrategy& strategy =
      options.recompute ? *options.recompute : *find_recompute_strategy("best");
  const bool reuse = pass_is_on(options, "in_place");
  budget.budget = options.arena_budget;
  const Problem as_it_is = tessera::lifetimes(graph, scratch_bytes, reuse).problem(nullptr, device);
  budget.unconstrained = solver.solve(as_it_is).bytes;
  if (budget.unconstrained <= options.arena_budget) return;

  const auto start = std::chrono::steady_clock::now();
  const RooflineCosts counted;
  ArenaBudget arena(graph, scratch_bytes, device, reuse, solver, strategy,
                    options.costs ? *options.costs : counted);
  const ArenaBudget::Candidate* way = arena.within(options.arena_budget);
  if (way == nullptr) throw BudgetTooSmall(arena, options.arena_budget);
  budget = arena.record(*way, options.arena_budget);
  budget.strategy = strategy.name();
  Repeated repeated = arena.graph_of(*way);
  std::vector<int64_t> scratch;
  std::vector<std::string> names;
  for (const int node : repeated.origin) {
    scratch.push_back(scratch_bytes[node]);
    names.push_back(algorithms[node]);
  }
  graph = std::move(repeated.graph);
  scratch_bytes = std::move(scratch);
  algorithms = std::move(names);
  if (const std::string fault = verify(graph); !fault.empty())
    throw InternalError("after recompute: " + fault);
  passes.push_back({"recompute", budget.recomputed, milliseconds_since(start)});
}

void CompiledGraph::make_plan(const CompileOptions& options, DevicePlan& plan) {
  const Planner* chosen = options.planner ? options.planner : find_planner("best");
  planner = chosen->name();
  std::vector<int> of_interval;
  plan.problem = lifetimes.problem(&of_interval, plan.device);
  if (guarded) plan.problem = PlanGuard::with_red_zones(plan.problem);
  plan.plan = chosen->solve(plan.problem);
  if (plan.plan.offsets.size() != of_interval.size())
    throw Error(fmt::format("planner {}: {} offsets for {} buffers", planner,
                            plan.plan.offsets.size(), of_interval.size()));
  for (size_t i = 0; i < of_interval.size(); ++i) offsets[of_interval[i]] = plan.plan.offsets[i];
  // Every plan is checked, because a planner may be user-defined.
  if (auto fault = check(plan.problem, plan.plan))
    throw Error(fmt::format("planner {}: {}", planner, fault->text));
}

void CompiledGraph::make_plans(const CompileOptions& options) {
  lifetimes = tessera::lifetimes(graph, scratch_bytes, pass_is_on(options, "in_place"));
  passes.push_back({"in_place", lifetimes.reused, 0});
  if (options.dump_after == "in_place") fmt::print("{}", graph.text() + lifetimes.text(graph));
  offsets.assign(lifetimes.blocks.size(), 0);
  for (const Device device : graph.devices()) {
    plans.push_back({.device = device, .problem = {}, .plan = {}, .slot_bytes = 0});
    make_plan(options, plans.back());
  }
  if (options.verify_plan || options.replay_plan) {
    std::string fault = replay(graph, lifetimes, offsets);
    if (!fault.empty()) throw InternalError(fault);
  }
}

// All results must be in the slots, which are contiguous.
bool CompiledGraph::may_run_ahead() const {
  if (plans.size() > 1 || device().is_cpu() || guarded) return false;
  return std::ranges::all_of(graph.outputs, [&](ValueId id) {
    const int block = lifetimes.block_of[lifetimes.root[id]];
    return block >= 0 && lifetimes.blocks[block].slot;
  });
}

void CompiledGraph::place_slots() {
  auto place = [&](Device device, size_t bytes) {
    size_t& end = plans[index_of(device)].slot_bytes;
    const size_t offset = end;
    end += round_to_alignment(bytes, alignment_of(device));
    if (guarded) end += round_to_alignment(PlanGuard::kRedZone, alignment_of(device));
    return offset;
  };
  input_offsets.resize(graph.inputs.size());
  const auto place_input = [&](int i) {
    const TensorSpec& spec = graph.values[graph.inputs[i]].spec;
    input_offsets[i] = place(spec.device, spec.bytes());
  };
  SlotLayout layout;
  size_t& end = plans.front().slot_bytes;
  const bool runs_ahead = may_run_ahead();
  if (runs_ahead) layout.prefetched = largest_argument(graph);
  if (layout.prefetched >= 0) place_input(layout.prefetched);
  layout.arguments = end;
  for (int i = 0; i < static_cast<int>(graph.inputs.size()); ++i)
    if (i != layout.prefetched) place_input(i);
  layout.results = end;
  for (size_t b = 0; b < lifetimes.blocks.size(); ++b) {
    const Block& block = lifetimes.blocks[b];
    if (block.slot)
      offsets[b] = static_cast<int64_t>(place(block.device, static_cast<size_t>(block.bytes)));
  }
  for (size_t i = 0; guarded && i < plans.size(); ++i) {
    const Device on = plans[i].device;
    alone_offsets.push_back(place(on, PlanGuard::alone_bytes(graph, on, scratch_bytes)));
  }
  if (!runs_ahead) return;
  layout.refused = place(device(), sizeof(int64_t));
  slot_layout = layout;
}

void CompiledGraph::find_last_user() {
  const ValueId prefetched = graph.inputs[slot_layout->prefetched];
  for (size_t s = 0; s < graph.nodes.size(); ++s)
    for (const ValueId id : graph.nodes[s].inputs)
      if (lifetimes.root[id] == prefetched) last_user = s + 1;
}

size_t CompiledGraph::index_of(Device device) const {
  return static_cast<size_t>(std::ranges::find(plans, device, &DevicePlan::device) - plans.begin());
}

size_t CompiledGraph::output_offset(size_t i) const {
  const ValueId id = graph.outputs.at(i);
  return static_cast<size_t>(offsets[lifetimes.block_of[lifetimes.root[id]]] +
                             lifetimes.offset_in[id]);
}

void at_node(const Graph& graph, const Node& node,
             const std::function<void(const Specs&, Context&)>& fn) {
  try {
    const ModulePathReset place(node.module_path);
    const CurrentOpScope running(node.op->name());
    fn(graph.input_specs(node), context(node.device));
  } catch (Error& error) {
    error.locate(node.module_path, node.op->name());
    throw;
  }
}

}  // namespace tessera
