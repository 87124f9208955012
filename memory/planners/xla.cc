// xla places as XLA does its temporary buffers (xla/service/heap_simulator, the global
// decreasing-size best-fit heap). It runs in two orders and takes the lower plan: the spatial order
// goes by size, the temporal one by lifetime, ties by the other. Each buffer goes into the smallest
// free chunk that holds it. Unlike in best fit, the space between the uppermost buffer of its time
// and the top of the heap so far is a chunk, too.
//
//   address
//     | 1111                  the top of the heap so far
//     | 1111   (B)
//     | 111122222222          a buffer of 1 on the right goes into chunk B, which is 1 high, not
//     | 1111                  into chunk A, which is 2 high; best fit would take A
//     | 1111   (A)
//     | 111133333333
//     +-----------------> time
#include <algorithm>
#include <utility>

#include "tessera/memory/planners/placement.h"
#include "tessera/runtime/integers.h"

namespace tessera::planning {
namespace {

class Heap {
 public:
  explicit Heap(const PreparedProblem& prepared) : prepared_(prepared) {
    plan_.offsets.assign(prepared.items.size(), 0);
    for (int index : prepared.fixed) put(index, prepared.items[index].fixed);
    for (size_t i = 0; i < prepared.items.size(); ++i)
      plan_.offsets[i] = std::max<int64_t>(prepared.items[i].fixed, 0);
  }

  Plan fill(const std::vector<int>& order) && {
    size_t i = 0;
    for (; i < order.size() && !prepared_.deadline.passed(); ++i)
      put(order[i], smallest_chunk(prepared_.items[order[i]]));
    stack(prepared_, order, i, plan_);
    return std::move(plan_);
  }

 private:
  struct Block {
    int64_t offset;
    int64_t end;
    int32_t lower;
    int32_t upper;
    int index;
  };

  void put(int index, int64_t offset) {
    const Item& item = prepared_.items[index];
    const int64_t end = offset + item.size;
    const auto after = std::upper_bound(
        blocks_.begin(), blocks_.end(), offset,
        [](int64_t address, const Block& block) { return address < block.offset; });
    blocks_.insert(after, {offset, end, item.lower, item.upper, index});
    plan_.offsets[index] = offset;
    plan_.bytes = std::max(plan_.bytes, end);
  }

  int64_t smallest_chunk(const Item& item) const {
    int64_t free = 0, chosen = -1, smallest = INT64_MAX;
    const auto consider = [&](int64_t end) {
      if (end - free < item.size) return;
      const int64_t begin = round_up(free, item.alignment);
      if (end - begin < item.size || end - begin >= smallest) return;
      smallest = end - begin;
      chosen = begin;
    };
    for (const Block& block : blocks_) {
      if (item.lower >= block.upper || block.lower >= item.upper) continue;
      if (!prepared_.meet(item, prepared_.items[block.index])) continue;
      consider(block.offset);
      free = std::max(free, block.end);
    }
    consider(plan_.bytes);
    return chosen >= 0 ? chosen : round_up(free, item.alignment);
  }

  const PreparedProblem& prepared_;
  std::vector<Block> blocks_;  // placed blocks, by offset
  Plan plan_;
};

}  // namespace

Plan xla(const PreparedProblem& prepared) {
  Plan by_size = Heap(prepared).fill(order_by(prepared, size_first));
  Plan by_time = Heap(prepared).fill(order_by(prepared, lifetime_first));
  return by_time.bytes < by_size.bytes ? by_time : by_size;
}

}  // namespace tessera::planning
