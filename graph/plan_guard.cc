#include "tessera/graph/plan_guard.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "tessera/runtime/error.h"

namespace tessera {
namespace {

constexpr auto kPoison = std::byte{0xff};

}  // namespace

Problem PlanGuard::with_red_zones(Problem problem) {
  for (Interval& buffer : problem.buffers)
    if (buffer.size > 0) buffer.size += kRedZone;
  return problem;
}

PlanGuard::PlanGuard(const Graph& graph, const Lifetimes& lifetimes,
                     const std::vector<int64_t>& offsets)
    : graph_(graph),
      lifetimes_(lifetimes),
      offsets_(offsets),
      begin_(graph.nodes.size()),
      end_(graph.nodes.size()) {
  for (size_t b = 0; b < lifetimes.blocks.size(); ++b) {
    const Block& block = lifetimes.blocks[b];
    if (block.slot || block.bytes == 0) continue;
    begin_[static_cast<size_t>(block.lower)].push_back(static_cast<int>(b));
    end_[static_cast<size_t>(block.upper - 1)].push_back(static_cast<int>(b));
  }
}

void PlanGuard::start(std::byte* arena, size_t bytes) {
  arena_ = arena;
  if (bytes > 0) std::memset(arena, static_cast<int>(kPoison), bytes);
  live_.clear();
  if (!begin_.empty()) live_ = begin_[0];
}

void PlanGuard::after(int node) {
  const auto s = static_cast<size_t>(node);
  for (int b : live_)
    if (!poisoned(b, bytes_of(b), kRedZone))
      throw InternalError(
          fmt::format("{} wrote beyond the end of {}", graph_.node_text(s), block_text(b)));
  for (int b : end_[s]) {
    std::memset(arena_ + offsets_[static_cast<size_t>(b)], static_cast<int>(kPoison),
                static_cast<size_t>(bytes_of(b)));
    std::erase(live_, b);
  }
  if (s + 1 == begin_.size()) return;
  for (int b : begin_[s + 1]) {
    if (!poisoned(b, 0, bytes_of(b)))
      throw InternalError(
          fmt::format("{} or one before it wrote to bytes that it had given up, where {} is to "
                      "stand next",
                      graph_.node_text(s), block_text(b)));
    live_.push_back(b);
  }
}

int64_t PlanGuard::bytes_of(int block) const {
  return lifetimes_.blocks[static_cast<size_t>(block)].bytes;
}

bool PlanGuard::poisoned(int block, int64_t first, int64_t bytes) const {
  const std::byte* at = arena_ + offsets_[static_cast<size_t>(block)] + first;
  return std::all_of(at, at + bytes, [](std::byte b) { return b == kPoison; });
}

std::string PlanGuard::block_text(int block) const {
  const Block& b = lifetimes_.blocks[static_cast<size_t>(block)];
  return b.value >= 0 ? graph_.value_text(b.value) : fmt::format("the scratch of step {}", b.node);
}

}  // namespace tessera
