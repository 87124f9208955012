// CostModel: estimates the time of a node, to weigh recomputing a value against keeping it.
#pragma once

#include <cstdint>

namespace tessera {

struct Cost;   // engine/op.h
struct Graph;  // graph.h
struct Node;

// Immutable after construction.
class CostModel {
 public:
  virtual ~CostModel() = default;
  virtual int64_t nanoseconds(const Graph& graph, const Node& node) const = 0;
};

// A roofline: the larger of the times for arithmetic and for moving bytes, and a constant per node.
// The rates are those of no real machine, because a plan must not depend on measured times and
// costs are only compared with each other.
class RooflineCosts final : public CostModel {
 public:
  int64_t nanoseconds(const Graph& graph, const Node& node) const override;
  int64_t nanoseconds(const Cost& cost) const;
  // Returns true if moving bytes dominates: element-wise ops, norms, copies.
  static bool moves_bytes(const Cost& cost);

  static constexpr double kFlopsPerNs = 500, kBytesPerNs = 50;
  static constexpr int64_t kNsPerStep = 1000;
};

}  // namespace tessera
