// The functions of cuDNN's backend that the engine calls: graphs of one convolution or one of its
// gradients. Each has three engines: one that uses workspace, one without, and one whose sums begin
// elsewhere in every run.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "calls.h"
#include "dnn_conv.h"
#include "dnn_node.h"
#include "failures.h"
#include "memory.h"
#include <cudnn_graph.h>
#include <dlfcn.h>

struct cudnnContext {
  cudaStream_t stream = nullptr;
};

namespace {

using namespace cuda_double;

constexpr double kOperationsPerSecond = 50e12;
constexpr double kWorkspaceSeconds = 25e-6;  // so the first proposal is not the fastest

thread_local std::string last_error;

cudnnStatus_t fault(cudnnStatus_t code, const std::string& text) {
  last_error = text;
  return code;
}

struct Handle {
  std::shared_ptr<DnnNode> node;
};

Handle& of(cudnnBackendDescriptor_t descriptor) { return *static_cast<Handle*>(descriptor); }

size_t bytes_of(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
      return 8;
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR:
      return 1;
    default:
      return 4;
  }
}

// Runs a plan. The pointers are ordered by tensor number.
cudnnStatus_t execute(cudnnHandle_t handle, const DnnNode& plan, const DnnNode& pack) {
  const std::vector<int64_t> ids = pack.integers(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const std::vector<void*> pointers = pack.values<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  const std::vector<void*> scratch = pack.values<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  const Conv conv = plan.plan.conv;
  void* data[3] = {};
  const ConvTensor* const tensors[3] = {&conv.x, &conv.w, &conv.y};
  for (int k = 0; k < 3; ++k) {
    for (size_t i = 0; i < ids.size() && i < pointers.size(); ++i)
      if (ids[i] == tensors[k]->id) data[k] = pointers[i];
    if (region_of(data[k]).place != Place::device)
      return fault(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "a tensor is not in device memory");
    if (reinterpret_cast<uintptr_t>(data[k]) % static_cast<uintptr_t>(tensors[k]->alignment) != 0)
      return fault(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER,
                   "a tensor is not aligned as promised");
  }
  const size_t bytes = plan.plan.workspace();
  char* const workspace = scratch.empty() ? nullptr : static_cast<char*>(scratch[0]);
  if (bytes > 0) {
    const Region region = region_of(workspace);
    if (region.place != Place::device || workspace + bytes > region.begin + region.bytes)
      return fault(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "the workspace is not in device memory");
  }
  static int64_t runs = 0;
  const int64_t first = ++runs;
  const bool in_any_order = plan.plan.engine == kEngineInAnyOrder;
  Operation operation;
  operation.name = "convolution";
  operation.engine = Engine::compute;
  operation.seconds = 2.0 * static_cast<double>(conv.y.elements()) *
                      static_cast<double>(conv.w.elements()) / static_cast<double>(conv.w.dims[0]) /
                      kOperationsPerSecond;
  if (bytes > 0) operation.seconds += kWorkspaceSeconds;
  operation.run = [=] {
    if (bytes > 0) std::memset(workspace, 0xff, bytes);
    if (in_any_order)
      run_conv_in_any_order(conv, data[0], data[1], data[2], first);
    else
      run_conv(conv, data[0], data[1], data[2]);
  };
  const cudaError_t code = call(
      "cudnnBackendExecute", [&](Machine&) { return issue(handle->stream, std::move(operation)); });
  return code == cudaSuccess ? CUDNN_STATUS_SUCCESS
                             : fault(CUDNN_STATUS_EXECUTION_FAILED_CUDART, "the runtime failed");
}

// Returns true if a part of the library can be loaded from this library's folder.
bool has_part(const std::string& name) {
  const std::string file = "libcudnn_" + name + ".so." + std::to_string(CUDNN_MAJOR);
  return dlopen(file.c_str(), RTLD_LAZY | RTLD_LOCAL) != nullptr;
}

}  // namespace

