// PartTree: the fixed binary tree over the parts of a batch, in which all sums over parts are
// added. It depends on the number of parts alone; so it does not matter which process computes
// which part.
#pragma once

#include <cstdint>
#include <vector>

namespace tessera {

// The sum of parts [index << level, (index + 1) << level), as far as they exist.
struct PartNode {
  int level = 0;
  int64_t index = 0;
  bool operator==(const PartNode&) const = default;
};

class PartTree {
 public:
  explicit PartTree(int64_t parts) : parts_(parts) {}

  // Puts the next node on top of a stack of sums, in the order of parts, and returns the number of
  // additions that it completes: so many sums at the top of the stack, the last first, are added to
  // it, and it takes their place. For single parts this is a binary counter.
  int push(std::vector<PartNode>& stack, PartNode node) const {
    int additions = 0;
    for (; (int64_t{1} << node.level) < parts_; node = {node.level + 1, node.index / 2}) {
      if (node.index % 2 == 0) {
        if ((node.index + 1) << node.level < parts_) break;  // its sibling comes later
      } else {
        if (stack.empty() || stack.back() != PartNode{node.level, node.index - 1}) break;
        stack.pop_back();
        ++additions;
      }
    }
    stack.push_back(node);
    return additions;
  }

  // Returns the sums that are left of parts [first, last), in order: what a process with these
  // parts can add by itself.
  std::vector<PartNode> cover(int64_t first, int64_t last) const {
    std::vector<PartNode> nodes;
    for (int64_t k = first; k < last; ++k) push(nodes, {0, k});
    return nodes;
  }

 private:
  int64_t parts_;
};

// Parts, images or batches [first, last).
struct PartRange {
  int64_t first = 0, last = 1;
  int64_t count() const { return last - first; }
};
// Returns the parts of a process.
inline PartRange parts_of_rank(int64_t parts, int rank, int size) {
  return {parts * rank / size, parts * (rank + 1) / size};
}
// Returns the images of some parts of a batch.
inline PartRange images_of_parts(int64_t images, int64_t parts, PartRange some) {
  return {images * some.first / parts, images * some.last / parts};
}

}  // namespace tessera
