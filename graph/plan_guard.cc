#include "tessera/graph/plan_guard.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "tessera/runtime/error.h"

namespace tessera {
namespace {

constexpr auto kPoison = std::byte{0xff};
constexpr auto kAlone = std::byte{0x7f};  // poison of run_alone()

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
    begin_[block.lower].push_back(static_cast<int>(b));
    end_[block.upper - 1].push_back(static_cast<int>(b));
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
    if (value.role == Role::intermediate || value.previous >= 0) continue;
    checksums_[id] = checksum(id);
    seen_[id] = -1;
  }
}

void PlanGuard::before(int node) {
  for (const ValueId id : graph_.nodes[node].inputs) {
    if (checksum(id) == checksums_[id]) continue;
    std::string suspects;
    for (int s = seen_[id] + 1; s < node; ++s)
      suspects += fmt::format("{}{}", suspects.empty() ? "" : ", ", graph_.node_text(s));
    throw OpError(fmt::format(
        "{} was overwritten by an op that did not get it as an input, before {} reads it; this is "
        "a bug in one of these ops, not in the plan: {}",
        graph_.value_and_spec(id), graph_.node_text(node), suspects));
  }
}

void PlanGuard::check_live(int node) const {
  const Node& now = graph_.nodes[node];
  for (int b : live_) {
    const Block& block = lifetimes_.blocks[b];
    if (poisoned(block.device, block_address_(b) + bytes_of(b), kRedZone)) continue;
    blame(node, fmt::format("wrote beyond the end of {}{}", block_text(b),
                            ownership_text(now, block.value, block.node == node)));
  }
}

void PlanGuard::after(int node) {
  const Node& now = graph_.nodes[node];
  check_live(node);
  check_zones(node);
  for (size_t i = 0; i < now.inputs.size(); ++i) {
    const ValueId id = now.inputs[i];
    if (overlaps_output(now, id)) continue;
    if (checksum(id) != checksums_[id])
      blame(node,
            fmt::format("wrote to its input {}, {}, which it declares neither with may_reuse() "
                        "nor with updates()",
                        i, graph_.value_and_spec(id)));
    seen_[id] = node;
  }
  for (const ValueId id : now.outputs) {
    checksums_[id] = checksum(id);
    seen_[id] = node;
  }
  compare_with_alone(node);
  alone_.clear();
  for (int b : end_[node]) {
    poison(lifetimes_.blocks[b].device, block_address_(b), bytes_of(b));
    std::erase(live_, b);
  }
  if (node + 1 < std::ssize(begin_)) begin_blocks(node + 1);
}

void PlanGuard::begin_blocks(int node) {
  for (int b : begin_[node]) {
    if (!poisoned(lifetimes_.blocks[b].device, block_address_(b), bytes_of(b)))
      blame(node - 1,
            fmt::format("or an earlier node wrote to memory after its last use, where {} is stored "
                        "next",
                        block_text(b)),
            "a kernel must not keep pointers from one run() to the next");
    live_.push_back(b);
  }
}

void PlanGuard::check_zones(int node) const {
  const Node& now = graph_.nodes[node];
  for (const Bytes& zone : zones_)
    if (!poisoned(zone.device, zone.at, zone.bytes))
      blame(node, fmt::format("wrote beyond the end of {}{}", graph_.value_and_spec(zone.value),
                              ownership_text(now, zone.value, false)));
}

void PlanGuard::blame(int node, const std::string& deed, const char* remedy) const {
  throw OpError(fmt::format("{} {}; this is a bug in the op, not in the plan: {}",
                            graph_.node_text(node), deed, remedy));
}

int64_t PlanGuard::bytes_of(int block) const { return lifetimes_.blocks[block].bytes; }

void PlanGuard::poison(Device device, std::byte* at, size_t bytes) const {
  if (bytes > 0) context(device).fill(at, static_cast<unsigned char>(kPoison), bytes);
}

bool PlanGuard::poisoned(Device device, const std::byte* at, size_t bytes) const {
  bool untouched = true;
  for_host_chunks(device, at, bytes, [&](const std::byte* piece, size_t, size_t count) {
    untouched = std::all_of(piece, piece + count, [](std::byte b) { return b == kPoison; });
    return untouched;
  });
  return untouched;
}

std::string PlanGuard::block_text(int block) const {
  const Block& b = lifetimes_.blocks[block];
  return b.value >= 0 ? graph_.value_and_spec(b.value)
                      : fmt::format("the scratch of node {}", b.node);
}

// Returns the relation of the node to the value, or to the block that begins with it.
std::string PlanGuard::ownership_text(const Node& node, ValueId value, bool scratch) const {
  if (scratch) return "";
  const auto stands_in = [&](ValueId id) {
    return value >= 0 && lifetimes_.root[id] == lifetimes_.root[value];
  };
  const int block = value >= 0 ? lifetimes_.block_of[lifetimes_.root[value]] : -1;
  const auto is_there = [&](ValueId id) {
    return stands_in(id) || (block >= 0 && lifetimes_.block_of[lifetimes_.root[id]] == block);
  };
  if (std::ranges::any_of(node.outputs, is_there)) return ", its output";
  if (std::ranges::any_of(node.inputs, is_there)) return ", its input";
  return ", which is neither its input nor its output";
}

