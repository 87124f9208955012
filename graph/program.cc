#include "tessera/graph/program.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "tessera/engine/allocation_trace.h"
#include "tessera/engine/finite.h"
#include "tessera/engine/prepare.h"
#include "tessera/engine/scope.h"
#include "tessera/graph/compiled_graph.h"
#include "tessera/graph/plan_guard.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/text/bytes.h"

namespace tessera {

// A node with its kernel and buffers.
struct Program::Bound {
  Context* ctx = nullptr;
  // The device whose stream the work is issued on, and whether an input is on another device. A
  // copy to the host is issued on its source GPU.
  Device issues_on;
  bool is_device_copy = false;
  std::unique_ptr<Kernel> kernel;
  std::vector<Buffer> in, out;
  Buffer scratch;
};

Program::Program(Graph graph, const CompileOptions& options)
    : Program(std::make_shared<const CompiledGraph>(std::move(graph), options), options) {}

Program::Program(std::shared_ptr<const CompiledGraph> compiled, const CompileOptions& options)
    : shared_(std::move(compiled)),
      compiled_(*shared_),
      graph_(compiled_.graph),
      arenas_(options.arenas) {
  const SettingsScope scope(compiled_.settings);
  prepare_kernels();
  if (compiled_.guarded)
    guard_ = std::make_unique<PlanGuard>(
        graph_, compiled_.lifetimes,
        [this](ValueId id) { return static_cast<std::byte*>(address(id)); },
        [this](int block) { return block_address(block); });
  for (const DevicePlan& plan : compiled_.plans) {
    Arena& arena = arenas_->on(plan.device, memory_of(plan.device));
    arena.reserve(plan.arena_bytes());
    memories_.push_back({&arena, 0, nullptr});
  }
  const Device device = compiled_.device();
  if (compiled_.slot_layout && compiled_.slot_layout->prefetched >= 0 &&
      !context(device).plans_only())
    prefetched_was_read_ = context(device).stream().make_event();
  pending_copies_.reserve(compiled_.plans.size() + 1);
  captures_ = options.cuda_graph && !guard_ && !compiled_.settings.gpu.synchronous &&
              compiled_.plans.size() == 1 && !device.is_cpu();
}

Program::~Program() = default;

void Program::prepare_kernels() {
  for (size_t s = 0; s < graph_.nodes.size(); ++s) {
    const Node& node = graph_.nodes[s];
    auto bound = std::make_unique<Bound>();
    if (!node.only_views())
      at_node(graph_, node, [&](const Specs& in, Context& ctx) {
        bound->ctx = &ctx;
        bound->is_device_copy =
            std::ranges::any_of(in, [&](const TensorSpec& x) { return x.device != node.device; });
        bound->issues_on =
            bound->is_device_copy && node.device.is_cpu() ? in.front().device : node.device;
        if (!ctx.plans_only())
          bound->kernel = prepare_kernel(
              *node.op, in, ctx,
              {compiled_.algorithms[s], static_cast<size_t>(compiled_.scratch_bytes[s])});
      });
    bound_.push_back(std::move(bound));
  }
}

// In a program with a GPU, host memory is pinned, so that copies overlap with other work.
RawMemory& Program::memory_of(Device device) const {
  const Device first = compiled_.plans.front().device;
  return device.is_cpu() && !first.is_cpu() ? context(first).staging_memory()
                                            : context(device).memory();
}

Program::Memory& Program::memory_on(Device device) { return memories_[compiled_.index_of(device)]; }

// Adds red zones after each argument and each result.
void Program::start_guard() {
  std::vector<PlanGuard::Bytes> zones, arenas;
  const auto add = [&](ValueId id, std::byte* begin, size_t bytes) {
    zones.push_back({graph_.values[id].spec.device, begin + bytes, PlanGuard::kRedZone, id});
  };
  for (const ValueId id : graph_.inputs)
    add(id, static_cast<std::byte*>(address(id)), graph_.values[id].spec.bytes());
  for (size_t b = 0; b < compiled_.lifetimes.blocks.size(); ++b) {
    const Block& block = compiled_.lifetimes.blocks[b];
    if (block.slot)
      add(block.value, block_address(static_cast<int>(b)), static_cast<size_t>(block.bytes));
  }
  for (size_t i = 0; i < compiled_.plans.size(); ++i)
    arenas.push_back({compiled_.plans[i].device, memories_[i].arena->data(),
                      compiled_.plans[i].arena_bytes(), -1});
  guard_->start(arenas, std::move(zones));
}

void Program::use_external_slots(ExternalMemory external, Device device) {
  const size_t i = compiled_.index_of(device);
  if (i == compiled_.plans.size())
    throw Error(fmt::format("program: the program has no slots on {}", device.name()));
  if (memories_[i].slots)
    throw Error("program: the slots are already in use; provide their memory before the first use");
  memories_[i].slots = std::make_shared<Region>("slots", compiled_.plans[i].slot_bytes, external,
                                                alignment_of(device));
}

void Program::bind_slots() {
  if (!inputs_.empty() || !outputs_.empty()) return;
  for (size_t i = 0; i < compiled_.plans.size(); ++i)
    if (!memories_[i].slots)
      memories_[i].slots = std::make_shared<Region>("slots", compiled_.plans[i].slot_bytes,
                                                    memory_of(compiled_.plans[i].device));
  auto tensor = [&](ValueId id) {
    const TensorSpec& spec = graph_.values[id].spec;
    auto storage = std::make_shared<Storage>(spec.bytes(), spec.device);
    storage->pointer = address(id);
    storage->keep = memory_on(spec.device).slots;
    return make_tensor(spec, std::move(storage));
  };
  for (ValueId id : graph_.inputs) inputs_.push_back(tensor(id));
  for (ValueId id : graph_.outputs) outputs_.push_back(tensor(id));
}

std::byte* Program::block_address(int block) {
  const Block& b = compiled_.lifetimes.blocks[block];
  const Memory& memory = memory_on(b.device);
  return (b.slot ? memory.slots->data() : memory.arena->data()) + compiled_.offsets[block];
}

void* Program::address(ValueId id) {
  ValueId root = compiled_.lifetimes.root[id];
  const Value& value = graph_.values[root];
  int64_t inside = compiled_.lifetimes.offset_in[id];
  if (int block = compiled_.lifetimes.block_of[root]; block >= 0)
    return block_address(block) + inside;
  if (value.role == Role::input) {
    for (size_t i = 0; i < graph_.inputs.size(); ++i)
      if (graph_.inputs[i] == root)
        return memory_on(value.spec.device).slots->data() + compiled_.input_offsets[i] + inside;
  }
  return static_cast<std::byte*>(value.storage->data()) + value.offset + inside;
}

// Returns true if an arena has moved since addresses were computed.
bool Program::take_regions() {
  bool moved = !bound_once_;
  try {
    bind_slots();
    for (size_t i = 0; i < compiled_.plans.size(); ++i) {
      Memory& memory = memories_[i];
      memory.arena->require(compiled_.plans[i].arena_bytes());
      moved = moved || memory.generation != memory.arena->generation();
      memory.generation = memory.arena->generation();
    }
    if (moved)
      for (const Value& value : graph_.values)
        if (value.persistent()) value.storage->data();
  } catch (OutOfMemory& error) {
    bound_once_ = false;
    const PlanReport report = plan_report(compiled_);
    error.append(
        fmt::format("\nthe program of {} nodes needs {} for its arena, {} for slots and {} for "
                    "persistent tensors; the largest tensors at the peak:\n{}",
                    report.nodes, byte_text(report.arena), byte_text(report.slots),
                    byte_text(report.persistent), report.peak_tensors_text()));
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
    if (int block = compiled_.lifetimes.scratch[s]; block >= 0)
      bound.scratch = {
          block_address(block),
          {DType::u8, {compiled_.lifetimes.blocks[block].bytes}, graph_.nodes[s].device}};
  }
}

// Until a copy between devices is done, other devices must not touch its source or destination. The
// stream that issued it keeps the order anyway.
void Program::wait_for_others(Device device) {
  std::erase_if(pending_copies_, [&](Device other) {
    if (other == device) return false;
    context(other).synchronize();
    return true;
  });
}

// Waits for the source of a copy, and adds the copy to those that other devices must wait for.
void Program::wait_for_source(const Bound& bound) {
  const Device from = bound.in.front().spec.device;
  if (from != bound.issues_on && !from.is_cpu()) context(from).synchronize();  // between two GPUs
  if (std::ranges::find(pending_copies_, bound.issues_on) == pending_copies_.end())
    pending_copies_.push_back(bound.issues_on);
}

void Program::run_node(size_t s) {
  Bound& bound = *bound_[s];
  const Node& node = graph_.nodes[s];
  try {
    wait_for_others(bound.issues_on);
    if (bound.is_device_copy) wait_for_source(bound);
    bound.kernel->run(*bound.ctx, bound.in, bound.out, bound.scratch);
    if (compiled_.settings.gpu.synchronous || guard_) {
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
  // Copies between devices are not checked alone.
  if (bound.is_device_copy || (!device.is_cpu() && !compiled_.settings.gpu.deterministic)) return;
  const size_t i = compiled_.index_of(device);
  guard_->run_alone(static_cast<int>(s), bound.in, bound.out, bound.scratch,
                    memories_[i].slots->data() + compiled_.alone_offsets[i],
                    [&](Buffers in, Buffers out, Buffer scratch) {
                      try {
                        bound.kernel->run(*bound.ctx, in, out, scratch);
                        bound.ctx->synchronize();
                      } catch (Error& error) {
                        error.locate(graph_.nodes[s].module_path, graph_.nodes[s].op->name());
                        throw;
                      }
                    });
}

void Program::issue() {
  if (guard_) start_guard();
  for (size_t s = 0; s < bound_.size(); ++s) {
    if (prefetched_was_read_ && s == compiled_.last_user)
      context(compiled_.device()).stream().record(*prefetched_was_read_);
    const bool moves = bound_[s]->kernel != nullptr;
    if (guard_ && moves) guard_->before(static_cast<int>(s));
    if (guard_ && moves) run_alone(s);
    if (moves && observer_ != nullptr) observer_->begin(s);
    if (moves) run_node(s);
    if (moves && observer_ != nullptr) observer_->end(s);
    if (guard_) guard_->after(static_cast<int>(s));
  }
  wait_for_others(Device{});
  if (prefetched_was_read_ && compiled_.last_user == bound_.size())
    context(compiled_.device()).stream().record(*prefetched_was_read_);
  if (compiled_.slot_layout)
    context(compiled_.device()).issue_skipped_updates(slots() + compiled_.slot_layout->refused);
}

void Program::run() {
  const SettingsScope scope(compiled_.settings);
  bind();
  // Libraries load lazily in the first run, which cannot be captured.
  if (captures_ && has_run_ && observer_ == nullptr) {
    if (!captured_) captured_ = context(compiled_.device()).stream().capture([this] { issue(); });
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
  const auto look_at = [&]<class T>(T) {
    const auto look = [&](const std::byte* bytes, size_t offset, size_t count) {
      const std::span<const T> piece(reinterpret_cast<const T*>(bytes), count / sizeof(T));
      const int64_t element = first_non_finite(piece);
      if (element < 0) return true;
      found.emplace();
      found->element = static_cast<int64_t>(offset / sizeof(T)) + element;
      found->number = static_cast<double>(piece[element]);
      return false;
    };
    for_host_chunks(value.spec.device, address(id), value.spec.bytes(), look);
  };
  visit_any_float(value.spec.dtype, look_at);
  if (found) found->value = graph_.value_and_spec(id);
  return found;
}

std::optional<NonFinite> Program::find_non_finite() {
  const SettingsScope scope(compiled_.settings);
  bind();
  for (ValueId id = 0; id < std::ssize(graph_.values); ++id) {
    const Value& value = graph_.values[id];
    if (value.role == Role::intermediate || value.previous >= 0) continue;
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
  const double shown = std::isnan(number) ? std::abs(number) : number;  // a NaN has no sign
  const std::string what = fmt::format("{} at element {} of {}", shown, element, value);
  if (node < 0) return what + ", present before the first op";
  return fmt::format("node {} of the program, {}{}{}, produced {}", node, op,
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

ArenasInUse::ArenasInUse(Arenas& arenas, const Specs& arguments) : user_(arenas.user_) {
  const std::thread::id me = std::this_thread::get_id();
  if (user_.load(std::memory_order_relaxed) == me) return;
  std::thread::id no_thread;
  outermost_ = user_.compare_exchange_strong(no_thread, me, std::memory_order_acquire);
  if (outermost_) return;
  std::string texts;
  for (const TensorSpec& spec : arguments)
    texts += fmt::format("{}{}", texts.empty() ? "" : ", ", spec.text());
  throw ConcurrentCall(
      fmt::format("compiled function of ({}): only one thread at a time may run it, but another "
                  "thread is running it or a function that shares its arenas; use one compiled "
                  "function per thread, or hold a lock around each call and its gradients",
                  texts));
}

ArenasInUse::~ArenasInUse() {
  if (outermost_) user_.store({}, std::memory_order_release);
}

}  // namespace tessera
