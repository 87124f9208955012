// How cuDNN would compute a graph of its operations: asks it for its ways on a GPU, present or only
// described, leaves out those that break the rules, and finalises the first of the others.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tessera/runtime/context.h"
#include "tessera/runtime/cuda/device_properties.h"
#include "tessera/runtime/cuda/dnn.h"
#include "tessera/runtime/cuda/plan_cache.h"

namespace tessera {

// A way that was taken: what runs it, its scratch, and what cuDNN notes about its numbers.
struct DnnPlan {
  DnnDescriptor plan;
  int64_t engine = -1;         // cuDNN's number
  size_t workspace_bytes = 0;  // at a multiple of 16
  uint32_t notes = 0;          // bit i: cudnnBackendNumericalNote_t i

  std::string json() const;  // from which dnn_plan_of() makes it again
  CachedPlan text() const;
  std::string notes_text() const;  // "tensor_core winograd", or "-"
};

// The ways for a finalised graph of operations that keep to the rules, the one that cuDNN takes for
// the fastest first; at most `most`, none where cuDNN has none. Throws DeviceError where it cannot
// be asked.
std::vector<DnnPlan> dnn_plans(const DnnDescriptor& graph, const DeviceProperties& properties,
                               const GpuSettings& settings, size_t max_count = 1);
// The same as texts; of equal ones, which cuDNN proposes too, one. None where there is no graph.
CachedPlans dnn_plan_texts(const std::optional<DnnDescriptor>& graph,
                           const DeviceProperties& properties, const GpuSettings& settings,
                           size_t max_count);
// The first of them: the one that is taken, and what may take its place should it not run.
// From the cache where they are kept there and cuDNN takes the first, else kept there; none where
// cuDNN has none. `what` says in words all that `graph` makes; it is called only where the plans
// are not to be had otherwise, and gives nothing where cuDNN has no such graph. Thread-safe.
CachedPlans kept_dnn_plans(std::string_view what,
                           const std::function<std::optional<DnnDescriptor>()>& graph,
                           const DeviceProperties& properties, const GpuSettings& settings,
                           PlanCache& cache = plan_cache());
// The key that they are kept under: the GPU and its driver, the versions of cuDNN and cuBLAS, the
// rules and `what`.
std::string dnn_plan_key(std::string_view what, const DeviceProperties& properties,
                         const GpuSettings& settings);
// A plan from what json() gave. Throws DeviceError where this cuDNN or GPU does not take it.
DnnPlan dnn_plan_of(const std::string& json, const DeviceProperties& properties);

// What cuDNN says of a GPU that is there, for properties_of_description(); it differs from the
// descriptions in runtime/cuda/profiles/ in being true.
std::string dnn_description(int index);

}  // namespace tessera
