#include "tessera/tools/onnx/export_onnx.h"

#include <algorithm>

#include <fmt/format.h>
#include <onnx/checker.h>

#include "tessera/engine/autograd.h"
#include "tessera/engine/scope.h"
#include "tessera/graph/capture.h"
#include "tessera/models/run/trained_network.h"
#include "tessera/runtime/error.h"
#include "tessera/tools/onnx/onnx_values.h"

namespace tessera {

namespace {

constexpr int64_t kOpset = 17, kFormat = 8;
constexpr int64_t kAnyBatch = 10007;  // a prime of which no extent of a network is a multiple

// Computes a node that depends only on weights; returns false if the node needs images.
bool compute(const Graph& graph, const Node& node, OnnxValues& values) {
  if (!std::ranges::all_of(node.inputs, [&](ValueId id) { return values.is_known(id); }))
    return false;
  Tensors inputs;
  for (const ValueId id : node.inputs) inputs.push_back(values.known(id));
  const Tensors outputs = apply(node.op, inputs);
  for (size_t i = 0; i < outputs.size(); ++i)
    values.put(node.outputs[i], outputs[i],
               fmt::format("{}/{}", graph.nodes.empty() ? "" : node.module_path, node.op->name()));
  return true;
}

void describe(onnx::ValueInfoProto& value, const char* name, int64_t batch,
              std::initializer_list<int64_t> rest) {
  value.set_name(name);
  onnx::TypeProto_Tensor& type = *value.mutable_type()->mutable_tensor_type();
  type.set_elem_type(onnx::TensorProto::FLOAT);
  onnx::TensorShapeProto& shape = *type.mutable_shape();
  if (batch == 0) {
    shape.add_dim()->set_dim_param("batch");
  } else {
    shape.add_dim()->set_dim_value(batch);
  }
  for (const int64_t extent : rest) shape.add_dim()->set_dim_value(extent);
}

void write_graph(const TrainedNetwork& trained, const Graph& graph, OnnxValues& values,
                 OnnxGraph& to, onnx::GraphProto& written) {
  values.put(graph.inputs[0], "images", true);
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const Value& value = graph.values[i];
    if (value.persistent())
      values.put(static_cast<ValueId>(i), trained.store.find(value.name), value.name);
  }
  std::vector<const Node*> left;  // written after all constants have been computed
  for (const Node& node : graph.nodes)
    if (!compute(graph, node, values)) left.push_back(&node);
  for (const Node* node : left)
    if (!values.is_done(node->outputs[0])) write_onnx_node(graph, *node, values, to);
  const std::string logits = values.ours(graph.outputs[0]);  // may add nodes
  onnx::NodeProto& last = *written.add_node();
  last.set_op_type("Identity");
  last.set_name("logits");
  last.add_input(logits);
  last.add_output("logits");
}

}  // namespace

std::string onnx_text(const TrainedNetwork& trained, int64_t batch) {
  const DeviceScope cpu("cpu:0");
  const TrainingScope evaluation(false);
  const NoGradScope no_grad;
  const ImageShape& image = trained.image;
  const int64_t captured = batch == 0 ? kAnyBatch : batch;
  const Graph graph =
      capture([&](const Tensors& x) { return Tensors{(*trained.network)(x[0])}; },
              {{DType::f32, Shape{captured, image.height, image.width, image.channels}, {}}});
  onnx::ModelProto model;
  model.set_ir_version(kFormat);
  model.set_producer_name("Tessera");
  onnx::OperatorSetIdProto& opset = *model.add_opset_import();
  opset.set_domain("");
  opset.set_version(kOpset);
  onnx::StringStringEntryProto& about = *model.add_metadata_props();
  about.set_key("inference");
  about.set_value(trained.inference);
  onnx::GraphProto& written = *model.mutable_graph();
  written.set_name(trained.config.model.name);
  describe(*written.add_input(), "images", batch, {image.channels, image.height, image.width});
  describe(*written.add_output(), "logits", batch, {trained.config.model.classes});
  OnnxGraph to(written);
  OnnxValues values(graph, to, captured, batch == 0);
  write_graph(trained, graph, values, to, written);
  try {
    onnx::checker::check_model(model);
  } catch (const std::exception& error) {
    throw InternalError(fmt::format("the ONNX file is not valid: {}", error.what()));
  }
  return model.SerializeAsString();
}

}  // namespace tessera
