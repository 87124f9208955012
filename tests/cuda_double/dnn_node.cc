#include "dnn_node.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "memory.h"

namespace cuda_double {
namespace {

void set_integer(DnnNode& node, cudnnBackendAttributeName_t name, int64_t value) {
  DnnAttribute& to = node.attributes[name];
  to = {CUDNN_TYPE_INT64, std::vector<char>(sizeof value), {}};
  std::memcpy(to.bytes.data(), &value, sizeof value);
}

void set_text(DnnNode& node, cudnnBackendAttributeName_t name, const std::string& text) {
  node.attributes[name] = {
      CUDNN_TYPE_CHAR, std::vector<char>(text.c_str(), text.c_str() + text.size() + 1), {}};
}

std::string text_of(const DnnNode& node, cudnnBackendAttributeName_t name) {
  const std::vector<char> bytes = node.values<char>(name);
  return std::string(bytes.begin(), bytes.end());
}

bool copy_to(int64_t* to, const std::vector<int64_t>& from, size_t count) {
  if (from.size() != count) return false;
  std::copy(from.begin(), from.end(), to);
  return true;
}

bool read_tensor(const DnnNode* node, ConvTensor* to) {
  if (node == nullptr || node->type != CUDNN_BACKEND_TENSOR_DESCRIPTOR) return false;
  const std::vector<int32_t> type = node->values<int32_t>(CUDNN_ATTR_TENSOR_DATA_TYPE);
  if (type.size() != 1) return false;
  to->type = type[0];
  return copy_to(to->dims, node->integers(CUDNN_ATTR_TENSOR_DIMENSIONS), 4) &&
         copy_to(to->strides, node->integers(CUDNN_ATTR_TENSOR_STRIDES), 4) &&
         copy_to(&to->id, node->integers(CUDNN_ATTR_TENSOR_UNIQUE_ID), 1) &&
         copy_to(&to->alignment, node->integers(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT), 1);
}

bool read_convolution(const DnnNode* node, Conv* to) {
  if (node == nullptr || node->type != CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR) return false;
  const std::vector<int32_t> mode = node->values<int32_t>(CUDNN_ATTR_CONVOLUTION_CONV_MODE);
  to->flipped = mode.size() == 1 && mode[0] == CUDNN_CONVOLUTION;
  return copy_to(to->before, node->integers(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS), 2) &&
         copy_to(to->behind, node->integers(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS), 2) &&
         copy_to(to->dilation, node->integers(CUDNN_ATTR_CONVOLUTION_DILATIONS), 2) &&
         copy_to(to->stride, node->integers(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES), 2);
}

double scale_of(const DnnNode& node, cudnnBackendAttributeName_t name, double otherwise) {
  const auto found = node.attributes.find(name);
  if (found == node.attributes.end()) return otherwise;
  if (found->second.type == CUDNN_TYPE_DOUBLE) return node.values<double>(name)[0];
  return static_cast<double>(node.values<float>(name)[0]);
}

// The names of a pass's attributes: alpha, beta, convolution, x, w, y.
using Names = std::vector<cudnnBackendAttributeName_t>;

cudnnStatus_t read_operation(DnnNode& node, ConvPass pass, const Names& names, std::string* text) {
  Conv& conv = node.plan.conv;
  conv.pass = pass;
  conv.alpha = scale_of(node, names[0], 1);
  conv.beta = scale_of(node, names[1], 0);
  *text = "an attribute of the convolution is lacking";
  if (!read_convolution(node.node(names[2]), &conv) || !read_tensor(node.node(names[3]), &conv.x) ||
      !read_tensor(node.node(names[4]), &conv.w) || !read_tensor(node.node(names[5]), &conv.y))
    return CUDNN_STATUS_BAD_PARAM;
  *text = "the shapes do not belong together";
  if (!conv.fits()) return CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH;
  *text = "a type that the double does not compute in";
  for (const ConvTensor* tensor : {&conv.x, &conv.w, &conv.y})
    if (!known_type(tensor->type)) return CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE;
  return CUDNN_STATUS_SUCCESS;
}

// Visits all numbers of a plan, to write or read them.
template <class Plan, class Do>
void each_number(Plan& plan, Do&& act) {
  act(plan.engine);
  act(plan.conv.pass);
  act(plan.conv.flipped);
  act(plan.conv.alpha);
  act(plan.conv.beta);
  for (auto* pair : {plan.conv.before, plan.conv.behind, plan.conv.dilation, plan.conv.stride})
    for (int i = 0; i < 2; ++i) act(pair[i]);
  for (auto* tensor : {&plan.conv.x, &plan.conv.w, &plan.conv.y}) {
    act(tensor->id);
    act(tensor->type);
    act(tensor->alignment);
    for (int i = 0; i < 4; ++i) act(tensor->dims[i]);
    for (int i = 0; i < 4; ++i) act(tensor->strides[i]);
  }
}

constexpr const char* kPlanText = "{\"plan of the double\": [";

std::string written(const DnnPlanned& plan) {
  std::string text = kPlanText;
  each_number(plan, [&](const auto& value) {
    char number[40];
    std::snprintf(number, sizeof number, "%.17g", static_cast<double>(value));
    text += text.back() == '[' ? number : std::string(", ") + number;
  });
  return text + "]}";
}

bool parsed(const std::string& text, DnnPlanned* plan) {
  const std::string begin = kPlanText;
  if (text.compare(0, begin.size(), begin) != 0) return false;
  const char* at = text.c_str() + begin.size();
  bool good = true;
  each_number(*plan, [&](auto& value) {
    char* end = nullptr;
    const double number = std::strtod(at, &end);
    good = good && end != at;
    value = static_cast<std::remove_reference_t<decltype(value)>>(number);
    at = *end == ',' ? end + 1 : end;
  });
  return good && std::string(at).compare(0, 2, "]}") == 0 && plan->conv.fits();
}

std::string description(int device) {
  char text[640];
  std::snprintf(text, sizeof text,
                "{\"maxGridSize\": [2147483647, 65535, 65535], \"multiProcessorCount\": %d, "
                "\"warpSize\": 32, \"maxSharedMemoryPerBlock\": 49152, \"totalGlobalMem\": %zu, "
                "\"cudaDeviceId\": %d, \"deviceVer\": 900, \"driverVer\": %d, "
                "\"deviceName\": \"%s\"}",
                kMultiprocessors, device_bytes(), device, CUDART_VERSION, kDeviceName);
  return text;
}

cudnnStatus_t finalise_device(DnnNode& node, std::string* text) {
  const std::string given = text_of(node, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION);
  if (!given.empty()) {
    for (const char* field : {"maxGridSize", "multiProcessorCount", "deviceVer"})
      if (given.find(field) == std::string::npos) {
        *text = std::string("the description of a device lacks ") + field;
        return CUDNN_STATUS_BAD_PARAM;
      }
    return CUDNN_STATUS_SUCCESS;
  }
  const std::vector<int32_t> index = node.values<int32_t>(CUDNN_ATTR_DEVICEPROP_DEVICE_ID);
  if (index.size() != 1 || index[0] < 0 || index[0] >= device_count()) {
    *text = "there is no such device";
    return CUDNN_STATUS_BAD_PARAM;
  }
  set_text(node, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, description(index[0]));
  return CUDNN_STATUS_SUCCESS;
}

// Returns the descriptor of an engine, for queries of a configuration.
std::shared_ptr<DnnNode> engine_node(const DnnPlanned& plan) {
  auto engine = std::make_shared<DnnNode>();
  engine->type = CUDNN_BACKEND_ENGINE_DESCRIPTOR;
  engine->finalised = true;
  engine->plan = plan;
  set_integer(*engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, plan.engine);
  DnnAttribute notes{CUDNN_TYPE_NUMERICAL_NOTE, {}, {}};
  if (plan.engine == kEngineInAnyOrder) {
    const auto note = static_cast<int32_t>(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
    notes.bytes.resize(sizeof note);
    std::memcpy(notes.bytes.data(), &note, sizeof note);
  }
  engine->attributes[CUDNN_ATTR_ENGINE_NUMERICAL_NOTE] = notes;
  return engine;
}

std::shared_ptr<DnnNode> configuration(const DnnPlanned& plan) {
  auto config = std::make_shared<DnnNode>();
  config->type = CUDNN_BACKEND_ENGINECFG_DESCRIPTOR;
  config->finalised = true;
  config->plan = plan;
  config->attributes[CUDNN_ATTR_ENGINECFG_ENGINE] = {
      CUDNN_TYPE_BACKEND_DESCRIPTOR, {}, {engine_node(plan)}};
  return config;
}

cudnnStatus_t finalise_heuristic(DnnNode& node, std::string* text) {
  const DnnNode* const graph = node.node(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
  const std::vector<int32_t> mode = node.values<int32_t>(CUDNN_ATTR_ENGINEHEUR_MODE);
  if (graph == nullptr || mode.size() != 1) {
    *text = "the heuristic lacks graph or mode";
    return CUDNN_STATUS_BAD_PARAM;
  }
  DnnAttribute results{CUDNN_TYPE_BACKEND_DESCRIPTOR, {}, {}};
  for (int64_t engine = 0; engine < kEngineCount; ++engine) {
    DnnPlanned plan = graph->plan;
    plan.engine = engine;
    if (mode[0] != CUDNN_HEUR_MODE_FALLBACK || engine == kEnginePlain)
      results.nodes.push_back(configuration(plan));
  }
  node.attributes[CUDNN_ATTR_ENGINEHEUR_RESULTS] = results;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t finalise_plan(DnnNode& node, std::string* text) {
  const std::string given = text_of(node, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION);
  if (const DnnNode* const config = node.node(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)) {
    node.plan = config->plan;
  } else if (!parsed(given, &node.plan)) {
    *text = "this is not a plan's text";
    return CUDNN_STATUS_BAD_PARAM;
  }
  set_integer(node, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
              static_cast<int64_t>(node.plan.workspace()));
  set_text(node, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, written(node.plan));
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

// Returns the bytes for an engine's partial sums.
size_t DnnPlanned::workspace() const {
  if (engine != kEngineWithWorkspace) return 0;
  return (static_cast<size_t>(conv.result().elements()) * sizeof(float) + 255) / 256 * 256;
}

cudnnStatus_t finalise(DnnNode& node, std::string* text) {
  ConvTensor tensor;
  Conv conv;
  switch (node.type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
      *text = "a tensor lacks type, dimensions, strides, number or alignment";
      return read_tensor(&node, &tensor) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
      *text = "a convolution lacks an attribute";
      return read_convolution(&node, &conv) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      return read_operation(
          node, ConvPass::forward,
          {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y},
          text);
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      return read_operation(node, ConvPass::input,
                            {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY},
                            text);
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
      return read_operation(node, ConvPass::filter,
                            {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY},
                            text);
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR: {
      const auto found = node.attributes.find(CUDNN_ATTR_OPERATIONGRAPH_OPS);
      *text = "a graph of other than one operation";
      if (found == node.attributes.end() || found->second.nodes.size() != 1)
        return CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN;
      node.plan = found->second.nodes[0]->plan;
      return CUDNN_STATUS_SUCCESS;
    }
    case CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR:
      return finalise_device(node, text);
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
      return finalise_heuristic(node, text);
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
      return finalise_plan(node, text);
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
      return CUDNN_STATUS_SUCCESS;
    default:
      *text = "a descriptor that the double does not know";
      return CUDNN_STATUS_NOT_SUPPORTED;
  }
}

}  // namespace cuda_double
