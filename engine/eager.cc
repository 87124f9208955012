// The memory of eager tensors: allocators, the trace and the log of allocations.
#include "tessera/engine/eager.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "tessera/engine/allocation_trace.h"
#include "tessera/engine/storage.h"
#include "tessera/engine/tape.h"
#include "tessera/runtime/context.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/logical_devices.h"
#include "tessera/runtime/raw_memory.h"
#include "tessera/runtime/text/bytes.h"

namespace tessera {
namespace {

// An allocator and the memory that enforces its limit, if it has one.
struct Made {
  std::unique_ptr<RawMemory> memory;
  std::unique_ptr<Allocator> allocator;
};

struct OfMemory {
  std::vector<Made> made;  // all allocators: a replaced one still owns its tensors
  Allocator* current = nullptr;
};

std::mutex mutex;

// The memory of a device changes when configure_devices() splits the device.
OfMemory& allocators_of(const RawMemory& memory) {
  static auto* all = new std::map<const RawMemory*, OfMemory>;  // never destroyed
  return (*all)[&memory];
}

Allocator* keep(OfMemory& of, Made made) {
  of.made.push_back(std::move(made));
  Allocator* allocator = of.made.back().allocator.get();
  give_back_with([allocator] { allocator->trim(); });
  return allocator;
}

Made make(Device device, std::string_view name, const AllocatorSettings& settings) {
  RawMemory& machine = context(device).memory();
  Made made;
  if (settings.limit != RawMemory::kNoLimit)
    made.memory = std::make_unique<LimitedMemory>(machine, settings.limit, kEagerTag);
  made.allocator = make_allocator(name, made.memory ? *made.memory : machine, settings);
  if (!made.allocator)
    throw ConfigError(
        fmt::format("eager allocator: '{}' is not one of {}", name, allocator_names()));
  return made;
}

// Makes an allocator current and returns the previous one.
Allocator* use(Device device, Made made) {
  const RawMemory& memory = context(device).memory();
  const std::lock_guard lock(mutex);
  OfMemory& of = allocators_of(memory);
  return std::exchange(of.current, keep(of, std::move(made)));
}

thread_local AllocationTrace* trace = nullptr;
thread_local std::string_view running;

struct AllocationLog {
  std::mutex mutex;
  std::unordered_map<const Storage*, std::string> of;
};

// Never destroyed: tensors may be destroyed after main().
AllocationLog& log() {
  static auto* all = new AllocationLog;
  return *all;
}

}  // namespace

Allocator& eager_allocator(Device device) {
  const RawMemory& memory = context(device).memory();
  {
    const std::lock_guard lock(mutex);
    if (Allocator* current = allocators_of(memory).current) return *current;
  }
  Made made = make(device, "caching", {});
  const std::lock_guard lock(mutex);
  OfMemory& of = allocators_of(memory);
  if (of.current == nullptr) of.current = keep(of, std::move(made));
  return *of.current;
}

void set_eager_allocator(Device device, std::string_view name, const AllocatorSettings& settings) {
  eager_allocator(device).trim();  // frees bytes that the reserve may need
  use(device, make(device, name, settings));
}

void set_eager_allocator(Device device, std::unique_ptr<Allocator> allocator) {
  if (!allocator) throw ConfigError("eager allocator: the allocator must not be null");
  eager_allocator(device).trim();
  use(device, {nullptr, std::move(allocator)});
}

EagerAllocatorScope::EagerAllocatorScope(Device device, std::string_view name,
                                         const AllocatorSettings& settings)
    : device_(device) {
  eager_allocator(device).trim();
  outer_ = use(device, make(device, name, settings));
}

EagerAllocatorScope::~EagerAllocatorScope() {
  eager_allocator(device_).trim();
  const RawMemory& memory = context(device_).memory();
  const std::lock_guard lock(mutex);
  allocators_of(memory).current = outer_;
}

AllocationTrace::AllocationTrace() : ValueScope(trace, this) {}
AllocationTrace* AllocationTrace::current() { return trace; }

void AllocationTrace::begin_op(std::string_view name) {
  const std::string module_path = current_module_path();
  steps_.push_back(module_path.empty() ? std::string(name)
                                       : fmt::format("{} {}", name, module_path));
  if (in_backward() && forward_ends_ < 0) forward_ends_ = std::ssize(steps_) - 1;
  in_op_ = true;
  released_ = false;
}

void AllocationTrace::allocated(const void* address, size_t bytes, bool scratch) {
  // A block may reuse bytes released during the same op: start another time step.
  if (!in_op_) {
    begin_op("empty");
    end_op();
  } else if (released_) {
    steps_.push_back(steps_.back());
    released_ = false;
  }
  const auto now = static_cast<int64_t>(steps_.size()) - 1;
  if (const auto old = live_.find(address); old != live_.end())
    blocks_[old->second].upper = std::max(now, blocks_[old->second].lower);
  live_[address] = blocks_.size();
  blocks_.push_back({reinterpret_cast<uintptr_t>(address),
                     static_cast<int64_t>(round_to_alignment(bytes)), now, -1, scratch,
                     in_backward()});
}

void AllocationTrace::released(const void* address) noexcept {
  const auto found = live_.find(address);
  if (found == live_.end()) return;
  blocks_[found->second].upper = static_cast<int64_t>(steps_.size());
  live_.erase(found);
  released_ = true;
}

// Sorts by address and closes the gaps that no block covers.
std::vector<int64_t> AllocationTrace::offsets() const {
  std::vector<size_t> order(blocks_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order,
                    [&](size_t a, size_t b) { return blocks_[a].address < blocks_[b].address; });
  std::vector<int64_t> offsets(blocks_.size());
  uintptr_t left_out = 0, covered = 0;
  for (size_t i : order) {
    const Block& block = blocks_[i];
    if (block.address > covered) left_out += block.address - covered;
    offsets[i] = static_cast<int64_t>(block.address - left_out);
    covered = std::max(covered, block.address + static_cast<uintptr_t>(block.bytes));
  }
  return offsets;
}

PlanPicture AllocationTrace::picture(const std::string& title) const {
  PlanPicture picture{title, {}, {offsets(), 0}, {}, steps_, forward_ends_};
  const auto now = static_cast<int64_t>(steps_.size());
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const Block& block = blocks_[i];
    const std::string& step = steps_[block.lower];
    const int64_t upper = block.upper < 0 ? now : block.upper;
    picture.problem.buffers.push_back({.lower = block.lower,
                                       .upper = upper,
                                       .size = block.bytes,
                                       .id = fmt::format("{} {}", i, step)});
    picture.plan.bytes = std::max(picture.plan.bytes, picture.plan.offsets[i] + block.bytes);
    picture.labels.push_back(
        {step,
         block.scratch    ? "workspace"
         : block.backward ? "gradients"
                          : "activations",
         block.upper < 0 ? "never released" : fmt::format("released after {}", steps_[upper - 1])});
  }
  return picture;
}

