#include "tessera/graph/lifetimes.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "tessera/runtime/context.h"

namespace tessera {
namespace {

class Builder {
 public:
  Builder(const Graph& graph, const std::vector<int64_t>& scratch_bytes, bool reuse)
      : graph_(graph), scratch_bytes_(scratch_bytes), reuse_(reuse) {
    size_t values = graph.values.size();
    result_.block_of.assign(values, -1);
    result_.offset_in.assign(values, 0);
    result_.root = graph.roots();
    result_.scratch.assign(graph.nodes.size(), -1);
    find_last_reads();
  }

  Lifetimes build() {
    for (size_t s = 0; s < graph_.nodes.size(); ++s) add_node(static_cast<int>(s));
    return std::move(result_);
  }

 private:
  // Finds for each root the last node that reads it or a view of it.
  void find_last_reads() {
    last_read_.assign(graph_.values.size(), -1);
    handed_out_.assign(graph_.values.size(), false);
    for (size_t s = 0; s < graph_.nodes.size(); ++s)
      for (ValueId id : graph_.nodes[s].inputs) last_read_[result_.root[id]] = static_cast<int>(s);
    for (ValueId id : graph_.outputs) {
      last_read_[result_.root[id]] = static_cast<int>(graph_.nodes.size());
      handed_out_[result_.root[id]] = true;
    }
  }

  void add_node(int s) {
    const Node& node = graph_.nodes[s];
    for (size_t o = 0; o < node.outputs.size(); ++o) add_output(s, static_cast<int>(o));
    if (scratch_bytes_[s] > 0) {
      result_.scratch[s] = static_cast<int>(result_.blocks.size());
      result_.blocks.push_back({s, s + 1, scratch_bytes_[s], -1, s, false, node.device});
    }
  }

  void add_output(int s, int o) {
    const Node& node = graph_.nodes[s];
    ValueId id = node.outputs[o];
    int view = node.op->view_of(o);
    if (view >= 0) {
      ValueId whole = node.inputs[view];
      result_.block_of[id] = result_.block_of[whole];
      result_.offset_in[id] =
          result_.offset_in[whole] + node.op->view_offset(graph_.input_specs(node));
      return;
    }
    if (graph_.values[id].role != Role::intermediate)
      return;  // the next version of a persistent value
    int64_t bytes = static_cast<int64_t>(graph_.values[id].spec.bytes());
    int64_t upper = std::max(last_read_[id], s) + 1;
    int block = reuse_ && !handed_out_[id] ? reusable(s, o, bytes) : -1;
    if (block >= 0) {
      ++result_.reused;
      taken_.push_back(block);
      result_.blocks[block].upper = upper;
    } else {
      block = static_cast<int>(result_.blocks.size());
      result_.blocks.push_back(
          {s, upper, bytes, id, -1, handed_out_[id], graph_.values[id].spec.device});
    }
    result_.block_of[id] = block;
  }

  // Returns a block of the same size that node s uses for the last time and that the op may
  // overwrite.
  int reusable(int s, int o, int64_t bytes) {
    const Node& node = graph_.nodes[s];
    if (o == 0) taken_.clear();
    uint32_t allowed = node.op->may_reuse(o);
    for (size_t k = 0; k < node.inputs.size() && k < 32; ++k) {
      if ((allowed >> k & 1) == 0) continue;
      ValueId id = node.inputs[k];
      int block = result_.block_of[id];
      if (block < 0 || result_.blocks[block].slot || result_.blocks[block].upper != s + 1) continue;
      if (std::ranges::find(taken_, block) != taken_.end()) continue;
      if (!same_width(graph_.values[id], graph_.values[node.outputs[o]])) continue;
      if (static_cast<int64_t>(graph_.values[id].spec.bytes()) != bytes ||
          result_.blocks[block].bytes != bytes || result_.blocks[block].device != node.device)
        continue;
      // Two different values in one block (a view and its base) must not be read while one is
      // written.
      if (std::ranges::none_of(node.inputs, [&](ValueId other) {
            return other != id && result_.block_of[other] == block;
          }))
        return block;
    }
    return -1;
  }

  const Graph& graph_;
  const std::vector<int64_t>& scratch_bytes_;
  bool reuse_;
  Lifetimes result_;
  std::vector<int> last_read_;
  std::vector<bool> handed_out_;
  std::vector<int> taken_;
};

constexpr int kScratch = -2;

// The last writer of each byte of an arena, as a map of disjoint ranges.
class Ownership {
 public:
  void write(int64_t first, int64_t last, int owner) {
    if (first >= last) return;
    split(first);
    split(last);
    ranges_.erase(ranges_.lower_bound(first), ranges_.lower_bound(last));
    ranges_[first] = {last, owner};
  }

  // Returns the first other owner in [first, last), or `owner` if it owns all bytes.
  int other(int64_t first, int64_t last, int owner) const {
    auto it = ranges_.upper_bound(first);
    if (it != ranges_.begin()) --it;
    for (int64_t at = first; at < last; ++it) {
      if (it == ranges_.end() || it->first > at || it->second.last <= at) return -1;
      if (it->second.owner != owner) return it->second.owner;
      at = it->second.last;
    }
    return owner;
  }

