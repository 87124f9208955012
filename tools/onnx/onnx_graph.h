// The file that is being made: nodes and constants, with names that are given once.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace onnx {
class GraphProto;
class TensorProto;
}  // namespace onnx

namespace tessera {

struct OnnxAttribute {
  const char* name;
  std::vector<int64_t> values;
  bool is_list = true;
};

class OnnxGraph {
 public:
  explicit OnnxGraph(onnx::GraphProto& graph) : graph_(graph) {}

  // Adds a node and returns the name of its output.
  // `near`: what the output is called after.
  std::string node(const char* op, const std::vector<std::string>& inputs, const std::string& near,
                   const std::vector<OnnxAttribute>& attributes = {});
  // Constants.
  std::string floats(const std::string& near, const std::vector<int64_t>& shape,
                     const std::vector<float>& values);
  std::string number(float value);
  std::string integers(const std::vector<int64_t>& values);

 private:
  std::string unique(const std::string& near);
  onnx::TensorProto& constant(const std::string& name, const std::vector<int64_t>& shape);

  onnx::GraphProto& graph_;
  std::set<std::string> taken_ = {"images", "logits"};
  size_t bytes_ = 0;
};

}  // namespace tessera
