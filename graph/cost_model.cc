#include "tessera/graph/cost_model.h"

#include <algorithm>
#include <cmath>

#include "tessera/graph/graph.h"

namespace tessera {
namespace {

// Times in nanoseconds.
struct Roofline {
  explicit Roofline(const Cost& cost)
      : computing(static_cast<double>(cost.flops) / RooflineCosts::kFlopsPerNs),
        moving((static_cast<double>(cost.bytes_read) + static_cast<double>(cost.bytes_written)) /
               RooflineCosts::kBytesPerNs) {}
  double computing, moving;
};

}  // namespace

int64_t RooflineCosts::nanoseconds(const Graph& graph, const Node& node) const {
  Cost cost = node.op->cost(graph.input_specs(node));
  // An input that the node reads a second time is in the cache by then.
  for (auto input = node.inputs.begin(); input != node.inputs.end(); ++input)
    if (std::find(node.inputs.begin(), input, *input) != input)
      cost.bytes_read -=
          std::min(cost.bytes_read, static_cast<int64_t>(graph.values[*input].spec.bytes()));
  return nanoseconds(cost);
}

int64_t RooflineCosts::nanoseconds(const Cost& cost) const {
  const Roofline roofline(cost);
  return kNsPerStep + std::llround(std::max(roofline.computing, roofline.moving));
}

bool RooflineCosts::moves_bytes(const Cost& cost) {
  const Roofline roofline(cost);
  return roofline.computing <= roofline.moving;
}

}  // namespace tessera
