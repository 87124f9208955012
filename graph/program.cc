#include "tessera/graph/program.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "tessera/engine/finite.h"
#include "tessera/graph/plan_guard.h"
#include "tessera/graph/plan_report.h"
#include "tessera/graph/replay.h"
#include "tessera/memory/plan_check.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/text/bytes.h"

namespace tessera {

// One node with its kernel and the addresses it works on.
struct Program::Bound {
  Context* where = nullptr;
  std::unique_ptr<Kernel> kernel;
  std::vector<Buffer> in, out;
  Buffer scratch;
};

Program::Program(Graph graph, const CompileOptions& options)
    : graph_(std::move(graph)), arena_(options.arena), threads_(cpu_context().pool().size()) {
  passes_ = lower(graph_, options);
  choose_kernels();
  make_plan(options);
  place_slots();
  arena_->reserve(arena_bytes());
}

Program::~Program() = default;

Device Program::device() const {
  return graph_.nodes.empty() ? Device{} : graph_.nodes.front().device;
}

void Program::choose_kernels() {
  for (const Node& node : graph_.nodes) {
    auto bound = std::make_unique<Bound>();
    bool moves = false;  // views move nothing and have no kernel
    for (size_t o = 0; o < node.outputs.size(); ++o)
      moves = moves || node.op->views(static_cast<int>(o)) < 0;
    int64_t scratch = 0;
    if (moves) {
      try {
        Specs in = graph_.input_specs(node);
        bound->where = &context(node.device);
        const Algorithm chosen = choose_algorithm(*node.op, in, *bound->where);
        if (!bound->where->plans_only())
          bound->kernel = node.op->prepare(in, *bound->where, chosen);
        scratch = static_cast<int64_t>(chosen.scratch_bytes);
      } catch (Error& error) {
        error.locate(node.module_path, node.op->name());
        throw;
      }
    }
    scratch_bytes_.push_back(scratch);
    bound_.push_back(std::move(bound));
  }
}

void Program::make_plan(const CompileOptions& options) {
  bool reuse = pass_is_on(options, "in_place");
  lifetimes_ = tessera::lifetimes(graph_, scratch_bytes_, reuse);
  passes_.push_back({"in_place", lifetimes_.reused, 0});
  if (options.dump_after == "in_place") fmt::print("{}", graph_.text() + lifetimes_.text(graph_));
  const Planner* planner = options.planner ? options.planner : find_planner("best");
  planner_ = planner->name();
  std::vector<int> of_interval;
  problem_ = lifetimes_.problem(&of_interval, alignment_of(device()));
  if (options.verify_plan) problem_ = PlanGuard::with_red_zones(problem_);
  plan_ = planner->solve(problem_);
  if (plan_.offsets.size() != of_interval.size())
    throw Error(fmt::format("planner {}: {} offsets for {} buffers", planner_, plan_.offsets.size(),
                            of_interval.size()));
  offsets_.assign(lifetimes_.blocks.size(), 0);
  for (size_t i = 0; i < of_interval.size(); ++i) offsets_[of_interval[i]] = plan_.offsets[i];
  // Every plan is checked: a planner may be the user's own.
  if (auto fault = check(problem_, plan_))
    throw Error(fmt::format("planner {}: {}", planner_, fault->text));
  if (options.verify_plan || options.replay_plan) {
    std::string fault = replay(graph_, lifetimes_, offsets_);
    if (!fault.empty()) throw InternalError(fault);
  }
  if (options.verify_plan)
    guard_ = std::make_unique<PlanGuard>(graph_, lifetimes_, offsets_,
                                         [this](ValueId id) { return address(id); });
}

void Program::place_slots() {
  auto place = [&](size_t bytes) {
    auto offset = static_cast<int64_t>(slot_bytes_);
    slot_bytes_ += round_to_alignment(bytes, alignment_of(device()));
    if (guard_) slot_bytes_ += PlanGuard::kRedZone;
    return offset;
  };
  for (ValueId id : graph_.inputs) input_offsets_.push_back(place(graph_.values[id].spec.bytes()));
  for (size_t b = 0; b < lifetimes_.blocks.size(); ++b)
    if (lifetimes_.blocks[b].slot)
      offsets_[b] = place(static_cast<size_t>(lifetimes_.blocks[b].bytes));
}

// With red zones behind each argument and each result, too.
void Program::start_guard() {
  std::vector<PlanGuard::Zone> zones;
  const auto add = [&](ValueId id, int64_t offset, size_t bytes) {
    zones.push_back({slots_->data() + offset + bytes, id});
  };
  for (size_t i = 0; i < graph_.inputs.size(); ++i)
    add(graph_.inputs[i], input_offsets_[i], graph_.values[graph_.inputs[i]].spec.bytes());
  for (size_t b = 0; b < lifetimes_.blocks.size(); ++b) {
    const Block& block = lifetimes_.blocks[b];
    if (block.slot) add(block.value, offsets_[b], static_cast<size_t>(block.bytes));
  }
  guard_->start(arena_->data(), arena_bytes(), std::move(zones));
}

void Program::use_external_slots(ExternalMemory external) {
  if (slots_) throw Error("program: its slots are in use already; bring their memory before");
  hand_out(std::make_shared<Region>("slots", slot_bytes_, external));
}

void Program::bind_slots() {
  if (slots_) return;
  // The slots of a GPU's step stand on the host.
  const Device host = device().is_cpu() ? device() : Device{};
  hand_out(std::make_shared<Region>("slots", slot_bytes_, context(host).memory()));
}

void Program::hand_out(std::shared_ptr<Region> slots) {
  slots_ = std::move(slots);
  auto tensor = [&](const TensorSpec& spec, std::byte* at) {
    auto storage = std::make_shared<Storage>(spec.bytes(), spec.device);
    storage->pointer = at;
    storage->keep = slots_;
    return make_tensor(spec, std::move(storage));
  };
  for (size_t i = 0; i < graph_.inputs.size(); ++i)
    inputs_.push_back(
        tensor(graph_.values[graph_.inputs[i]].spec, slots_->data() + input_offsets_[i]));
  for (ValueId id : graph_.outputs)
    outputs_.push_back(tensor(graph_.values[id].spec, static_cast<std::byte*>(address(id))));
}

void* Program::address(ValueId id) {
  ValueId root = lifetimes_.root[id];
  const Value& value = graph_.values[root];
  int64_t inside = lifetimes_.offset_in[id];
  if (int block = lifetimes_.block_of[root]; block >= 0) {
    std::byte* base = lifetimes_.blocks[block].slot ? slots_->data() : arena_->data();
    return base + offsets_[block] + inside;
  }
  if (value.role == Role::input) {
    for (size_t i = 0; i < graph_.inputs.size(); ++i)
      if (graph_.inputs[i] == root) return slots_->data() + input_offsets_[i] + inside;
  }
  return static_cast<std::byte*>(value.storage->data()) + value.offset + inside;
}

void Program::take_regions() {
  try {
    bind_slots();
    arena_->require(arena_bytes());
    if (generation_ == arena_->generation() && generation_ != 0) return;
    for (const Value& value : graph_.values)
      if (value.persistent()) value.storage->data();
  } catch (OutOfMemory& error) {
    const PlanReport report = plan_report(*this);
    error.append(
        fmt::format("\nthe program of {} steps needs {} in its arena, {} of slots and {} "
                    "of persistent tensors; the largest tensors when it is fullest:\n{}",
                    report.nodes, byte_text(report.arena), byte_text(report.slots),
                    byte_text(report.persistent), report.at_the_peak()));
    throw;
  }
}

void Program::bind() {
  take_regions();
  if (generation_ == arena_->generation() && !bound_.empty() && generation_ != 0) return;
  generation_ = arena_->generation();
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
      bound.scratch = {arena_->data() + offsets_[block],
                       {DType::u8, {lifetimes_.blocks[block].bytes}, graph_.nodes[s].device}};
  }
}