uint64_t PlanGuard::checksum(Device device, const std::byte* at, size_t bytes) const {
  uint64_t sum = 0x9e3779b97f4a7c15;
  for_host_chunks(device, at, bytes, [&](const std::byte* piece, size_t, size_t count) {
    sum = add_to_checksum(sum, piece, count);
    return true;
  });
  return sum;
}

uint64_t PlanGuard::checksum(ValueId id) const {
  const TensorSpec& spec = graph_.values[id].spec;
  return checksum(spec.device, value_address_(id), spec.bytes());
}

size_t PlanGuard::alone_bytes(const Graph& graph, Device device,
                              const std::vector<int64_t>& scratch_bytes) {
  size_t most = 0;
  for (size_t s = 0; s < graph.nodes.size(); ++s) {
    const Node& node = graph.nodes[s];
    if (node.device != device) continue;
    // Each buffer may begin at any address and is followed by a red zone.
    const auto padded_size = [&](size_t bytes) {
      return bytes + kRedZone + 2 * alignment_of(device);
    };
    size_t bytes = padded_size(static_cast<size_t>(scratch_bytes[s]));
    for (ValueId id : node.inputs) bytes += padded_size(graph.values[id].spec.bytes());
    for (ValueId id : node.outputs) bytes += padded_size(graph.values[id].spec.bytes());
    most = std::max(most, bytes);
  }
  return most;
}

void PlanGuard::run_alone(int node, Buffers in, Buffers out, Buffer scratch, std::byte* at,
                          const Run& run) {
  const Op& op = *graph_.nodes[node].op;
  // Place buffers at addresses of the same alignment, which selects the code path of some kernels.
  const auto place = [&](const Buffer& there) {
    const size_t alignment = alignment_of(there.spec.device), bytes = there.spec.bytes();
    const auto address = [](const void* p) { return reinterpret_cast<uintptr_t>(p); };
    at += (address(there.data) - address(at)) % alignment;
    context(there.spec.device).fill(at, static_cast<unsigned char>(kAlone), bytes);
    return Buffer{std::exchange(at, at + bytes + kRedZone), there.spec};
  };
  std::vector<Buffer> inputs;
  for (const Buffer& buffer : in) {
    inputs.push_back(place(buffer));
    context(buffer.spec.device).copy_within(inputs.back().data, buffer.data, buffer.spec.bytes());
  }
  alone_.clear();
  for (size_t o = 0; o < out.size(); ++o) {
    const int i = static_cast<int>(o), part_of = std::max(op.view_of(i), op.updates(i));
    if (part_of < 0) {
      alone_.push_back(place(out[o]));
      continue;
    }
    const auto offset = out[o].as<std::byte>() - in[part_of].as<std::byte>();
    alone_.push_back({inputs[part_of].as<std::byte>() + offset, out[o].spec});
  }
  if (scratch.data != nullptr) scratch = place(scratch);
  run(inputs, alone_, scratch);
}

void PlanGuard::compare_with_alone(int node) const {
  const Node& now = graph_.nodes[node];
  for (size_t o = 0; o < alone_.size(); ++o) {
    const ValueId id = now.outputs[o];
    const TensorSpec& spec = graph_.values[id].spec;
    const auto* alone = alone_[o].as<std::byte>();
    if (checksum(spec.device, alone, spec.bytes()) == checksums_[id]) continue;
    const auto size = static_cast<ptrdiff_t>(size_of(spec.dtype));
    int64_t left = 0;
    for_host_chunks(spec.device, alone, spec.bytes(),
                    [&](const std::byte* piece, size_t, size_t count) {
                      for (const std::byte* at = piece; at < piece + count; at += size)
                        left += std::count(at, at + size, kAlone) == size;
                      return true;
                    });
    const std::string value = graph_.value_and_spec(id);
    if (left > 0)
      blame(node,
            fmt::format("left {} of the {} elements of its output {} unwritten", left,
                        spec.shape.elements(), value),
            "write each element");
    for (size_t k = 0; k < now.inputs.size() && k < 32; ++k)
      if (now.op->may_reuse(static_cast<int>(o)) >> k & 1 &&
          value_address_(now.inputs[k]) == value_address_(id))
        blame(node,
              fmt::format("computes different bits of its output {} in place of its input "
                          "{}, which may_reuse({}) allows",
                          value, k, o),
              "read all inputs of an element before writing it, or allow no reuse");
    blame(node,
          fmt::format("computes different bits of its output {} from the same inputs if its "
                      "scratch and its outputs contained other bytes before",
                      value),
          "write scratch before reading it, and keep no data from one run() to the next");
  }
}

// Returns true if an output overlaps the value, because the op declared that it writes there.
bool PlanGuard::overlaps_output(const Node& node, ValueId id) const {
  const std::byte *begin = value_address_(id), *end = begin + graph_.values[id].spec.bytes();
  return std::ranges::any_of(node.outputs, [&](ValueId output) {
    const std::byte* at = value_address_(output);
    return graph_.values[output].spec.device == graph_.values[id].spec.device && at < end &&
           begin < at + graph_.values[output].spec.bytes();
  });
}

}  // namespace tessera
