#include <algorithm>
#include <functional>
#include <map>

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include "tessera/layers/shared/sample_pointwise.h"
#include "tessera/runtime/error.h"
#include "tessera/tools/onnx/onnx_values.h"

namespace tessera {

namespace {

using Integers = std::vector<int64_t>;

constexpr int kImageAxis[] = {0, 2, 3, 1};  // NCHW position of each of our axes

// A node while it is written.
struct Writing {
  const Node& node;
  OnnxValues& values;
  OnnxGraph& to;

  ValueId in(size_t i) const { return node.inputs[i]; }
  ValueId out(size_t i = 0) const { return node.outputs[i]; }
  const Shape& in_shape(size_t i = 0) const { return values.shape(in(i)); }
  const Shape& out_shape() const { return values.shape(out()); }

  std::vector<double> numbers(std::string_view name) const {
    for (const OpAttribute& known : node.op->attributes())
      if (known.name == name) return known.values;
    throw InternalError(fmt::format("{} has no attribute {}", node.op->name(), name));
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
  std::string channels(const std::vector<double>& numbers) const {
    return to.floats(node.module_path + "/channels", {static_cast<int64_t>(numbers.size())},
                     {numbers.begin(), numbers.end()});
  }
  // Returns the name of a value as NCHW, or in our order.
  std::string named(ValueId id, bool as_nchw) const {
    return as_nchw ? values.nchw(id) : values.ours(id);
  }
  void put_ours(std::string name) const { values.put(out(), std::move(name), false); }
  void put_image(std::string name) const { values.put(out(), std::move(name), true); }
};

// y = x scale + shift per channel: batch norms, biases, layer scales.
struct ChannelMap {
  std::vector<double> scale, shift;  // [channels]
};

// Returns true if a program only multiplies its input x by numbers and adds numbers.
bool is_linear_in(const ScalarProgram& program, const std::vector<ValueId>& inputs, ValueId x) {
  std::vector<bool> reads;
  for (const ValueId id : inputs) reads.push_back(id == x);
  for (const Instruction& code : program.code) {
    const bool a = reads[code.a], b = reads[code.b];
    const bool sum = code.op == ScalarOp::add || code.op == ScalarOp::sub;
    const bool product = code.op == ScalarOp::mul || code.op == ScalarOp::div;
    if (code.op == ScalarOp::constant)
      reads.push_back(false);
    else if (sum || (product && !b) || (code.op == ScalarOp::mul && !a))
      reads.push_back(a || b);
    else
      return false;
  }
  return reads[static_cast<size_t>(program.result())];
}

// Returns the function that a pointwise node applies to its input x, with channels last; nullopt if
// it is not such a map or depends on other values of the network.
std::optional<ChannelMap> channel_map_of(const Node& node, ValueId x, const OnnxValues& values) {
  const auto program = node.op->pointwise();
  const Shape& shape = values.shape(x);
  if (!program || shape.rank() < 2 || !is_linear_in(*program, node.inputs, x)) return {};
  std::vector<double> made[2];  // the results for x = 0 and x = 1
  for (const int number : {0, 1}) {
    Tensors inputs;
    for (const ValueId id : node.inputs) {
      const Shape& s = values.shape(id);
      const bool by_channel = s.back() == s.elements() && s.back() == shape.back();
      if (id != x && (!values.is_known(id) || (!by_channel && s.elements() != 1))) return {};
      std::vector<double> numbers(static_cast<size_t>(shape.back()), number);
      if (id != x) {
        const std::vector<float> known = values.known(id).to_vector<float>();
        numbers.assign(known.begin(), known.end());
      }
      inputs.push_back(from_vector({static_cast<int64_t>(numbers.size())}, numbers));
    }
    made[number] = apply1(node.op, inputs).to_vector<double>();
  }
  for (size_t i = 0; i < made[0].size(); ++i) made[1][i] -= made[0][i];
  return ChannelMap{made[1], made[0]};
}

// Adds a node that multiplies x by weights [outputs, ...]. Channel maps that are the only users of
// the result are folded into the weights and a bias.
void put_product(const Writing& w, const char* op, const std::string& x, bool is_nchw,
                 const std::vector<OnnxAttribute>& attributes) {
  const auto channels = static_cast<size_t>(w.out_shape().back());
  ChannelMap all{std::vector<double>(channels, 1), std::vector<double>(channels, 0)};
  ValueId last = w.out();
  while (const Node* reader = w.values.only_reader(last)) {
    const auto next = channel_map_of(*reader, last, w.values);
    if (!next) break;
    for (size_t i = 0; i < channels; ++i) {
      all.scale[i] *= next->scale[i];
      all.shift[i] = all.shift[i] * next->scale[i] + next->shift[i];
    }
    w.values.put_folded(last), last = reader->outputs[0];
  }
  std::vector<std::string> inputs = {x, w.values.weights(w.in(1), all.scale)};
  if (last != w.out()) inputs.push_back(w.channels(all.shift));
  w.values.put(last, w.add(op, inputs, attributes), is_nchw);
}

[[noreturn]] void refuse(const Node& node, const std::string& why) {
  throw ConfigError(fmt::format("export: {} {}; write .safetensors, which supports every network",
                                op_at(node.op->name(), node.module_path), why));
}

Integers both_sides(const Integers& padding) {
  return {padding[0], padding[1], padding[0], padding[1]};
}

void write_conv(const Writing& w) {
  if (!w.values.is_known(w.in(1))) refuse(w.node, "has filters that depend on the images");
  const Shape& filters = w.in_shape(1);
  put_product(w, "Conv", w.values.nchw(w.in(0)), true,
              {{"kernel_shape", {filters[1], filters[2]}},
               {"strides", w.setting("stride")},
               {"pads", both_sides(w.setting("padding"))},
               {"dilations", w.setting("dilation")},
               {"group", w.setting("groups"), false}});
}

void write_pool(const Writing& w) {
  const bool is_max = w.node.op->name() == "max_pool2d";
  std::vector<OnnxAttribute> attributes = {{"kernel_shape", w.setting("kernel")},
                                           {"strides", w.setting("stride")},
                                           {"pads", both_sides(w.setting("padding"))}};
  if (w.setting("ceil_mode")[0] != 0) {
    // Runtimes do not agree on the divisor of a clipped window.
    if (!is_max) refuse(w.node, "has ceil_mode, which the ONNX export does not support");
    attributes.push_back({"ceil_mode", {1}, false});
  }
  if (!is_max) attributes.push_back({"count_include_pad", w.setting("count_include_pad"), false});
  w.put_image(w.add(is_max ? "MaxPool" : "AveragePool", {w.values.nchw(w.in(0))}, attributes));
}

void write_global_average_pool(const Writing& w) {
  w.values.put_pixels(w.out(), w.add("GlobalAveragePool", {w.values.nchw(w.in(0))}));
}

void write_matmul(const Writing& w) {
  const bool a = w.setting("transpose_a")[0] != 0, b = w.setting("transpose_b")[0] != 0;
  const bool is_plain = w.in_shape(0).rank() == 2 && w.in_shape(1).rank() == 2;
  const std::vector<OnnxAttribute> transposed = {{"transA", {a}, false}, {"transB", {b}, false}};
  std::string x = w.values.ours(w.in(0));
  if (is_plain && b && w.values.is_known(w.in(1)))
    return put_product(w, "Gemm", x, false, transposed);
  std::string y = w.values.ours(w.in(1));
  if (is_plain) return w.put_ours(w.add("Gemm", {x, y}, transposed));
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
  const auto is_one_pixel = [](const Shape& of, const Shape& flat) {
    return of.rank() == 4 && of[1] == 1 && of[2] == 1 && flat == Shape{of[0], of[3]};
  };
  const Shape &from = w.in_shape(), &to = w.out_shape();
  if (is_one_pixel(from, to) && w.values.is_nchw(w.in(0)))
    return w.values.put_pixels(w.out(), w.values.nchw(w.in(0)));
  if (is_one_pixel(to, from) && w.values.is_pixels(w.in(0)))
    return w.put_image(w.values.pixels(w.in(0)));
  w.put_ours(w.add("Reshape", {w.values.ours(w.in(0)), w.values.reshape_target(to)}));
}

void write_concat(const Writing& w) {
  bool image = false;
  for (const ValueId id : w.node.inputs) image = image || w.values.is_nchw(id);
  std::vector<std::string> inputs;
  for (const ValueId id : w.node.inputs) inputs.push_back(w.named(id, image));
  const int64_t axis = w.setting("axis")[0];
  w.values.put(w.out(),
               w.add("Concat", inputs, {{"axis", {image ? kImageAxis[axis] : axis}, false}}),
               image);
}

// Writes a box that may reach into the zeros outside: a padding, then a slice.
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
  std::string x = w.named(w.in(0), image);
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

// Writes the mean and 1 / std of each row.
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

// Writes the mean and the sum of squared differences per channel and sample: [n, 2, c].
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

// Writes, from these moments, the mean and 1 / std of each channel's group, [n, c].
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
  w.values.put(w.out(), w.named(w.in(0), image), image);
}

// Returns the name in the file of a register of a scalar program, which the first use writes.
using Registers = std::function<const std::string&(int)>;

// Writes min(max(x, low), high) with constants as a Clip; returns "" for any other min.
std::string write_clip(const Writing& w, const ScalarProgram& program, const Instruction& min,
                       const Registers& registers) {
  const auto made_by = [&](int r, ScalarOp op) {
    return r >= program.inputs && program.code[static_cast<size_t>(r - program.inputs)].op == op;
  };
  if (!made_by(min.a, ScalarOp::max) || !made_by(min.b, ScalarOp::constant)) return "";
  const Instruction& max = program.code[static_cast<size_t>(min.a - program.inputs)];
  if (!made_by(max.b, ScalarOp::constant)) return "";
  const std::string x = registers(max.a), low = registers(max.b);
  return w.add("Clip", {x, low, registers(min.b)});
}

std::string write_instruction(const Writing& w, const ScalarProgram& program,
                              const Instruction& code, const Registers& registers) {
  if (code.op == ScalarOp::constant) return w.to.number(static_cast<float>(code.value));
  if (code.op == ScalarOp::min)
    if (const std::string clip = write_clip(w, program, code, registers); !clip.empty())
      return clip;
  const std::string a = registers(code.a);
  const auto two = [&](const char* op) { return w.add(op, {a, registers(code.b)}); };
  const auto cast = [&](const std::string& x, int type) {
    return w.add("Cast", {x}, {{"to", {type}, false}});
  };
  // ONNX has an op of the same meaning for these.
  static const std::map<ScalarOp, const char*> kSame = {
      {ScalarOp::add, "Add"},   {ScalarOp::sub, "Sub"},        {ScalarOp::mul, "Mul"},
      {ScalarOp::div, "Div"},   {ScalarOp::max, "Max"},        {ScalarOp::min, "Min"},
      {ScalarOp::pow, "Pow"},   {ScalarOp::neg, "Neg"},        {ScalarOp::abs, "Abs"},
      {ScalarOp::exp, "Exp"},   {ScalarOp::log, "Log"},        {ScalarOp::sqrt, "Sqrt"},
      {ScalarOp::tanh, "Tanh"}, {ScalarOp::sin, "Sin"},        {ScalarOp::cos, "Cos"},
      {ScalarOp::erf, "Erf"},   {ScalarOp::sigmoid, "Sigmoid"}};
  if (const auto same = kSame.find(code.op); same != kSame.end())
    return operand_count(code.op) == 2 ? two(same->second) : w.add(same->second, {a});
  switch (code.op) {
    case ScalarOp::greater:
      return cast(two("Greater"), onnx::TensorProto::FLOAT);
    case ScalarOp::less_equal:
      return cast(two("LessOrEqual"), onnx::TensorProto::FLOAT);
    case ScalarOp::select:
      return w.add("Where",
                   {cast(a, onnx::TensorProto::BOOL), registers(code.b), registers(code.c)});
    case ScalarOp::float32:
      return a;
    case ScalarOp::bfloat16:
      return cast(cast(a, onnx::TensorProto::BFLOAT16), onnx::TensorProto::FLOAT);
    case ScalarOp::float16:
      return cast(cast(a, onnx::TensorProto::FLOAT16), onnx::TensorProto::FLOAT);
    default:
      break;
  }
  throw InternalError("the exporter does not support this instruction");
}

void write_pointwise(const Writing& w, const ScalarProgram& program, bool by_sample) {
  const Shape& out = w.out_shape();
  bool image = false;
  for (const ValueId id : w.node.inputs) image = image || w.values.is_nchw(id);
  image = image && out.rank() == 4;
  std::vector<std::string> names;
  for (const ValueId id : w.node.inputs) {
    const bool sample = by_sample && w.values.shape(id).rank() == 2 && out.rank() > 2;
    names.push_back(w.values.operand(id, out, image, sample));
  }
  names.resize(static_cast<size_t>(program.registers()));
  const Registers registers = [&](int r) -> const std::string& {
    std::string& name = names[static_cast<size_t>(r)];
    if (name.empty())
      name = write_instruction(w, program, program.code[static_cast<size_t>(r - program.inputs)],
                               registers);
    return name;
  };
  w.values.put(w.out(), registers(program.result()), image);
}

// Writes a norm with constant statistics. A norm after a convolution is already folded into that.
void write_batch_norm(const Writing& w) {
  const auto map = channel_map_of(w.node, w.in(0), w.values);
  const bool image = w.in_shape().rank() == 4;
  if (!map || (!image && w.in_shape().rank() != 2))
    return write_pointwise(w, *w.node.op->pointwise(), false);
  const std::vector<double> mean(map->scale.size(), 0);
  const std::vector<double> variance(mean.size(), 1 - 1e-5);  // 1 with ONNX's epsilon
  w.values.put(
      w.out(),
      w.add("BatchNormalization", {w.named(w.in(0), image), w.channels(map->scale),
                                   w.channels(map->shift), w.channels(mean), w.channels(variance)}),
      image);
}

void write_unary(const Writing& w, const char* op) {
  const bool image = w.values.is_nchw(w.in(0));
  w.values.put(w.out(), w.add(op, {w.named(w.in(0), image)}), image);
}

using Write = void (*)(const Writing&);

// Ops that are not pointwise programs, or for which ONNX has an operator.
const std::map<std::string_view, Write>& writers() {
  static const std::map<std::string_view, Write> all = {
      {"average_pool2d", write_pool},
      {"batch_norm", write_batch_norm},
      {"block_moments", write_block_moments},
      {"concat", write_concat},
      {"conv2d", write_conv},
      {"copy", write_copy},
      {"expand", write_expand},
      {"global_average_pool", write_global_average_pool},
      {"group_norm_finalise", write_group_norm_finalise},
      {"hard_swish", [](const Writing& w) { write_unary(w, "HardSwish"); }},
      {"layer_moments", write_layer_moments},
      {"log_softmax", write_softmax},
      {"matmul", write_matmul},
      {"max", write_max},
      {"max_pool2d", write_pool},
      {"permute", write_permute},
      {"relu", [](const Writing& w) { write_unary(w, "Relu"); }},
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
  refuse(node, "cannot be written as ONNX");
}

}  // namespace tessera
