#include "tessera/tools/onnx/onnx_ops.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include "tessera/engine/op_settings.h"
#include "tessera/layers/shared/sample_pointwise.h"
#include "tessera/runtime/error.h"

namespace tessera {

namespace {

using Integers = std::vector<int64_t>;

constexpr int kImageAxis[] = {0, 2, 3, 1};  // of our axis, in NCHW

// One node that is being written.
struct Writing {
  const Node& node;
  OnnxValues& values;
  OnnxGraph& to;

  ValueId in(size_t i) const { return node.inputs[i]; }
  ValueId out(size_t i = 0) const { return node.outputs[i]; }
  const Shape& in_shape(size_t i = 0) const { return values.shape(in(i)); }
  const Shape& out_shape() const { return values.shape(out()); }

  std::vector<double> numbers(std::string_view name) const {
    const auto* op = dynamic_cast<const HasSettings*>(node.op.get());
    if (op != nullptr)
      for (const OpSetting& known : op->settings())
        if (known.name == name) return known.values;
    throw InternalError(fmt::format("{} does not tell its {}", node.op->name(), name));
  }
  Integers setting(std::string_view name) const {
    const std::vector<double> values = numbers(name);
    return {values.begin(), values.end()};
  }
  std::string number(std::string_view name) const {
    return to.number(static_cast<float>(numbers(name).at(0)));
  }
  std::string add(const char* op, const std::vector<std::string>& inputs,
                  const std::vector<OnnxAttribute>& attributes = {}) const {
    return to.node(op, inputs, node.module_path, attributes);
  }
  void put_ours(std::string name) const { values.put(out(), std::move(name), false); }
  void put_image(std::string name) const { values.put(out(), std::move(name), true); }
};

[[noreturn]] void refuse(const Node& node, const std::string& why) {
  throw ConfigError(fmt::format("export: {} {}; .safetensors takes the weights of every network",
                                op_at(node.op->name(), node.module_path), why));
}

Integers both_sides(const Integers& padding) {
  return {padding[0], padding[1], padding[0], padding[1]};
}

void write_conv(const Writing& w) {
  if (!w.values.is_known(w.in(1))) refuse(w.node, "has filters that depend on the images");
  const Shape& filters = w.in_shape(1);
  w.put_image(w.add("Conv", {w.values.nchw(w.in(0)), w.values.filters(w.in(1))},
                    {{"kernel_shape", {filters[1], filters[2]}},
                     {"strides", w.setting("stride")},
                     {"pads", both_sides(w.setting("padding"))},
                     {"dilations", w.setting("dilation")},
                     {"group", w.setting("groups"), false}}));
}

void write_pool(const Writing& w) {
  const bool is_max = w.node.op->name() == "max_pool2d";
  std::vector<OnnxAttribute> attributes = {{"kernel_shape", w.setting("kernel")},
                                           {"strides", w.setting("stride")},
                                           {"pads", both_sides(w.setting("padding"))}};
  if (w.setting("round_up")[0] != 0) {
    // What a window that is cut off is divided by, runtimes do not agree on.
    if (!is_max) refuse(w.node, "has round_up");
    attributes.push_back({"ceil_mode", {1}, false});
  }
  if (!is_max) attributes.push_back({"count_include_pad", w.setting("count_include_pad"), false});
  w.put_image(w.add(is_max ? "MaxPool" : "AveragePool", {w.values.nchw(w.in(0))}, attributes));
}

void write_global_average_pool(const Writing& w) {
  const std::string pooled = w.add("GlobalAveragePool", {w.values.nchw(w.in(0))});
  w.put_ours(w.add("Flatten", {pooled}, {{"axis", {1}, false}}));
}

void write_matmul(const Writing& w) {
  const bool a = w.setting("transpose_a")[0] != 0, b = w.setting("transpose_b")[0] != 0;
  std::string x = w.values.ours(w.in(0)), y = w.values.ours(w.in(1));
  if (w.in_shape(0).rank() == 2 && w.in_shape(1).rank() == 2) {
    w.put_ours(w.add("Gemm", {x, y}, {{"transA", {a}, false}, {"transB", {b}, false}}));
    return;
  }
  const auto turned = [&](const std::string& name, const Shape& shape) {
    Integers axes;
    for (int i = 0; i < shape.rank(); ++i) axes.push_back(i);
    std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
    return w.add("Transpose", {name}, {{"perm", axes}});
  };
  if (a) x = turned(x, w.in_shape(0));
  if (b) y = turned(y, w.in_shape(1));
  w.put_ours(w.add("MatMul", {x, y}));
}

void write_view(const Writing& w) {
  const Shape& from = w.in_shape();
  const bool one_pixel = from.rank() == 4 && from[1] == 1 && from[2] == 1;
  const std::string x =
      one_pixel && w.values.is_nchw(w.in(0)) ? w.values.nchw(w.in(0)) : w.values.ours(w.in(0));
  w.put_ours(w.add("Reshape", {x, w.values.reshape_target(w.out_shape())}));
}

void write_concat(const Writing& w) {
  bool image = false;
  for (const ValueId id : w.node.inputs) image = image || w.values.is_nchw(id);
  std::vector<std::string> inputs;
  for (const ValueId id : w.node.inputs)
    inputs.push_back(image ? w.values.nchw(id) : w.values.ours(id));
  const int64_t axis = w.setting("axis")[0];
  w.values.put(w.out(),
               w.add("Concat", inputs, {{"axis", {image ? kImageAxis[axis] : axis}, false}}),
               image);
}

// A box that may reach outside, where zeros are: padded first, then cut.
void write_slice(const Writing& w) {
  const bool image = w.values.is_nchw(w.in(0));
  const Shape &from = w.in_shape(), &size = w.out_shape();
  const Integers begin = w.setting("begin"), step = w.setting("step");
  const auto rank = static_cast<size_t>(from.rank());
  Integers pads(2 * rank, 0), starts, ends, axes, steps;
  bool is_padded = false;
  for (size_t i = 0; i < rank; ++i) {
    const int axis = static_cast<int>(i);
    const auto place = image ? static_cast<size_t>(kImageAxis[i]) : i;
    const int64_t last = begin[i] + (size[axis] - 1) * step[i];
    const int64_t before = std::max<int64_t>(0, -begin[i]);
    const int64_t after = std::max<int64_t>(0, last + 1 - from[axis]);
    pads[place] = before, pads[rank + place] = after;
    is_padded = is_padded || before > 0 || after > 0;
    if (step[i] == 1 && size[axis] == from[axis] + before + after) continue;
    starts.push_back(begin[i] + before), ends.push_back(last + before + 1);
    axes.push_back(static_cast<int64_t>(place)), steps.push_back(step[i]);
  }
  std::string x = image ? w.values.nchw(w.in(0)) : w.values.ours(w.in(0));
  if (is_padded) x = w.add("Pad", {x, w.to.integers(pads), w.to.number(0)});
  if (!axes.empty())
    x = w.add("Slice", {x, w.to.integers(starts), w.to.integers(ends), w.to.integers(axes),
                        w.to.integers(steps)});
  w.values.put(w.out(), x, image);
}

void write_permute(const Writing& w) {
  w.put_ours(w.add("Transpose", {w.values.ours(w.in(0))}, {{"perm", w.setting("axes")}}));
}

void write_sum_run(const Writing& w) {
  const Integers range = w.setting("range");
  Integers axes;
  for (int64_t axis = range[0]; axis < range[1]; ++axis) axes.push_back(axis);
  const std::string x = w.values.ours(w.in(0));
  w.put_ours(axes.empty() ? x : w.add("ReduceSum", {x, w.to.integers(axes)}));
}

void write_max(const Writing& w) {
  const bool keeps = w.out_shape().rank() == w.in_shape().rank();
  w.put_ours(w.add("ReduceMax", {w.values.ours(w.in(0))},
                   {{"axes", w.setting("axis")}, {"keepdims", {keeps}, false}}));
}

void write_softmax(const Writing& w) {
  const bool is_log = w.node.op->name() == "log_softmax";
  w.put_ours(
      w.add(is_log ? "LogSoftmax" : "Softmax", {w.values.ours(w.in(0))}, {{"axis", {-1}, false}}));
}

// Mean and 1 / deviation of each row.
void write_layer_moments(const Writing& w) {
  const std::string x = w.values.ours(w.in(0));
  const std::vector<OnnxAttribute> rows = {{"axes", {-1}}};
  const std::string mean = w.add("ReduceMean", {x}, rows);
  const std::string apart = w.add("Sub", {x, mean});
  const std::string variance = w.add("ReduceMean", {w.add("Mul", {apart, apart})}, rows);
  const std::string root = w.add("Sqrt", {w.add("Add", {variance, w.number("eps")})});
  w.values.put(w.out(0), mean, false);
  w.values.put(w.out(1), w.add("Reciprocal", {root}), false);
}

// Mean and sum of squared differences of each channel of each sample: [n, 2, c].
void write_block_moments(const Writing& w) {
  const Shape& s = w.in_shape();
  const int64_t pixels = s.elements(1, s.rank() - 1);
  if (w.setting("block_rows")[0] != pixels) refuse(w.node, "has moments over several images");
  const std::vector<OnnxAttribute> axes = {{"axes", {1}}};
  const std::string x =
      w.add("Reshape", {w.values.ours(w.in(0)), w.values.reshape_target({s[0], pixels, s.back()})});
  const std::string mean = w.add("ReduceMean", {x}, axes);
  const std::string apart = w.add("Sub", {x, mean});
  const std::string squares =
      w.add("ReduceSum", {w.add("Mul", {apart, apart}), w.to.integers({1})});
  w.put_ours(w.add("Concat", {mean, squares}, {{"axis", {1}, false}}));
}

// From those: mean and 1 / deviation of each channel's group, [n, c].
void write_group_norm_finalise(const Writing& w) {
  const int64_t groups = w.setting("groups")[0], n = w.in_shape()[0], c = w.in_shape()[2];
  const std::vector<OnnxAttribute> axes = {{"axes", {2}}};
  const auto of_groups = [&](int64_t half) {
    const std::string part =
        w.add("Slice", {w.values.ours(w.in(0)), w.to.integers({half}), w.to.integers({half + 1}),
                        w.to.integers({1}), w.to.integers({1})});
    return w.add("Reshape", {part, w.values.reshape_target({n, groups, c / groups})});
  };
  const std::string means = of_groups(0), mean = w.add("ReduceMean", {means}, axes);
  const std::string apart = w.add("Sub", {means, mean});
  const std::string between = w.add("ReduceMean", {w.add("Mul", {apart, apart})}, axes);
  const std::string within =
      w.add("Div", {w.add("ReduceMean", {of_groups(1)}, axes), w.number("pixels")});
  const std::string root =
      w.add("Sqrt", {w.add("Add", {w.add("Add", {between, within}), w.number("eps")})});
  const auto of_channels = [&](const std::string& x) {
    const std::string wide = w.add("Expand", {x, w.to.integers({1, groups, c / groups})});
    return w.add("Reshape", {wide, w.values.reshape_target({n, c})});
  };
  w.values.put(w.out(0), of_channels(mean), false);
  w.values.put(w.out(1), of_channels(w.add("Reciprocal", {root})), false);
}

void write_expand(const Writing& w) {
  w.put_ours(w.add("Expand",
                   {w.values.ours(w.in(0)), w.values.expand_target(w.in_shape(), w.out_shape())}));
}

void write_copy(const Writing& w) {
  const bool image = w.values.is_nchw(w.in(0));
  w.values.put(w.out(), image ? w.values.nchw(w.in(0)) : w.values.ours(w.in(0)), image);
}

std::string write_instruction(const Writing& w, const Instruction& code,
                              const std::vector<std::string>& registers) {
  const std::string a = code.op == ScalarOp::constant ? "" : registers[code.a];
  const auto two = [&](const char* op) { return w.add(op, {a, registers[code.b]}); };
  const auto cast = [&](const std::string& x, int type) {
    return w.add("Cast", {x}, {{"to", {type}, false}});
  };
  switch (code.op) {
    case ScalarOp::constant:
      return w.to.number(static_cast<float>(code.value));
    case ScalarOp::add:
      return two("Add");
    case ScalarOp::sub:
      return two("Sub");
    case ScalarOp::mul:
      return two("Mul");
    case ScalarOp::div:
      return two("Div");
    case ScalarOp::max:
      return two("Max");
    case ScalarOp::min:
      return two("Min");
    case ScalarOp::pow:
      return two("Pow");
    case ScalarOp::greater:
      return cast(two("Greater"), onnx::TensorProto::FLOAT);
    case ScalarOp::less_equal:
      return cast(two("LessOrEqual"), onnx::TensorProto::FLOAT);
    case ScalarOp::select:
      return w.add("Where",
                   {cast(a, onnx::TensorProto::BOOL), registers[code.b], registers[code.c]});
    case ScalarOp::neg:
      return w.add("Neg", {a});
    case ScalarOp::abs:
      return w.add("Abs", {a});
    case ScalarOp::exp:
      return w.add("Exp", {a});
    case ScalarOp::log:
      return w.add("Log", {a});
    case ScalarOp::sqrt:
      return w.add("Sqrt", {a});
    case ScalarOp::tanh:
      return w.add("Tanh", {a});
    case ScalarOp::sin:
      return w.add("Sin", {a});
    case ScalarOp::cos:
      return w.add("Cos", {a});
    case ScalarOp::erf:
      return w.add("Erf", {a});
    case ScalarOp::sigmoid:
      return w.add("Sigmoid", {a});
  }
  throw InternalError("an instruction that the exporter does not know");
}

void write_pointwise(const Writing& w, const ScalarProgram& program, bool by_sample) {
  const Shape& out = w.out_shape();
  bool image = false;
  for (const ValueId id : w.node.inputs) image = image || w.values.is_nchw(id);
  image = image && out.rank() == 4;
  std::vector<std::string> registers;
  for (const ValueId id : w.node.inputs) {
    const bool sample = by_sample && w.values.shape(id).rank() == 2 && out.rank() > 2;
    registers.push_back(w.values.operand(id, out, image, sample));
  }
  for (const Instruction& code : program.code)
    registers.push_back(write_instruction(w, code, registers));
  w.values.put(w.out(), registers[static_cast<size_t>(program.result())], image);
}

using Write = void (*)(const Writing&);

// Ops that are no pointwise program.
const std::map<std::string_view, Write>& writers() {
  static const std::map<std::string_view, Write> all = {
      {"average_pool2d", write_pool},
      {"block_moments", write_block_moments},
      {"concat", write_concat},
      {"conv2d", write_conv},
      {"copy", write_copy},
      {"expand", write_expand},
      {"global_average_pool", write_global_average_pool},
      {"group_norm_finalise", write_group_norm_finalise},
      {"layer_moments", write_layer_moments},
      {"log_softmax", write_softmax},
      {"matmul", write_matmul},
      {"max", write_max},
      {"max_pool2d", write_pool},
      {"permute", write_permute},
      {"relu",
       [](const Writing& w) {
         const bool image = w.values.is_nchw(w.in(0));
         const std::string x = image ? w.values.nchw(w.in(0)) : w.values.ours(w.in(0));
         w.values.put(w.out(), w.add("Relu", {x}), image);
       }},
      {"slice", write_slice},
      {"softmax", write_softmax},
      {"sum_run", write_sum_run},
      {"view", write_view},
  };
  return all;
}

}  // namespace

void write_onnx_node(const Graph& graph, const Node& node, OnnxValues& values, OnnxGraph& to) {
  const Writing writing{node, values, to};
  for (const ValueId id : node.outputs)
    if (graph.values[id].spec.dtype != DType::f32 && id == node.outputs[0])
      refuse(node, "is not float32");
  if (const auto known = writers().find(node.op->name()); known != writers().end())
    return known->second(writing);
  if (const auto* sample = dynamic_cast<const SamplePointwise*>(node.op.get()))
    return write_pointwise(writing, sample->params.program, true);
  if (const auto program = node.op->pointwise()) return write_pointwise(writing, *program, false);
  refuse(node, "has no form in ONNX here");
}

}  // namespace tessera
