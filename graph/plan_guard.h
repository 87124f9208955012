// Watches a program's plan while it runs: what no plan on paper can show is whether kernels keep to
// the bytes that they were given.
//
// Every byte of the arena that holds nothing is poisoned with 0xff, which as a float is a NaN:
//
//   - a value read before it was written, or after its block was given up, shows as NaN;
//   - behind every block, and every argument and result, stand kRedZone bytes that nobody may
//     touch; they are looked at after each node;
//   - when a block becomes live its bytes must still hold the poison; otherwise a kernel wrote to
//     memory it no longer owns.
//
// Besides, a checksum of every value is taken when it is made and compared before and after each
// node that reads it: an op may overwrite an input only where it declares it (may_reuse, updates),
// and nobody may touch a value in between. What is found is the fault of a kernel, not of the plan,
// and the OpError says so. For arenas that the host can read. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
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

  // `offsets[b]` is the place of block b in the arena, under a plan for with_red_zones(); `address`
  // tells where a value stands while the program runs.
  using Address = std::function<const void*(ValueId)>;
  PlanGuard(const Graph& graph, const Lifetimes& lifetimes, const std::vector<int64_t>& offsets,
            Address address);

  // A red zone outside of the arena, behind an argument or a result.
  struct Zone {
    std::byte* at;
    ValueId value;
  };
  // Before the first node of a run: poisons `bytes` bytes from `arena` on, and the zones.
  void start(std::byte* arena, size_t bytes, std::vector<Zone> zones);
  // Around node `node`, if it has a kernel; after() also where it has none. Throw OpError that
  // names the node, its op and the value.
  void before(int node);
  void after(int node);

 private:
  int64_t bytes_of(int block) const;
  bool poisoned(const std::byte* at, int64_t bytes) const;
  std::string block_text(int block) const;
  std::string ownership_text(const Node& node, ValueId value, bool scratch) const;
  uint64_t checksum(ValueId id) const;
  bool overlaps_output(const Node& node, ValueId id) const;
  void check_zones(int node) const;
  [[noreturn]] void blame(int node, const std::string& deed) const;

  const Graph& graph_;
  const Lifetimes& lifetimes_;
  const std::vector<int64_t>& offsets_;
  Address address_;
  std::vector<std::vector<int>> begin_,
      end_;  // of each node: blocks that it is the first, the last of
  std::vector<int> live_;
  std::vector<uint64_t> checksums_;  // of each value that has been made
  std::vector<int> seen_;            // the node after which that was last true; -1: at the start
  std::vector<Zone> zones_;
  std::byte* arena_ = nullptr;
};

}  // namespace tessera
