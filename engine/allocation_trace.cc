#include "tessera/engine/allocation_trace.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "tessera/engine/scope.h"
#include "tessera/engine/tape.h"
#include "tessera/runtime/raw_memory.h"

namespace tessera {
namespace {

thread_local AllocationTrace* trace = nullptr;

}  // namespace

AllocationTrace::AllocationTrace() : outer_(trace) { trace = this; }
AllocationTrace::~AllocationTrace() { trace = outer_; }
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
  std::sort(order.begin(), order.end(),
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
    const std::string& step = steps_[static_cast<size_t>(block.lower)];
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

}  // namespace tessera
