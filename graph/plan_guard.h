// PlanGuard: checks while a program runs that kernels access only their own bytes, which no check
// of a plan can show.
//
// Every free byte of the arena is poisoned with 0xff, which as a float is a NaN:
//
//   - a value read before it was written, or after its block was freed, shows as NaN;
//   - every block, argument and result is followed by a red zone of kRedZone bytes that must not be
//     written and is checked after each node;
//   - when a block becomes live its bytes must still hold the poison, else a kernel wrote to memory
//     it no longer owned.
//
// A checksum of every value is computed when it is made and compared before and after each node
// that reads it. An op may overwrite an input only if it declares that (may_reuse, updates).
//
// Each node also runs alone: on copies of its inputs, with separate outputs and scratch that hold
// 0x7f. Its outputs must have the same bits in both runs. This detects an op that reads an input
// after it has overwritten it in place (may_reuse), reads uninitialized scratch, or leaves elements
// of an output unwritten.
//
// Each OpError reports a bug of a kernel, not of the plan. Bytes on a GPU are copied to the host to
// be checked. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tessera/graph/graph.h"
#include "tessera/graph/lifetimes.h"
#include "tessera/runtime/context.h"

namespace tessera {

class PlanGuard {
 public:
  static constexpr int64_t kRedZone = 64;  // bytes; equal to the alignment of blocks

  // Returns the problem with each buffer longer by a red zone.
  static Problem with_red_zones(Problem problem);

  // Return the current address of a value and of a block, under a plan for with_red_zones().
  using ValueAddress = std::function<const std::byte*(ValueId)>;
  using BlockAddress = std::function<std::byte*(int)>;
  PlanGuard(const Graph& graph, const Lifetimes& lifetimes, ValueAddress value, BlockAddress block);

  struct Bytes {
    Device device;
    std::byte* at;
    size_t bytes;
    ValueId value;  // the argument or result before a red zone
  };
  // Poisons the arenas, and the red zones outside of them. Call it before the first node of a run.
  void start(const std::vector<Bytes>& arenas, std::vector<Bytes> zones);
  // Check the node. Call before() only if the node has a kernel, after() for every node. Throw
  // OpError that names the node, its op and the value.
  void before(int node);
  void after(int node);

  // Returns the bytes that run_alone() needs on a device for the largest node.
  static size_t alone_bytes(const Graph& graph, Device device,
                            const std::vector<int64_t>& scratch_bytes);
  using Run = std::function<void(Buffers in, Buffers out, Buffer scratch)>;
  // Calls `run` with buffers at `at` that are like those of the normal run. Call it between
  // before() and that run.
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
  void begin_blocks(int node);
  [[noreturn]] void blame(int node, const std::string& deed,
                          const char* remedy =
                              "its kernel may write the elements of its outputs "
                              "and its scratch, and nothing else") const;

  const Graph& graph_;
  const Lifetimes& lifetimes_;
  const ValueAddress value_address_;
  const BlockAddress block_address_;
  std::vector<std::vector<int>> begin_, end_;  // for each node: the blocks that begin, end there
  std::vector<int> live_;
  std::vector<uint64_t> checksums_;  // for each value that exists
  std::vector<int> seen_;            // the last node that used the value; -1: none
  std::vector<Bytes> zones_;
  std::vector<Buffer> alone_;  // the outputs of run_alone()
};

// Passes the bytes of a block on any device to the host: waits for all work issued on the device,
// then calls f(bytes, offset, count) for each chunk in order until f returns false. Offsets are
// multiples of 4096. On the CPU there is one chunk and no copy. For checks, not for speed.
template <class F>
void for_host_chunks(Device device, const void* data, size_t bytes, F&& f) {
  const auto* at = static_cast<const std::byte*>(data);
  if (device.is_cpu()) {
    f(at, size_t{0}, bytes);
    return;
  }
  constexpr size_t kPiece = size_t{1} << 20;
  std::vector<std::byte> piece(std::min(kPiece, bytes));
  for (size_t offset = 0; offset < bytes; offset += kPiece) {
    const size_t count = std::min(kPiece, bytes - offset);
    context(device).copy_to_host(piece.data(), at + offset, count);
    if (!f(static_cast<const std::byte*>(piece.data()), offset, count)) return;
  }
}

}  // namespace tessera
