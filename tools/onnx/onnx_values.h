// OnnxValues: a captured network while it is written as ONNX. Images are NCHW in the file; all
// other values keep our order.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tessera/engine/store.h"
#include "tessera/graph/graph.h"

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

// The ONNX file under construction: nodes and constants, with unique names.
class OnnxGraph {
 public:
  explicit OnnxGraph(onnx::GraphProto& graph) : graph_(graph) {}

  // Adds a node and returns the name of its output, which is derived from `near`.
  std::string node(const char* op, const std::vector<std::string>& inputs, const std::string& near,
                   const std::vector<OnnxAttribute>& attributes = {});
  // Add a constant and return its name.
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

// The values of the network: the name of each in the file, and the order of its dimensions.
class OnnxValues {
 public:
  // `batch` is the batch of the captured graph, a number of which no other extent is a multiple.
  // `is_free`: the file accepts any batch.
  OnnxValues(const Graph& graph, OnnxGraph& to, int64_t batch, bool is_free)
      : graph_(graph), to_(to), batch_(batch), is_free_(is_free), readers_(graph.users()) {}

  const Shape& shape(ValueId id) const { return graph_.values[id].spec.shape; }

  // Records a value that the file computes.
  void put(ValueId id, std::string name, bool is_nchw);
  // Records a constant.
  void put(ValueId id, const Tensor& value, const std::string& near);
  bool is_known(ValueId id) const { return known_.count(id) != 0; }
  const Tensor& known(ValueId id) const { return known_.at(id).value; }
  bool is_nchw(ValueId id) const { return nchw_.count(id) != 0; }
  // Records a value [n, c] that the file has as images of one pixel: [n, c, 1, 1].
  void put_pixels(ValueId id, std::string name) { pixels_[id] = std::move(name); }
  bool is_pixels(ValueId id) const { return pixels_.count(id) != 0; }
  const std::string& pixels(ValueId id) const { return pixels_.at(id); }
  // Marks a value that the file lacks, because its producer is fused into another node.
  void put_folded(ValueId id) { folded_.insert(id); }
  bool is_done(ValueId id) const {
    return is_nchw(id) || is_pixels(id) || ours_.count(id) != 0 || folded_.count(id) != 0;
  }
  // Returns the only user of a value, or nullptr if it has several or is a result.
  const Node* only_reader(ValueId id) const;

  // Return the name of a value in our order, or of rank 4 as NCHW; add a transpose if necessary.
  std::string ours(ValueId id);
  std::string nchw(ValueId id);
  // Returns an operand of a pointwise op whose result has shape `out`, in the order of the result;
  // rank 4 may be NCHW. by_sample: [n, c] has a value for each channel of each sample.
  std::string operand(ValueId id, const Shape& out, bool as_nchw, bool by_sample);

  // Returns a shape for Reshape; the batch may be free.
  std::string reshape_target(const Shape& shape);
  // Returns a shape for Expand; a free batch that is expanded is read from the shape of the images.
  std::string expand_target(const Shape& from, const Shape& to);

  // Returns constant weights [o, ...] of a layer, slice k scaled by scale[k]; filters as OIHW.
  std::string weights(ValueId id, const std::vector<double>& scale);

 private:
  struct Known {
    Tensor value;
    std::string near;
  };
  std::string constant(ValueId id, const std::vector<int64_t>& shape, const std::vector<int>& axes);

  const Graph& graph_;
  OnnxGraph& to_;
  const int64_t batch_;
  const bool is_free_;
  const std::vector<std::vector<int>> readers_;
  std::map<ValueId, std::string> ours_, nchw_, pixels_;
  std::set<ValueId> folded_;
  std::map<ValueId, Known> known_;
};

// Writes a node of the graph (onnx_ops.cc). Throws ConfigError, which names the op, if it has no
// ONNX form.
void write_onnx_node(const Graph& graph, const Node& node, OnnxValues& values, OnnxGraph& to);

}  // namespace tessera