void Program::run() {
  if (cpu_context().pool().size() > threads_)
    throw Error(
        fmt::format("program: planned for {} threads, now there are {}; set the threads "
                    "before the step is prepared",
                    threads_, cpu_context().pool().size()));
  bind();
  if (guard_) start_guard();
  for (size_t s = 0; s < bound_.size(); ++s) {
    Bound& node = *bound_[s];
    if (guard_ && node.kernel) guard_->before(static_cast<int>(s));
    if (node.kernel) node.kernel->run(*node.where, node.in, node.out, node.scratch);
    if (guard_) guard_->after(static_cast<int>(s));
  }
  for (const Value& value : graph_.values)
    if (value.previous >= 0) ++value.storage->version;
  for (const Tensor& output : outputs_) ++output.impl()->storage->version;
}

std::optional<NonFinite> Program::non_finite(ValueId id) {
  const Value& value = graph_.values[id];
  const Buffer buffer{address(id), value.spec};
  const int64_t element = first_non_finite(buffer);
  if (element < 0) return std::nullopt;
  NonFinite found;
  found.value = fmt::format("{} {}", graph_.value_text(id), value.spec.text());
  found.element = element;
  visit_float(value.spec.dtype,
              [&](auto zero) { found.number = buffer.as<decltype(zero)>()[element]; });
  return found;
}

std::optional<NonFinite> Program::find_non_finite() {
  bind();
  for (ValueId id = 0; id < std::ssize(graph_.values); ++id) {
    const Value& value = graph_.values[id];
    if (value.role == Role::computed || value.previous >= 0) continue;
    if (auto found = non_finite(id)) return found;
  }
  for (size_t s = 0; s < bound_.size(); ++s) {
    Bound& bound = *bound_[s];
    const Node& node = graph_.nodes[s];
    if (!bound.kernel || node.is_update()) continue;
    bound.kernel->run(*bound.where, bound.in, bound.out, bound.scratch);
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
