#include "tessera/tools/onnx/onnx_values.h"

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include "tessera/engine/structural.h"
#include "tessera/runtime/error.h"

namespace tessera {

namespace {

constexpr size_t kMaxBytes = (size_t{1} << 31) - (size_t{1} << 20);  // limit of a protobuf file

std::vector<int64_t> extents(const Shape& shape) { return {shape.begin(), shape.end()}; }

// Returns the shape with leading ones, for broadcasting.
std::vector<int64_t> of_rank(const Shape& shape, int rank) {
  std::vector<int64_t> all(static_cast<size_t>(rank - shape.rank()), 1);
  all.insert(all.end(), shape.begin(), shape.end());
  return all;
}

// Returns [n, c] as [n, 1, .., c].
std::vector<int64_t> by_sample_of_rank(const Shape& shape, int rank) {
  std::vector<int64_t> all(static_cast<size_t>(rank), 1);
  all.front() = shape[0], all.back() = shape[1];
  return all;
}

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
  if (bytes_ > kMaxBytes)
    throw ConfigError(
        "export: an ONNX file can hold at most 2 GiB of weights, but the network has more; write "
        ".safetensors");
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

void OnnxValues::put(ValueId id, std::string name, bool is_nchw) {
  (is_nchw ? nchw_ : ours_)[id] = std::move(name);
}

void OnnxValues::put(ValueId id, const Tensor& value, const std::string& near) {
  known_[id] = {value, near.empty() ? "constant" : near};
}

std::string OnnxValues::constant(ValueId id, const std::vector<int64_t>& shape,
                                 const std::vector<int>& axes) {
  const auto& [value, near] = known_.at(id);
  const Tensor shaped = reshape(value, Shape(shape));
  const Tensor turned = axes.empty() ? shaped : permute(shaped, axes);
  return to_.floats(near, extents(turned.shape()), turned.to_vector<float>());
}

std::string OnnxValues::ours(ValueId id) {
  if (const auto found = ours_.find(id); found != ours_.end()) return found->second;
  if (is_known(id)) return ours_[id] = constant(id, extents(shape(id)), {});
  if (is_pixels(id))
    return ours_[id] = to_.node("Flatten", {pixels(id)}, pixels(id), {{"axis", {1}, false}});
  const std::string& from = nchw_.at(id);
  return ours_[id] = to_.node("Transpose", {from}, from, {{"perm", {0, 2, 3, 1}}});
}

std::string OnnxValues::nchw(ValueId id) {
  if (const auto found = nchw_.find(id); found != nchw_.end()) return found->second;
  if (is_known(id)) return nchw_[id] = constant(id, extents(shape(id)), {0, 3, 1, 2});
  const std::string& from = ours_.at(id);
  return nchw_[id] = to_.node("Transpose", {from}, from, {{"perm", {0, 3, 1, 2}}});
}

std::string OnnxValues::operand(ValueId id, const Shape& out, bool as_nchw, bool by_sample) {
  const Shape& s = shape(id);
  if (s.rank() == out.rank() && !by_sample) return as_nchw ? nchw(id) : ours(id);
  if (by_sample && as_nchw && is_pixels(id)) return pixels(id);
  const int rank = out.rank();
  const std::vector<int64_t> full = by_sample ? by_sample_of_rank(s, rank) : of_rank(s, rank);
  if (is_known(id)) {
    if (s.rank() == 0) return ours(id);
    return constant(id, full, as_nchw ? std::vector<int>{0, 3, 1, 2} : std::vector<int>{});
  }
  std::string name = ours(id);
  name = to_.node("Reshape", {name, reshape_target(Shape(full))}, name);
  return as_nchw ? to_.node("Transpose", {name}, name, {{"perm", {0, 3, 1, 2}}}) : name;
}

std::string OnnxValues::reshape_target(const Shape& shape) {
  std::vector<int64_t> all = extents(shape);
  int free = 0;
  for (int64_t& extent : all)
    if (extent % batch_ == 0 && extent > 0 && is_free_) extent = -1, ++free;
  if (free > 1) throw ConfigError("export: a reshape splits the batch; set --batch");
  return to_.integers(all);
}

std::string OnnxValues::expand_target(const Shape& from, const Shape& to) {
  const std::vector<int64_t> given = of_rank(from, to.rank());
  std::vector<int64_t> all = extents(to);
  for (size_t i = 0; i < all.size(); ++i)
    if (given[i] == all[i]) all[i] = 1;  // Expand leaves it
  if (!is_free_ || all.empty() || all[0] != batch_) return to_.integers(all);
  const std::string images = to_.node("Shape", {"images"}, "batch");
  const std::string batch =
      to_.node("Slice", {images, to_.integers({0}), to_.integers({1})}, "batch");
  const std::string rest = to_.integers({all.begin() + 1, all.end()});
  return to_.node("Concat", {batch, rest}, "batch", {{"axis", {0}, false}});
}

const Node* OnnxValues::only_reader(ValueId id) const {
  const std::vector<int>& all = readers_[static_cast<size_t>(id)];
  if (all.size() != 1 || static_cast<size_t>(all[0]) == graph_.nodes.size()) return nullptr;
  return &graph_.nodes[static_cast<size_t>(all[0])];
}

std::string OnnxValues::weights(ValueId id, const std::vector<double>& scale) {
  const auto& [value, near] = known_.at(id);
  std::vector<float> numbers = value.to_vector<float>();
  const size_t slice = numbers.size() / scale.size();
  for (size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = static_cast<float>(numbers[i] * scale[i / slice]);
  Tensor scaled = from_vector(shape(id), numbers);
  if (shape(id).rank() == 4) scaled = permute(scaled, {0, 3, 1, 2});
  return to_.floats(near, extents(scaled.shape()), scaled.to_vector<float>());
}

}  // namespace tessera
