#include "tessera/graph/program.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>

#include <fmt/format.h>

#include "tessera/engine/finite.h"
#include "tessera/engine/holders.h"
#include "tessera/engine/scope.h"
#include "tessera/graph/arena_budget.h"
#include "tessera/graph/host_pieces.h"
#include "tessera/graph/plan_guard.h"
#include "tessera/graph/replay.h"
#include "tessera/memory/plan_check.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/text/bytes.h"

namespace tessera {

// One node with its kernel and the addresses it works on.
struct Program::Bound {
  Context* where = nullptr;
  // Whose stream its work is issued on, and whether it reads what stands on another device. A copy
  // to the host is issued on the GPU that it comes from.
  Device issues_on;
  bool crosses = false;
  std::unique_ptr<Kernel> kernel;
  std::vector<Buffer> in, out;
  Buffer scratch;
};

Program::Program(Graph graph, const CompileOptions& options)
    : Program(lowered(std::move(graph), options), options) {}

Program::Program(Lowered lowered, const CompileOptions& options)
    : graph_(std::move(lowered.graph)),
      arenas_(options.arenas),
      passes_(std::move(lowered.passes)),
      settings_(settings()) {
  choose_algorithms();
  if (options.arena_budget >= 0) keep_to_budget(options);
  prepare_kernels();
  make_plans(options);
  place_slots();
  for (const DevicePlan& plan : plans_) {
    Arena& arena = arenas_->on(plan.device, memory_of(plan.device));
    arena.reserve(plan.arena_bytes());
    memories_.push_back({&arena, 0, nullptr});
  }
  if (slot_layout_ && slot_layout_->ahead >= 0) find_last_reader();
  crossings_.reserve(plans_.size() + 1);
  captures_ = options.cuda_graph && !guard_ && !settings_.gpu.synchronous && plans_.size() == 1 &&
              !device().is_cpu();
}

Program::~Program() = default;

namespace {

// Calls fn(input specs, context) for the errors of one node to say where it stands in the model.
void at_node(const Graph& graph, const Node& node,
             const std::function<void(const Specs&, Context&)>& fn) {
  try {
    const ModulePathReset place(node.module_path);
    const RunningOp running(node.op->name());
    fn(graph.input_specs(node), context(node.device));
  } catch (Error& error) {
    error.locate(node.module_path, node.op->name());
    throw;
  }
}

}  // namespace

// Views move nothing and have no kernel.
void Program::choose_algorithms() {
  scratch_bytes_.assign(graph_.nodes.size(), 0);
  algorithms_.assign(graph_.nodes.size(), "");
  for (size_t s = 0; s < graph_.nodes.size(); ++s) {
    const Node& node = graph_.nodes[s];
    if (only_views(node)) continue;
    at_node(graph_, node, [&](const Specs& in, Context& where) {
      const Algorithm chosen = choose_algorithm(*node.op, in, where.target());
      scratch_bytes_[s] = static_cast<int64_t>(chosen.scratch_bytes);
      algorithms_[s] = chosen.name;
    });
  }
}

void Program::prepare_kernels() {
  for (size_t s = 0; s < graph_.nodes.size(); ++s) {
    const Node& node = graph_.nodes[s];
    auto bound = std::make_unique<Bound>();
    if (!only_views(node))
      at_node(graph_, node, [&](const Specs& in, Context& where) {
        bound->where = &where;
        bound->crosses = std::any_of(in.begin(), in.end(),
                                     [&](const TensorSpec& x) { return x.device != node.device; });
        bound->issues_on = bound->crosses && node.device.is_cpu() ? in.front().device : node.device;
        if (!where.plans_only())
          bound->kernel =
              node.op->prepare(in, where, {algorithms_[s], static_cast<size_t>(scratch_bytes_[s])});
      });
    bound_.push_back(std::move(bound));
  }
}

void Program::keep_to_budget(const CompileOptions& options) {
  const Device device = graph_.devices().front();
  const Planner& planner = options.planner ? *options.planner : *find_planner("best");
  const RecomputeStrategy& strategy =
      options.recompute ? *options.recompute : *find_recompute_strategy("best");
  const bool reuse = pass_is_on(options, "in_place");
  budget_.budget = options.arena_budget;
  const Problem as_it_is =
      tessera::lifetimes(graph_, scratch_bytes_, reuse).problem(nullptr, device);
  budget_.without = planner.solve(as_it_is).bytes;
  if (budget_.without <= options.arena_budget) return;

  const auto start = std::chrono::steady_clock::now();
  const CountedCosts counted;
  ArenaBudget arena(graph_, scratch_bytes_, device, reuse, planner, strategy,
                    options.costs ? *options.costs : counted);
  const ArenaBudget::Way* way = arena.within(options.arena_budget);
  if (way == nullptr) throw BudgetTooSmall(arena, options.arena_budget);
  budget_ = arena.record(*way, options.arena_budget);
  budget_.strategy = strategy.name();
  Repeated repeated = arena.graph_of(*way);
  std::vector<int64_t> scratch_bytes;
  std::vector<std::string> algorithms;
  for (const int node : repeated.origin) {
    scratch_bytes.push_back(scratch_bytes_[node]);
    algorithms.push_back(algorithms_[node]);
  }
  graph_ = std::move(repeated.graph);
  scratch_bytes_ = std::move(scratch_bytes);
  algorithms_ = std::move(algorithms);
  if (const std::string fault = verify(graph_); !fault.empty())
    throw InternalError("after recompute: " + fault);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  passes_.push_back({"recompute", budget_.again, took.count()});
}

void Program::make_plans(const CompileOptions& options) {
  bool reuse = pass_is_on(options, "in_place");
  lifetimes_ = tessera::lifetimes(graph_, scratch_bytes_, reuse);
  passes_.push_back({"in_place", lifetimes_.reused, 0});
  if (options.dump_after == "in_place") fmt::print("{}", graph_.text() + lifetimes_.text(graph_));
  offsets_.assign(lifetimes_.blocks.size(), 0);
  for (const Device device : graph_.devices()) {
    plans_.push_back({.device = device, .problem = {}, .plan = {}, .slot_bytes = 0});
    make_plan(options, plans_.back());
  }
  if (options.verify_plan || options.replay_plan) {
    std::string fault = replay(graph_, lifetimes_, offsets_);
    if (!fault.empty()) throw InternalError(fault);
  }
  if (options.verify_plan)
    guard_ = std::make_unique<PlanGuard>(
        graph_, lifetimes_, [this](ValueId id) { return static_cast<std::byte*>(address(id)); },
        [this](int block) { return block_address(block); });
}

void Program::make_plan(const CompileOptions& options, DevicePlan& plan) {
  const Planner* planner = options.planner ? options.planner : find_planner("best");
  planner_ = planner->name();
  std::vector<int> of_interval;
  plan.problem = lifetimes_.problem(&of_interval, plan.device);
  if (options.verify_plan) plan.problem = PlanGuard::with_red_zones(plan.problem);
  plan.plan = planner->solve(plan.problem);
  if (plan.plan.offsets.size() != of_interval.size())
    throw Error(fmt::format("planner {}: {} offsets for {} buffers", planner_,
                            plan.plan.offsets.size(), of_interval.size()));
  for (size_t i = 0; i < of_interval.size(); ++i) offsets_[of_interval[i]] = plan.plan.offsets[i];
  // Every plan is checked: a planner may be the user's own.
  if (auto fault = check(plan.problem, plan.plan))
    throw Error(fmt::format("planner {}: {}", planner_, fault->text));
}

// Beside a GPU the host's memory is page-locked: a copy then goes on while others work.
RawMemory& Program::memory_of(Device device) const {
  const Device first = plans_.front().device;
  return device.is_cpu() && !first.is_cpu() ? context(first).staging_memory()
                                            : context(device).memory();
}

size_t Program::index_of(Device device) const {
  size_t i = 0;
  while (i < plans_.size() && plans_[i].device != device) ++i;
  return i;
}

void Program::place_slots() {
  auto place = [&](Device device, size_t bytes) {
    size_t& end = plans_[index_of(device)].slot_bytes;
    auto offset = static_cast<int64_t>(end);
    end += round_to_alignment(bytes, alignment_of(device));
    if (guard_) end += round_to_alignment(PlanGuard::kRedZone, alignment_of(device));
    return offset;
  };
  input_offsets_.resize(graph_.inputs.size());
  const auto place_input = [&](int i) {
    const TensorSpec& spec = graph_.values[graph_.inputs[i]].spec;
    input_offsets_[i] = place(spec.device, spec.bytes());
  };
  SlotLayout layout;
  size_t& end = plans_.front().slot_bytes;
  const bool ahead = may_run_ahead();
  if (ahead) layout.ahead = largest_argument();
  if (layout.ahead >= 0) place_input(layout.ahead);
  layout.arguments = end;
  for (int i = 0; i < static_cast<int>(graph_.inputs.size()); ++i)
    if (i != layout.ahead) place_input(i);
  layout.results = end;
  for (size_t b = 0; b < lifetimes_.blocks.size(); ++b) {
    const Block& block = lifetimes_.blocks[b];
    if (block.slot) offsets_[b] = place(block.device, static_cast<size_t>(block.bytes));
  }
  for (size_t i = 0; guard_ && i < plans_.size(); ++i)
    alone_.push_back(static_cast<size_t>(
        place(plans_[i].device, guard_->alone_bytes(plans_[i].device, scratch_bytes_))));
  if (!ahead) return;
  layout.refused = static_cast<size_t>(place(device(), sizeof(int64_t)));
  slot_layout_ = layout;
}

// The results must lie together.
bool Program::may_run_ahead() const {
  if (plans_.size() > 1 || device().is_cpu() || guard_) return false;
  return std::all_of(graph_.outputs.begin(), graph_.outputs.end(), [&](ValueId id) {
    const int block = lifetimes_.block_of[lifetimes_.root[id]];
    return block >= 0 && lifetimes_.blocks[block].slot;
  });
}

size_t Program::output_offset(size_t i) const {
  const ValueId id = graph_.outputs.at(i);
  return static_cast<size_t>(offsets_[lifetimes_.block_of[lifetimes_.root[id]]] +
                             lifetimes_.offset_in[id]);
}

// Where it is worth a copy of its own; -1 elsewhere.
int Program::largest_argument() const {
  constexpr size_t kWorthIt = 4096;
  size_t largest = 0, all = 0;
  int found = -1;
  for (size_t i = 0; i < graph_.inputs.size(); ++i) {
    const size_t bytes = graph_.values[graph_.inputs[i]].spec.bytes();
    all += bytes;
    if (bytes <= largest) continue;
    largest = bytes;
    found = static_cast<int>(i);
  }
  return largest >= std::max(kWorthIt, all / 2) ? found : -1;
}

void Program::find_last_reader() {
  const ValueId ahead = graph_.inputs[slot_layout_->ahead];
  for (size_t s = 0; s < graph_.nodes.size(); ++s)
    for (const ValueId id : graph_.nodes[s].inputs)
      if (lifetimes_.root[id] == ahead) last_reader_ = s + 1;
  Context& where = context(device());
  if (!where.plans_only()) ahead_was_read_ = where.stream().make_event();
}

// With red zones behind each argument and each result, too.
void Program::start_guard() {
  std::vector<PlanGuard::Bytes> zones, arenas;
  const auto add = [&](ValueId id, std::byte* begin, size_t bytes) {
    zones.push_back({graph_.values[id].spec.device, begin + bytes, PlanGuard::kRedZone, id});
  };
  for (const ValueId id : graph_.inputs)
    add(id, static_cast<std::byte*>(address(id)), graph_.values[id].spec.bytes());
  for (size_t b = 0; b < lifetimes_.blocks.size(); ++b) {
    const Block& block = lifetimes_.blocks[b];
    if (block.slot)
      add(block.value, block_address(static_cast<int>(b)), static_cast<size_t>(block.bytes));
  }
  for (size_t i = 0; i < plans_.size(); ++i)
    arenas.push_back({plans_[i].device, memories_[i].arena->data(), plans_[i].arena_bytes(), -1});
  guard_->start(arenas, std::move(zones));
}

void Program::use_external_slots(ExternalMemory external, Device device) {
  const size_t i = index_of(device);
  if (i == plans_.size()) throw Error(fmt::format("program: it has no slots on {}", device.name()));
  if (memories_[i].slots)
    throw Error("program: its slots are in use already; bring their memory before");
  memories_[i].slots =
      std::make_shared<Region>("slots", plans_[i].slot_bytes, external, alignment_of(device));
}

void Program::bind_slots() {
  if (!inputs_.empty() || !outputs_.empty()) return;
  for (size_t i = 0; i < plans_.size(); ++i)
    if (!memories_[i].slots)
      memories_[i].slots =
          std::make_shared<Region>("slots", plans_[i].slot_bytes, memory_of(plans_[i].device));
  hand_out();
}

void Program::hand_out() {
  auto tensor = [&](ValueId id) {
    const TensorSpec& spec = graph_.values[id].spec;
    auto storage = std::make_shared<Storage>(spec.bytes(), spec.device);
    storage->pointer = address(id);
    storage->keep = memories_[index_of(spec.device)].slots;
    return make_tensor(spec, std::move(storage));
  };
  for (ValueId id : graph_.inputs) inputs_.push_back(tensor(id));
  for (ValueId id : graph_.outputs) outputs_.push_back(tensor(id));
}

std::byte* Program::block_address(int block) {
  const Block& b = lifetimes_.blocks[block];
  const Memory& memory = memories_[index_of(b.device)];
  return (b.slot ? memory.slots->data() : memory.arena->data()) + offsets_[block];
}

void* Program::address(ValueId id) {
  ValueId root = lifetimes_.root[id];
  const Value& value = graph_.values[root];
  int64_t inside = lifetimes_.offset_in[id];
  if (int block = lifetimes_.block_of[root]; block >= 0) return block_address(block) + inside;
  if (value.role == Role::input) {
    for (size_t i = 0; i < graph_.inputs.size(); ++i)
      if (graph_.inputs[i] == root)
        return memories_[index_of(value.spec.device)].slots->data() + input_offsets_[i] + inside;
  }
  return static_cast<std::byte*>(value.storage->data()) + value.offset + inside;
}

// Whether an arena has moved since addresses were computed.
bool Program::take_regions() {
  bool moved = !bound_once_;
  try {
    bind_slots();
    for (size_t i = 0; i < plans_.size(); ++i) {
      Memory& memory = memories_[i];
      memory.arena->require(plans_[i].arena_bytes());
      moved = moved || memory.generation != memory.arena->generation();
      memory.generation = memory.arena->generation();
    }
    if (moved)
      for (const Value& value : graph_.values)
        if (value.persistent()) value.storage->data();
  } catch (OutOfMemory& error) {
    bound_once_ = false;
    const PlanReport report = plan_report(*this);
    error.append(
        fmt::format("\nthe program of {} steps needs {} in its arena, {} of slots and {} "
                    "of persistent tensors; the largest tensors when it is fullest:\n{}",
                    report.nodes, byte_text(report.arena), byte_text(report.slots),
                    byte_text(report.persistent), report.at_the_peak()));
    throw;
  }
  return moved;
}

void Program::bind() {
  if (!take_regions()) return;
  captured_.reset();
  compute_addresses();
  bound_once_ = true;
}

void Program::compute_addresses() {
  for (size_t s = 0; s < bound_.size(); ++s) {
    Bound& bound = *bound_[s];
    if (bound.kernel == nullptr) continue;
    bound.in.clear();
    bound.out.clear();
    for (ValueId id : graph_.nodes[s].inputs)
      bound.in.push_back({address(id), graph_.values[id].spec});
    for (ValueId id : graph_.nodes[s].outputs)
      bound.out.push_back({address(id), graph_.values[id].spec});
    if (int block = lifetimes_.scratch[s]; block >= 0)
      bound.scratch = {block_address(block),
                       {DType::u8, {lifetimes_.blocks[block].bytes}, graph_.nodes[s].device}};
  }
}

// What copies between devices read and write is theirs until they are done; on the stream that
// issued them the order is kept anyway.
void Program::wait_for_others(Device device) {
  std::erase_if(crossings_, [&](Device other) {
    if (other == device) return false;
    context(other).synchronize();
    return true;
  });
}

// Before a copy, which is then one of those that others must wait for.
void Program::wait_for_source(const Bound& bound) {
  const Device from = bound.in.front().spec.device;
  if (from != bound.issues_on && !from.is_cpu()) context(from).synchronize();  // of two GPUs
  if (std::find(crossings_.begin(), crossings_.end(), bound.issues_on) == crossings_.end())
    crossings_.push_back(bound.issues_on);
}

void Program::run_node(size_t s) {
  Bound& bound = *bound_[s];
  const Node& node = graph_.nodes[s];
  try {
    wait_for_others(bound.issues_on);
    if (bound.crosses) wait_for_source(bound);
    bound.kernel->run(*bound.where, bound.in, bound.out, bound.scratch);
    if (settings_.gpu.synchronous || guard_) {
      wait_for_others(Device{});
      context(bound.issues_on).synchronize();
    }
  } catch (Error& error) {
    error.locate(node.module_path, node.op->name());
    throw;
  }
}

void Program::run_alone(size_t s) {
  const Bound& bound = *bound_[s];
  const Device device = graph_.nodes[s].device;
  // A copy between devices is not an op of anybody's own.
  if (bound.crosses || (!device.is_cpu() && !settings_.gpu.deterministic)) return;
  const size_t i = index_of(device);
  guard_->run_alone(static_cast<int>(s), bound.in, bound.out, bound.scratch,
                    memories_[i].slots->data() + alone_[i],
                    [&](Buffers in, Buffers out, Buffer scratch) {
                      try {
                        bound.kernel->run(*bound.where, in, out, scratch);
                        bound.where->synchronize();
                      } catch (Error& error) {
                        error.locate(graph_.nodes[s].module_path, graph_.nodes[s].op->name());
                        throw;
                      }
                    });
}

void Program::issue() {
  if (guard_) start_guard();
  for (size_t s = 0; s < bound_.size(); ++s) {
    if (ahead_was_read_ && s == last_reader_) context(device()).stream().record(*ahead_was_read_);
    const bool moves = bound_[s]->kernel != nullptr;
    if (guard_ && moves) guard_->before(static_cast<int>(s));
    if (guard_ && moves) run_alone(s);
    if (moves && observer_ != nullptr) observer_->begin(s);
    if (moves) run_node(s);
    if (moves && observer_ != nullptr) observer_->end(s);
    if (guard_) guard_->after(static_cast<int>(s));
  }
  wait_for_others(Device{});
  if (ahead_was_read_ && last_reader_ == bound_.size())
    context(device()).stream().record(*ahead_was_read_);
  if (slot_layout_) context(device()).issue_refused_updates(slots() + slot_layout_->refused);
}

void Program::run() {
  const SettingsScope scope(settings_);
  bind();
  // The first run loads what libraries load lazily, which cannot be captured.
  if (captures_ && has_run_ && observer_ == nullptr) {
    if (!captured_) captured_ = context(device()).stream().capture([this] { issue(); });
    captured_->launch();
  } else {
    issue();
    has_run_ = true;
  }
  for (const Value& value : graph_.values)
    if (value.previous >= 0) ++value.storage->version;
  for (const Tensor& output : outputs_) ++output.impl()->storage->version;
}

std::optional<NonFinite> Program::non_finite(ValueId id) {
  const Value& value = graph_.values[id];
  if (!is_float(value.spec.dtype)) return std::nullopt;
  std::optional<NonFinite> found;
  visit_float(value.spec.dtype, [&]<class T>(T) {
    const auto look = [&](const std::byte* bytes, size_t offset, size_t count) {
      const std::span<const T> piece(reinterpret_cast<const T*>(bytes), count / sizeof(T));
      const int64_t element = first_non_finite(piece);
      if (element < 0) return true;
      found.emplace();
      found->element = static_cast<int64_t>(offset / sizeof(T)) + element;
      found->number = piece[static_cast<size_t>(element)];
      return false;
    };
    for_host_pieces(value.spec.device, address(id), value.spec.bytes(), look);
  });
  if (found) found->value = fmt::format("{} {}", graph_.value_text(id), value.spec.text());
  return found;
}

std::optional<NonFinite> Program::find_non_finite() {
  const SettingsScope scope(settings_);
  bind();
  for (ValueId id = 0; id < std::ssize(graph_.values); ++id) {
    const Value& value = graph_.values[id];
    if (value.role == Role::computed || value.previous >= 0) continue;
    if (auto found = non_finite(id)) return found;
  }
  for (size_t s = 0; s < bound_.size(); ++s) {
    const Node& node = graph_.nodes[s];
    if (!bound_[s]->kernel || node.is_update()) continue;
    run_node(s);
    wait_for_others(Device{});
    for (ValueId id : node.outputs) {
      auto found = non_finite(id);
      if (!found) continue;
      found->node = static_cast<int>(s);
      found->op = node.op->name();
      found->module_path = node.module_path;
      return found;
    }
  }
  return std::nullopt;
}

std::string NonFinite::text() const {
  const double shown = std::isnan(number) ? std::abs(number) : number;  // a NaN has no sign to tell
  const std::string what = fmt::format("{} at element {} of {}", shown, element, value);
  if (node < 0) return what + ", there before the first op";
  return fmt::format("step {} of the program, {}{}{}, made {}", node, op,
                     module_path.empty() ? "" : " in ", module_path, what);
}

const Tensor& Program::input(size_t i) {
  bind_slots();
  return inputs_.at(i);
}

const Tensor& Program::output(size_t i) {
  bind_slots();
  return outputs_.at(i);
}

}  // namespace tessera