 private:
  struct Range {
    int64_t last;
    int owner;
  };
  void split(int64_t at) {
    auto it = ranges_.lower_bound(at);
    if (it == ranges_.begin()) return;
    --it;
    if (it->first < at && it->second.last > at) {
      ranges_[at] = it->second;
      it->second.last = at;
    }
  }
  std::map<int64_t, Range> ranges_;
};

}  // namespace

Problem Lifetimes::problem(std::vector<int>* of_interval, Device device) const {
  const size_t alignment = alignment_of(device);
  Problem problem;
  for (size_t b = 0; b < blocks.size(); ++b) {
    const Block& block = blocks[b];
    if (block.slot || block.bytes == 0 || block.device != device) continue;
    const auto bytes = static_cast<size_t>(block.bytes);
    problem.buffers.push_back({.lower = block.lower,
                               .upper = block.upper,
                               .size = static_cast<int64_t>(round_to_alignment(bytes, alignment)),
                               .alignment = static_cast<int64_t>(alignment),
                               .id = std::to_string(b)});
    if (of_interval != nullptr) of_interval->push_back(static_cast<int>(b));
  }
  return problem;
}

std::string Lifetimes::text(const Graph& graph) const {
  std::string lines;
  for (ValueId id = 0; id < static_cast<ValueId>(root.size()); ++id) {
    if (root[id] != id || block_of[id] < 0) continue;
    const ValueId first = blocks[block_of[id]].value;
    if (first != id)
      lines +=
          fmt::format("{} reuses the block of {}\n", graph.value_text(id), graph.value_text(first));
  }
  return lines;
}

Lifetimes lifetimes(const Graph& graph, const std::vector<int64_t>& scratch_bytes, bool reuse) {
  return Builder(graph, scratch_bytes, reuse).build();
}

int64_t peak_bytes(const Graph& graph, const std::vector<int64_t>& scratch_bytes) {
  int64_t peak = 0;
  const Lifetimes times = lifetimes(graph, scratch_bytes);
  for (const Device device : graph.devices()) peak += lower_bound(times.problem(nullptr, device));
  return peak;
}

std::string replay(const Graph& graph, const Lifetimes& lifetimes,
                   const std::vector<int64_t>& offsets) {
  std::map<std::pair<bool, int>, Ownership> arenas;  // for each device
  auto arena_of = [&](int block) -> Ownership& {
    const Device device = lifetimes.blocks[block].device;
    return arenas[{device.is_cpu(), device.index}];
  };
  auto bytes_of = [&](ValueId root) -> Ownership& { return arena_of(lifetimes.block_of[root]); };
  auto range = [&](ValueId root) {
    int64_t first = offsets[lifetimes.block_of[root]];
    return std::pair(first, first + static_cast<int64_t>(graph.values[root].spec.bytes()));
  };
  auto in_arena = [&](ValueId root) {
    int block = lifetimes.block_of[root];
    return block >= 0 && !lifetimes.blocks[block].slot;
  };
  for (size_t s = 0; s < graph.nodes.size(); ++s) {
    const Node& node = graph.nodes[s];
    // Scratch is written while inputs are read and outputs are written.
    int scratch = lifetimes.scratch[s];
    if (scratch >= 0) {
      int64_t first = offsets[scratch];
      arena_of(scratch).write(first, first + lifetimes.blocks[scratch].bytes, kScratch);
    }
    auto fault = [&](ValueId id, int owner, const char* when) {
      return fmt::format("{} {} {} ({}), but its memory belongs to {}", graph.node_text(s), when,
                         graph.value_text(id), graph.values[id].spec.text(),
                         owner == kScratch ? "scratch"
                         : owner < 0       ? "no value or another block"
                                           : graph.value_text(owner));
    };
    for (ValueId id : node.inputs) {
      ValueId root = lifetimes.root[id];
      if (!in_arena(root)) continue;
      auto [first, last] = range(root);
      int owner = bytes_of(root).other(first, last, root);
      if (owner != root) return fault(id, owner, "reads");
    }
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      ValueId id = node.outputs[o];
      if (node.op->view_of(static_cast<int>(o)) >= 0 || !in_arena(id)) continue;
      auto [first, last] = range(id);
      // An output may overlap an input only if the op allows it, and only as a whole: an input that
      // is broadcast is read again for later elements.
      for (size_t k = 0; k < node.inputs.size(); ++k) {
        ValueId root = lifetimes.root[node.inputs[k]];
        if (!in_arena(root) || &bytes_of(root) != &bytes_of(id)) continue;
        auto [in_first, in_last] = range(root);
        const bool reuses = k < 32 && node.op->may_reuse(static_cast<int>(o)) >> k & 1 &&
                            in_first == first && in_last == last;
        if (!reuses && first < in_last && in_first < last)
          return fault(node.inputs[k], id, "still reads");
      }
      bytes_of(id).write(first, last, id);
    }
    for (ValueId id : node.outputs) {
      ValueId root = lifetimes.root[id];
      if (!in_arena(root)) continue;
      auto [first, last] = range(root);
      int owner = bytes_of(root).other(first, last, root);
      if (owner != root) return fault(id, owner, "makes");
      if (scratch >= 0 && &arena_of(scratch) == &bytes_of(root) && offsets[scratch] < last &&
          first < offsets[scratch] + lifetimes.blocks[scratch].bytes)
        return fault(id, kScratch, "makes");
    }
  }
  return "";
}

}  // namespace tessera
