// Watches a program's plan while it runs: what no plan on paper can show is whether kernels keep to
// the bytes that they were given.
//
// Every byte of the arena that holds nothing is poisoned with 0xff, which as a float is a NaN:
//
//   - a value read before it was written, or after its block was given up, shows as NaN;
//   - behind every block stand kRedZone bytes that nobody may touch; they are looked at after each
//     node in which the block is live;
//   - when a block becomes live its bytes must still hold the poison; otherwise a kernel wrote to
//     memory it no longer owns.
//
// For arenas that the host can read. Not thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tessera/graph/graph.h"
#include "tessera/graph/lifetimes.h"

namespace tessera {

class PlanGuard {
 public:
  static constexpr int64_t kRedZone =
      64;  // bytes; a block's alignment, so that blocks stay aligned

  // Each buffer longer by a red zone: the problem to plan for.
  static Problem with_red_zones(Problem problem);

  // `offsets[b]` is the place of block b in the arena, under a plan for with_red_zones().
  PlanGuard(const Graph& graph, const Lifetimes& lifetimes, const std::vector<int64_t>& offsets);

  // Before the first node of a run: poisons `bytes` bytes from `arena` on.
  void start(std::byte* arena, size_t bytes);
  // After node `node` has run. Throws InternalError that names the node, its op and the value.
  void after(int node);

 private:
  int64_t bytes_of(int block) const;
  bool poisoned(int block, int64_t first, int64_t bytes) const;
  std::string block_text(int block) const;

  const Graph& graph_;
  const Lifetimes& lifetimes_;
  const std::vector<int64_t>& offsets_;
  std::vector<std::vector<int>> begin_,
      end_;  // of each node: blocks that it is the first, the last of
  std::vector<int> live_;
  std::byte* arena_ = nullptr;
};

}  // namespace tessera