CurrentOpScope::CurrentOpScope(std::string_view name) : ValueScope(running, name) {}
std::string_view current_op() { return running; }

void record_allocation(const Storage& storage, bool scratch) {
  std::string tag = op_at(running.empty() ? "creation" : running, current_module_path());
  if (scratch) tag += " (scratch)";
  {
    const std::lock_guard lock(log().mutex);
    log().of[&storage] = std::move(tag);
  }
  if (trace != nullptr) trace->allocated(storage.pointer, storage.bytes, scratch);
}

void record_release(const Storage& storage) noexcept {
  if (trace != nullptr) trace->released(storage.pointer);
  const std::lock_guard lock(log().mutex);
  log().of.erase(&storage);
}

std::string largest_allocations(Device device, size_t count) {
  struct Sum {
    size_t bytes = 0, tensors = 0;
  };
  std::map<std::string, Sum> sums;
  {
    const std::lock_guard lock(log().mutex);
    for (const auto& [storage, tag] : log().of) {
      if (storage->device != device) continue;
      sums[tag].bytes += storage->bytes;
      ++sums[tag].tensors;
    }
  }
  std::vector<std::pair<std::string, Sum>> order(sums.begin(), sums.end());
  std::ranges::stable_sort(order, std::greater(), [](const auto& of) { return of.second.bytes; });
  if (order.size() > count) order.resize(count);
  std::string text;
  for (const auto& [tag, sum] : order)
    text += fmt::format("\n  {:>12}  {}{}", byte_text(static_cast<int64_t>(sum.bytes)), tag,
                        sum.tensors == 1 ? "" : fmt::format(", {} tensors", sum.tensors));
  return text;
}

}  // namespace tessera
