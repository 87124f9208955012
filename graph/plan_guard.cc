#include "tessera/graph/plan_guard.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "tessera/graph/host_pieces.h"
#include "tessera/runtime/error.h"

namespace tessera {
namespace {

constexpr auto kPoison = std::byte{0xff};

uint64_t add_to_checksum(uint64_t sum, const std::byte* at, size_t bytes) {
  const auto add = [&](uint64_t word) {
    sum = (sum ^ word) * 0xff51afd7ed558ccd;
    sum ^= sum >> 32;
  };
  uint64_t word = 0;
  for (; bytes >= sizeof word; bytes -= sizeof word, at += sizeof word) {
    std::memcpy(&word, at, sizeof word);
    add(word);
  }
  word = 0;
  std::memcpy(&word, at, bytes);
  add(word);
  return sum;
}

}  // namespace

Problem PlanGuard::with_red_zones(Problem problem) {
  for (Interval& buffer : problem.buffers)
    if (buffer.size > 0) buffer.size += kRedZone;
  return problem;
}

PlanGuard::PlanGuard(const Graph& graph, const Lifetimes& lifetimes, ValueAddress value,
                     BlockAddress block)
    : graph_(graph),
      lifetimes_(lifetimes),
      value_address_(std::move(value)),
      block_address_(std::move(block)),
      begin_(graph.nodes.size()),
      end_(graph.nodes.size()),
      checksums_(graph.values.size()),
      seen_(graph.values.size()) {
  for (size_t b = 0; b < lifetimes.blocks.size(); ++b) {
    const Block& block = lifetimes.blocks[b];
    if (block.slot || block.bytes == 0) continue;
    begin_[static_cast<size_t>(block.lower)].push_back(static_cast<int>(b));
    end_[static_cast<size_t>(block.upper - 1)].push_back(static_cast<int>(b));
  }
}

void PlanGuard::start(const std::vector<Bytes>& arenas, std::vector<Bytes> zones) {
  zones_ = std::move(zones);
  for (const Bytes& arena : arenas) poison(arena.device, arena.at, arena.bytes);
  for (const Bytes& zone : zones_) poison(zone.device, zone.at, zone.bytes);
  live_.clear();
  if (!begin_.empty()) live_ = begin_[0];
  for (ValueId id = 0; id < std::ssize(graph_.values); ++id) {
    const Value& value = graph_.values[id];
    if (value.role == Role::computed || value.previous >= 0) continue;
    checksums_[id] = checksum(id);
    seen_[id] = -1;
  }
}

void PlanGuard::before(int node) {
  for (const ValueId id : graph_.nodes[static_cast<size_t>(node)].inputs) {
    if (checksum(id) == checksums_[id]) continue;
    std::string suspects;
    for (int s = seen_[id] + 1; s < node; ++s)
      suspects += fmt::format("{}{}", suspects.empty() ? "" : ", ",
                              graph_.node_text(static_cast<size_t>(s)));
    throw OpError(fmt::format(
        "{} {} has been overwritten by an op that was not given it, before {} reads it; one of "
        "these ops is to blame, not the plan: {}",
        graph_.value_text(id), graph_.values[id].spec.text(),
        graph_.node_text(static_cast<size_t>(node)), suspects));
  }
}

void PlanGuard::check_live(int node) const {
  const Node& now = graph_.nodes[static_cast<size_t>(node)];
  for (int b : live_) {
    const Block& block = lifetimes_.blocks[static_cast<size_t>(b)];
    if (poisoned(block.device, block_address_(b) + bytes_of(b), kRedZone)) continue;
    blame(node, fmt::format("wrote beyond the end of {}{}", block_text(b),
                            ownership_text(now, block.value, block.node == node)));
  }
}

void PlanGuard::after(int node) {
  const auto s = static_cast<size_t>(node);
  const Node& now = graph_.nodes[s];
  check_live(node);
  check_zones(node);
  for (size_t i = 0; i < now.inputs.size(); ++i) {
    const ValueId id = now.inputs[i];
    if (overlaps_output(now, id)) continue;
    if (checksum(id) != checksums_[id])
      blame(node, fmt::format("wrote to its input {}, {} {}, which it declares neither with "
                              "may_reuse() nor with updates()",
                              i, graph_.value_text(id), graph_.values[id].spec.text()));
    seen_[id] = node;
  }
  for (const ValueId id : now.outputs) {
    checksums_[id] = checksum(id);
    seen_[id] = node;
  }
  for (int b : end_[s]) {
    poison(lifetimes_.blocks[static_cast<size_t>(b)].device, block_address_(b),
           static_cast<size_t>(bytes_of(b)));
    std::erase(live_, b);
  }
  if (s + 1 < begin_.size()) begin_blocks(s + 1);
}

void PlanGuard::begin_blocks(size_t node) {
  for (int b : begin_[node]) {
    if (!poisoned(lifetimes_.blocks[static_cast<size_t>(b)].device, block_address_(b),
                  static_cast<size_t>(bytes_of(b))))
      throw OpError(
          fmt::format("{} or one before it wrote to bytes that it had given up, where {} is to "
                      "stand next; the op is to blame, not the plan: a kernel may keep no pointer "
                      "from one run() to the next",
                      graph_.node_text(node - 1), block_text(b)));
    live_.push_back(b);
  }
}

void PlanGuard::check_zones(int node) const {
  const Node& now = graph_.nodes[static_cast<size_t>(node)];
  for (const Bytes& zone : zones_)
    if (!poisoned(zone.device, zone.at, zone.bytes))
      blame(node, fmt::format("wrote beyond the end of {} {}{}", graph_.value_text(zone.value),
                              graph_.values[zone.value].spec.text(),
                              ownership_text(now, zone.value, false)));
}

void PlanGuard::blame(int node, const std::string& deed) const {
  throw OpError(fmt::format(
      "{} {}; the op is to blame, not the plan: its kernel may write the elements of its outputs "
      "and its scratch, and nothing else",
      graph_.node_text(static_cast<size_t>(node)), deed));
}

int64_t PlanGuard::bytes_of(int block) const {
  return lifetimes_.blocks[static_cast<size_t>(block)].bytes;
}

void PlanGuard::poison(Device device, std::byte* at, size_t bytes) const {
  if (bytes > 0) context(device).fill(at, static_cast<unsigned char>(kPoison), bytes);
}

bool PlanGuard::poisoned(Device device, const std::byte* at, size_t bytes) const {
  bool untouched = true;
  for_host_pieces(device, at, bytes, [&](const std::byte* piece, size_t, size_t count) {
    untouched = std::all_of(piece, piece + count, [](std::byte b) { return b == kPoison; });
    return untouched;
  });
  return untouched;
}

std::string PlanGuard::block_text(int block) const {
  const Block& b = lifetimes_.blocks[static_cast<size_t>(block)];
  return b.value >= 0
             ? fmt::format("{} {}", graph_.value_text(b.value), graph_.values[b.value].spec.text())
             : fmt::format("the scratch of step {}", b.node);
}

// What the value, or the block that begins with it, is to the node.
std::string PlanGuard::ownership_text(const Node& node, ValueId value, bool scratch) const {
  if (scratch) return "";
  const auto stands_in = [&](ValueId id) {
    return value >= 0 && lifetimes_.root[id] == lifetimes_.root[value];
  };
  const int block = value >= 0 ? lifetimes_.block_of[lifetimes_.root[value]] : -1;
  const auto is_there = [&](ValueId id) {
    return stands_in(id) || (block >= 0 && lifetimes_.block_of[lifetimes_.root[id]] == block);
  };
  if (std::any_of(node.outputs.begin(), node.outputs.end(), is_there)) return ", its output";
  if (std::any_of(node.inputs.begin(), node.inputs.end(), is_there)) return ", its input";
  return ", which it was not given";
}

uint64_t PlanGuard::checksum(ValueId id) const {
  const TensorSpec& spec = graph_.values[id].spec;
  uint64_t sum = 0x9e3779b97f4a7c15;
  for_host_pieces(spec.device, value_address_(id), spec.bytes(),
                  [&](const std::byte* piece, size_t, size_t count) {
                    sum = add_to_checksum(sum, piece, count);
                    return true;
                  });
  return sum;
}

// The op declared that it writes there.
bool PlanGuard::overlaps_output(const Node& node, ValueId id) const {
  const std::byte *begin = value_address_(id), *end = begin + graph_.values[id].spec.bytes();
  return std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId output) {
    const std::byte* at = value_address_(output);
    return graph_.values[output].spec.device == graph_.values[id].spec.device && at < end &&
           begin < at + graph_.values[output].spec.bytes();
  });
}

}  // namespace tessera
