// How long a step takes, to weigh computing something again against keeping it.
#pragma once

#include <cstdint>

namespace tessera {

struct Cost;   // engine/op.h
struct Graph;  // graph.h
struct Node;

// Immutable; may be asked by several threads at once.
class CostModel {
 public:
  virtual ~CostModel() = default;
  virtual int64_t nanoseconds(const Graph& graph, const Node& node) const = 0;
};

// From what it computes and moves: whichever of the two takes longer (a roofline), and something
// for each step. The numbers are no machine's: a plan must not depend on a stopwatch, and what is
// compared is one step with another.
class RooflineCosts final : public CostModel {
 public:
  int64_t nanoseconds(const Graph& graph, const Node& node) const override;
  int64_t nanoseconds(const Cost& cost) const;
  // Whether it takes as long as its bytes do: element-wise ops, norms, copies.
  static bool moves_bytes(const Cost& cost);

  static constexpr double kFlopsPerNs = 500, kBytesPerNs = 50;
  static constexpr int64_t kNsPerStep = 1000;
};

}  // namespace tessera
