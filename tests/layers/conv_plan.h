// conv_plan: cuDNN's plan for a convolution, without a cache.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "tessera/layers/conv2d/cuda/plans.h"

namespace tessera {

// Returns the plan to use under the rules, or nullopt.
inline std::optional<DnnPlan> conv_plan(const ConvRequest& request,
                                        const DeviceProperties& properties,
                                        const GpuSettings& settings) {
  const std::optional<DnnDescriptor> graph = conv_graph(request);
  if (!graph) return std::nullopt;
  std::vector<DnnPlan> plans = dnn_plans(*graph, properties, conv_settings(request, settings));
  if (plans.empty()) return std::nullopt;
  return std::move(plans.front());
}

}  // namespace tessera
