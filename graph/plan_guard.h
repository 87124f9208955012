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
// and nobody may touch a value in between.
//
// Each node also runs on its own: on copies of its inputs, with outputs and scratch that share no
// byte with another value and hold 0x7f. Its outputs must have the same bits in both runs. That
// finds an op that reads an input after it has written the output which may_reuse() puts there,
// reads scratch before it is written, or leaves elements of an output as they were.
//
// What is found is the fault of a kernel, not of the plan, and the OpError says so. Bytes on a GPU
// are copied to the host to be looked at. Not thread-safe.
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

  // They tell where a value and a block stand while the program runs, under a plan for
  // with_red_zones().
  using ValueAddress = std::function<const std::byte*(ValueId)>;
  using BlockAddress = std::function<std::byte*(int)>;
  PlanGuard(const Graph& graph, const Lifetimes& lifetimes, ValueAddress value, BlockAddress block);

  struct Bytes {
    Device device;
    std::byte* at;
    size_t bytes;
    ValueId value;  // the argument or the result that a red zone stands behind
  };
  // Before the first node of a run: poisons the arenas, and red zones outside of them.
  void start(const std::vector<Bytes>& arenas, std::vector<Bytes> zones);
  // Around node `node`, if it has a kernel; after() also where it has none. Throw OpError that
  // names the node, its op and the value.
  void before(int node);
  void after(int node);

  // Bytes that run_alone() takes on a device for the largest node.
  static size_t alone_bytes(const Graph& graph, Device device,
                            const std::vector<int64_t>& scratch_bytes);
  using Run = std::function<void(Buffers in, Buffers out, Buffer scratch)>;
  // Between before() and the run that after() checks: calls `run` with buffers at `at`, which are
  // like those of that run.
  void run_alone(int node, Buffers in, Buffers out, Buffer scratch, std::byte* at, const Run& run);

 private:
  int64_t bytes_of(int block) const;
  void poison(Device device, std::byte* at, size_t bytes) const;
  bool poisoned(Device device, const std::byte* at, size_t bytes) const;
  std::string block_text(int block) const;
  std::string ownership_text(const Node& node, ValueId value, bool scratch) const;
  uint64_t checksum(Device device, const std::byte* at, size_t bytes) const;
  uint64_t checksum(ValueId id) const;
  void compare_with_alone(int node) const;
  bool overlaps_output(const Node& node, ValueId id) const;
  void check_zones(int node) const;
  void check_live(int node) const;
  void begin_blocks(size_t node);
  [[noreturn]] void blame(int node, const std::string& deed) const;

  const Graph& graph_;
  const Lifetimes& lifetimes_;
  const ValueAddress value_address_;
  const BlockAddress block_address_;
  std::vector<std::vector<int>> begin_,
      end_;  // of each node: blocks that it is the first, the last of
  std::vector<int> live_;
  std::vector<uint64_t> checksums_;  // of each value that has been made
  std::vector<int> seen_;            // the node after which that was last true; -1: at the start
  std::vector<Bytes> zones_;
  std::vector<Buffer> alone_;  // the outputs of the node when it ran on its own
};

}  // namespace tessera
