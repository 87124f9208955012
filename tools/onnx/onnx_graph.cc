#include "tessera/tools/onnx/onnx_graph.h"

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include "tessera/runtime/error.h"

namespace tessera {

namespace {

constexpr size_t kMostBytes = (size_t{1} << 31) - (size_t{1} << 20);  // of a protobuf file

}  // namespace

std::string OnnxGraph::unique(const std::string& near) {
  std::string name = near;
  for (int n = 2; !taken_.insert(name).second; ++n) name = fmt::format("{}_{}", near, n);
  return name;
}

std::string OnnxGraph::node(const char* op, const std::vector<std::string>& inputs,
                            const std::string& near, const std::vector<OnnxAttribute>& attributes) {
  onnx::NodeProto& node = *graph_.add_node();
  node.set_op_type(op);
  for (const std::string& input : inputs) node.add_input(input);
  const std::string name = unique(near.empty() ? op : near + "/" + op);
  node.set_name(name);
  node.add_output(name);
  for (const OnnxAttribute& attribute : attributes) {
    onnx::AttributeProto& to = *node.add_attribute();
    to.set_name(attribute.name);
    to.set_type(attribute.is_list ? onnx::AttributeProto::INTS : onnx::AttributeProto::INT);
    if (!attribute.is_list) to.set_i(attribute.values[0]);
    if (attribute.is_list)
      for (const int64_t value : attribute.values) to.add_ints(value);
  }
  return name;
}

onnx::TensorProto& OnnxGraph::constant(const std::string& name, const std::vector<int64_t>& shape) {
  onnx::TensorProto& tensor = *graph_.add_initializer();
  tensor.set_name(name);
  for (const int64_t extent : shape) tensor.add_dims(extent);
  return tensor;
}

std::string OnnxGraph::floats(const std::string& near, const std::vector<int64_t>& shape,
                              const std::vector<float>& values) {
  bytes_ += values.size() * sizeof(float);
  if (bytes_ > kMostBytes)
    throw ConfigError(
        "export: the network has more than 2 GiB of weights, which one file of ONNX "
        "cannot hold; .safetensors can");
  const std::string name = unique(near);
  onnx::TensorProto& tensor = constant(name, shape);
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  tensor.set_raw_data(values.data(), values.size() * sizeof(float));
  return name;
}

std::string OnnxGraph::number(float value) { return floats("number", {}, {value}); }

std::string OnnxGraph::integers(const std::vector<int64_t>& values) {
  const std::string name = unique("integers");
  onnx::TensorProto& tensor = constant(name, {static_cast<int64_t>(values.size())});
  tensor.set_data_type(onnx::TensorProto::INT64);
  tensor.set_raw_data(values.data(), values.size() * sizeof(int64_t));
  return name;
}

}  // namespace tessera