extern "C" {

// A patch that no library has, because plans are cached by version. Like the vendor's, ends the
// process if the first part cannot be loaded.
size_t cudnnGetVersion() {
  if (!has_part("graph")) {
    std::fputs("Invalid handle. Cannot load symbol cudnnGetVersion\n", stderr);
    std::abort();
  }
  return CUDNN_VERSION / 100 * 100 + 99;
}

const char* cudnnGetErrorString(cudnnStatus_t code) {
#define NAMED(name) \
  case name:        \
    return #name;
  switch (code) {
    NAMED(CUDNN_STATUS_SUCCESS)
    NAMED(CUDNN_STATUS_BAD_PARAM)
    NAMED(CUDNN_STATUS_BAD_PARAM_NULL_POINTER)
    NAMED(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER)
    NAMED(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED)
    NAMED(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH)
    NAMED(CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE)
    NAMED(CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED)
    NAMED(CUDNN_STATUS_NOT_SUPPORTED)
    NAMED(CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN)
    NAMED(CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE)
    NAMED(CUDNN_STATUS_EXECUTION_FAILED)
    NAMED(CUDNN_STATUS_EXECUTION_FAILED_CUDART)
    default:
      return "CUDNN_STATUS_INTERNAL_ERROR";
  }
#undef NAMED
}

void cudnnGetLastErrorString(char* text, size_t most) {
  std::snprintf(text, most, "%s", last_error.c_str());
  last_error.clear();
}

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  *handle = new cudnnContext;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* made) {
  auto node = std::make_shared<DnnNode>();
  node->type = type;
  *made = new Handle{std::move(node)};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  delete static_cast<Handle*>(descriptor);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void* values) {
  DnnNode& node = *of(descriptor).node;
  if (node.finalised) return fault(CUDNN_STATUS_NOT_INITIALIZED, "the descriptor is finalised");
  if (values == nullptr || count < 1) return fault(CUDNN_STATUS_BAD_PARAM, "no values");
  DnnAttribute& attribute = node.attributes[name];
  attribute = {type, {}, {}};
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {  // the descriptors may be destroyed afterwards
    const auto* const others = static_cast<const cudnnBackendDescriptor_t*>(values);
    for (int64_t i = 0; i < count; ++i) {
      attribute.nodes.push_back(of(others[i]).node);
      if (!attribute.nodes.back()->finalised)
        return fault(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "an attribute is not finalised");
    }
    return CUDNN_STATUS_SUCCESS;
  }
  const auto* const begin = static_cast<const char*>(values);
  attribute.bytes.assign(begin, begin + static_cast<size_t>(count) * bytes_of(type));
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t most,
                                       int64_t* count, void* values) {
  const DnnNode& node = *of(descriptor).node;
  if (!node.finalised) return fault(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "it is not finalised");
  const auto found = node.attributes.find(name);
  if (found == node.attributes.end() || found->second.type != type)
    return fault(CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE, "it has no such attribute");
  const DnnAttribute& attribute = found->second;
  const bool nodes = type == CUDNN_TYPE_BACKEND_DESCRIPTOR;
  const auto all = static_cast<int64_t>(nodes ? attribute.nodes.size()
                                              : attribute.bytes.size() / bytes_of(type));
  if (count != nullptr) *count = all;
  const auto given = static_cast<size_t>(std::min(all, most));
  if (values == nullptr) return CUDNN_STATUS_SUCCESS;
  if (nodes) {  // into the caller's descriptors
    auto* const others = static_cast<cudnnBackendDescriptor_t*>(values);
    for (size_t i = 0; i < given; ++i) of(others[i]).node = attribute.nodes[i];
  } else if (given > 0) {
    std::memcpy(values, attribute.bytes.data(), given * bytes_of(type));
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  std::lock_guard lock(Machine::get().mutex);
  DnnNode& node = *of(descriptor).node;
  if (node.type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR &&
      fails("dnn:plan", "cudnnBackendFinalize"))
    return fault(CUDNN_STATUS_NOT_SUPPORTED, "planted");
  std::string text;
  cudnnStatus_t code = finalise(node, &text);
  if (node.type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR && code == CUDNN_STATUS_SUCCESS) {
    if (!has_part("heuristic") || !has_part("engines_precompiled"))  // without an error
      node.attributes[CUDNN_ATTR_ENGINEHEUR_RESULTS].nodes.clear();
    else if (!has_part("engines_runtime_compiled"))
      code = CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED;
  }
  node.finalised = code == CUDNN_STATUS_SUCCESS;
  return node.finalised ? code : fault(code, text);
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack) {
  std::lock_guard lock(Machine::get().mutex);
  if (fails("dnn:run", "cudnnBackendExecute"))
    return fault(CUDNN_STATUS_EXECUTION_FAILED, "planted");
  const DnnNode &what = *of(plan).node, &with = *of(pack).node;
  if (!what.finalised || !with.finalised)
    return fault(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "plan or pack is not finalised");
  return execute(handle, what, with);
}
}
