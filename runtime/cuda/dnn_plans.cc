#include "tessera/runtime/cuda/dnn_plans.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/runtime/cuda/blas.h"
#include "tessera/runtime/error.h"

namespace tessera {
namespace {

constexpr size_t kKeptPlans = 4;

constexpr uint32_t bit(cudnnBackendNumericalNote_t note) { return uint32_t{1} << note; }

DnnDescriptor device_of(const DeviceProperties& properties) {
  DnnDescriptor device(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  if (properties.described()) {
    device.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
               static_cast<int64_t>(properties.description.size()), properties.description.data());
  } else {
    const int32_t index = properties.index;
    device.set(CUDNN_ATTR_DEVICEPROP_DEVICE_ID, CUDNN_TYPE_INT32, 1, &index);
  }
  device.finalize();
  return device;
}

// Engines less accurate for float32 than the CPU kernels are excluded under all settings: inputs or
// sums in fewer bits, and the transform with the largest errors.
bool allowed(uint32_t notes, const GpuSettings& settings) {
  uint32_t refused = bit(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS) |
                     bit(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION) |
                     bit(CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13);
  if (settings.deterministic) refused |= bit(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
  if (!settings.tf32) refused |= bit(CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
  return (notes & refused) == 0;
}

// Returns cuDNN's proposals, the fastest first.
std::vector<DnnDescriptor> proposals(const DnnDescriptor& graph, const DnnDescriptor& device,
                                     cudnnBackendHeurMode_t mode) {
  DnnDescriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph)
      .set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode)
      .set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, device);
  std::vector<DnnDescriptor> configs;
  if (!heuristic.try_finalize()) return configs;
  const int64_t count =
      heuristic.get(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, nullptr);
  std::vector<cudnnBackendDescriptor_t> handles;
  for (int64_t i = 0; i < count; ++i)
    handles.push_back(configs.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).handle());
  const int64_t got = heuristic.get(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                    count, handles.data());
  while (static_cast<int64_t>(configs.size()) > got) configs.pop_back();
  return configs;
}

struct Engine {
  int64_t index = -1;
  uint32_t notes = 0;
};

Engine engine_of(const DnnDescriptor& config) {
  DnnDescriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t handle = engine.handle();
  config.get(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &handle);
  Engine found{engine.get_integer(CUDNN_ATTR_ENGINE_GLOBAL_INDEX), 0};
  cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
  const int64_t count = engine.get(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                   CUDNN_NUMERICAL_NOTE_TYPE_COUNT, notes);
  for (int64_t i = 0; i < count && i < CUDNN_NUMERICAL_NOTE_TYPE_COUNT; ++i)
    found.notes |= bit(notes[i]);
  return found;
}

// Returns cuBLAS's version, as some engines of cuDNN use cuBLAS; 0 if it is not installed.
size_t blas_version() {
  try {
    return blas().version;
  } catch (const DeviceError&) {
    return 0;
  }
}

size_t workspace_of(const DnnDescriptor& plan) {
  return static_cast<size_t>(plan.get_integer(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE));
}

// Returns true if cuDNN here makes the cached plan, with the recorded workspace.
bool takes(const CachedPlan& kept, const DeviceProperties& properties,
           const GpuSettings& settings) {
  try {
    const DnnPlan plan = dnn_plan_of(kept.text, properties);
    return static_cast<int64_t>(plan.workspace_bytes) == kept.workspace_bytes &&
           plan.workspace_bytes <= settings.workspace;
  } catch (const OutOfMemory&) {
    throw;
  } catch (const DeviceError&) {
    return false;
  }
}

}  // namespace

std::vector<DnnPlan> dnn_plans(const DnnDescriptor& graph, const DeviceProperties& properties,
                               const GpuSettings& settings, size_t max_count) {
  const DnnDescriptor device = device_of(properties);
  std::vector<DnnPlan> plans;
  int proposed = 0;
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK})
    for (const DnnDescriptor& config : proposals(graph, device, mode)) {
      ++proposed;
      if (plans.size() == max_count) return plans;
      const Engine engine = engine_of(config);
      if (!allowed(engine.notes, settings)) continue;
      DnnDescriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
      plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config)
          .set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, device);
      if (!plan.try_finalize()) continue;
      const size_t workspace = workspace_of(plan);
      if (workspace > settings.workspace) continue;
      plans.push_back({std::move(plan), engine.index, workspace, engine.notes});
    }
  if (proposed == 0) require_dnn_parts();  // a part that cannot be loaded proposes nothing
  return plans;
}

CachedPlans dnn_plan_texts(const std::optional<DnnDescriptor>& graph,
                           const DeviceProperties& properties, const GpuSettings& settings,
                           size_t max_count) {
  CachedPlans plans;
  if (!graph) return plans;
  for (const DnnPlan& plan : dnn_plans(*graph, properties, settings, max_count))
    if (CachedPlan text = plan.text(); std::find(plans.begin(), plans.end(), text) == plans.end())
      plans.push_back(std::move(text));
  return plans;
}

std::string dnn_plan_key(std::string_view what, const DeviceProperties& properties,
                         const GpuSettings& settings) {
  return fmt::format(
      "{}\nworkspace {} deterministic {} tf32 {}\ncuDNN {} cuBLAS {}\n{}", what, settings.workspace,
      settings.deterministic, settings.tf32, dnn().version, blas_version(),
      properties.described() ? properties.description : dnn_description(properties.index));
}

CachedPlans kept_dnn_plans(std::string_view what,
                           const std::function<std::optional<DnnDescriptor>()>& graph,
                           const DeviceProperties& properties, const GpuSettings& settings,
                           PlanCache& cache) {
  const std::string key = dnn_plan_key(what, properties, settings);
  if (std::optional<CachedPlans> kept = cache.find(key)) {
    if (takes(kept->front(), properties, settings)) return *kept;
    cache.refuse(key, "cuDNN does not accept it");
  }
  const CachedPlans plans = dnn_plan_texts(graph(), properties, settings, kKeptPlans);
  if (!plans.empty()) cache.keep(key, plans);
  return plans;
}

DnnPlan dnn_plan_of(const std::string& json, const DeviceProperties& properties) {
  DnnDescriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, device_of(properties))
      .set(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
           static_cast<int64_t>(json.size()), json.data())
      .finalize();
  const size_t workspace = workspace_of(plan);
  return {std::move(plan), -1, workspace, 0};
}

CachedPlan DnnPlan::text() const {
  return {json(), engine, static_cast<int64_t>(workspace_bytes), notes};
}

std::string DnnPlan::json() const {
  return plan.get_text(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION);
}

std::string DnnPlan::notes_text() const {
  constexpr const char* kNames[] = {"tensor_core",
                                    "down_convert_inputs",
                                    "reduced_precision_reduction",
                                    "fft",
                                    "nondeterministic",
                                    "winograd",
                                    "winograd_4x4",
                                    "winograd_6x6",
                                    "winograd_13x13",
                                    "strict_nan_prop"};
  static_assert(std::size(kNames) == CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  std::vector<const char*> noted;
  for (size_t i = 0; i < std::size(kNames); ++i)
    if ((notes >> i & 1) != 0) noted.push_back(kNames[i]);
  return noted.empty() ? "-" : fmt::format("{}", fmt::join(noted, " "));
}

std::string dnn_description(int index) {
  DeviceProperties properties;
  properties.index = index;
  return device_of(properties).get_text(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION);
}

}  // namespace tessera
