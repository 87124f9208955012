#include "tessera/graph/replay.h"

#include <map>
#include <utility>

#include <fmt/format.h>

namespace tessera {
namespace {

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
