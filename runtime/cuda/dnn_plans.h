// Execution plans of cuDNN for a graph of operations, on an existing or described GPU. Takes
// cuDNN's proposals, drops those that break the rules of GpuSettings, and finalizes the first of
// the others.
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

// A finalized execution plan.
struct DnnPlan {
  DnnDescriptor plan;
  int64_t engine = -1;         // cuDNN's index
  size_t workspace_bytes = 0;  // aligned to 16 bytes
  uint32_t notes = 0;          // bit i: cudnnBackendNumericalNote_t i

  std::string json() const;  // for dnn_plan_of()
  CachedPlan text() const;
  std::string notes_text() const;  // "tensor_core winograd", or "-"
};

// Returns the allowed plans for a finalized operation graph, the fastest by cuDNN's heuristic
// first; at most `max_count`, none if cuDNN has none. Throws DeviceError if cuDNN cannot be used.
std::vector<DnnPlan> dnn_plans(const DnnDescriptor& graph, const DeviceProperties& properties,
                               const GpuSettings& settings, size_t max_count = 1);
// Returns the plans as texts, dropping duplicates, which cuDNN also proposes; empty if there is no
// graph.
CachedPlans dnn_plan_texts(const std::optional<DnnDescriptor>& graph,
                           const DeviceProperties& properties, const GpuSettings& settings,
                           size_t max_count);
// Returns the plan to use and replacements in case it does not run. Reads them from the cache if
// cuDNN accepts the first, else makes and stores them; empty if cuDNN has none. `what` describes
// `graph` in full. `graph` is called only if the cache has no plans; it returns nullopt if cuDNN
// has no such graph. Thread-safe.
CachedPlans kept_dnn_plans(std::string_view what,
                           const std::function<std::optional<DnnDescriptor>()>& graph,
                           const DeviceProperties& properties, const GpuSettings& settings,
                           PlanCache& cache = plan_cache());
// Returns the cache key of the plans: the GPU and its driver, the versions of cuDNN and cuBLAS, the
// rules and `what`.
std::string dnn_plan_key(std::string_view what, const DeviceProperties& properties,
                         const GpuSettings& settings);
// Makes a plan from json(). Throws DeviceError if this cuDNN or GPU does not accept it.
DnnPlan dnn_plan_of(const std::string& json, const DeviceProperties& properties);

// Returns cuDNN's description of an existing GPU for properties_of_description(). Unlike those in
// runtime/cuda/profiles/, it is accurate.
std::string dnn_description(int index);

}  // namespace tessera
