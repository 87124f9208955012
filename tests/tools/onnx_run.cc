#include "tessera/tests/tools/onnx_run.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <stdexcept>

#include <onnx/onnx_pb.h>

namespace tessera::testing_onnx {

namespace {

using Shape = std::vector<int64_t>;

int64_t product(const Shape& shape) {
  int64_t all = 1;
  for (const int64_t extent : shape) all *= extent;
  return all;
}

Array filled(Shape shape, double value = 0) {
  const auto count = static_cast<size_t>(product(shape));
  return {std::move(shape), std::vector<double>(count, value)};
}

// Calls fn with each index of the shape, in order.
void each(const Shape& shape, const std::function<void(const Shape&)>& fn) {
  Shape index(shape.size(), 0);
  for (int64_t left = product(shape); left > 0; --left) {
    fn(index);
    for (size_t axis = shape.size(); axis-- > 0;) {
      if (++index[axis] < shape[axis]) break;
      index[axis] = 0;
    }
  }
}

// Reads x with numpy's broadcasting: axes are counted from the last, extents of 1 are repeated.
double at(const Array& x, const Shape& index) {
  int64_t place = 0;
  const size_t skip = index.size() - x.shape.size();
  for (size_t i = 0; i < x.shape.size(); ++i)
    place = place * x.shape[i] + (x.shape[i] == 1 ? 0 : index[skip + i]);
  return x.values[static_cast<size_t>(place)];
}

class Run {
 public:
  Run(const onnx::ModelProto& model, const Array& images) {
    values_["images"] = images;
    for (const onnx::TensorProto& tensor : model.graph().initializer())
      values_[tensor.name()] = constant(tensor);
    for (const onnx::NodeProto& node : model.graph().node()) {
      node_ = &node;
      values_[node.output(0)] = compute();
    }
  }
  const Array& logits() const { return values_.at("logits"); }

 private:
  [[noreturn]] static void fail(const std::string& what) {
    throw std::runtime_error("onnx: " + what);
  }

  static Array constant(const onnx::TensorProto& tensor) {
    Array array = filled({tensor.dims().begin(), tensor.dims().end()});
    const char* raw = tensor.raw_data().data();
    for (size_t i = 0; i < array.values.size(); ++i) {
      if (tensor.data_type() == onnx::TensorProto::FLOAT) {
        float value = 0;
        std::memcpy(&value, raw + i * sizeof value, sizeof value);
        array.values[i] = value;
      } else {
        int64_t value = 0;
        std::memcpy(&value, raw + i * sizeof value, sizeof value);
        array.values[i] = static_cast<double>(value);
      }
    }
    return array;
  }

  const Array& in(int i) const { return values_.at(node_->input(i)); }
  Shape integers(int i) const {
    const Array& array = in(i);
    return {array.values.begin(), array.values.end()};
  }
  Shape attribute(const char* name, Shape otherwise = {}) const {
    for (const onnx::AttributeProto& one : node_->attribute())
      if (one.name() == name)
        return one.type() == onnx::AttributeProto::INT
                   ? Shape{one.i()}
                   : Shape(one.ints().begin(), one.ints().end());
    return otherwise;
  }

  Array compute() {
    const std::string& op = node_->op_type();
    const auto unary = unaries().find(op);
    if (unary != unaries().end()) return pointwise(unary->second);
    const auto binary = binaries().find(op);
    if (binary != binaries().end()) return pointwise(binary->second);
    if (op == "Where") return where();
    if (op == "Clip") return clip();
    if (op == "BatchNormalization") return batch_normalization();
    if (op == "Conv") return conv();
    if (op == "MaxPool" || op == "AveragePool") return pool(op == "MaxPool");
    if (op == "GlobalAveragePool") return mean({2, 3});
    if (op == "ReduceMean") return mean(attribute("axes"));
    if (op == "ReduceSum") return sum(integers(1));
    if (op == "Expand") return expand();
    if (op == "Gemm" || op == "MatMul") return gemm();
    if (op == "Transpose") return transpose();
    if (op == "Flatten") return flatten();
    if (op == "Reshape") return reshape();
    if (op == "Concat") return concat();
    if (op == "Softmax") return softmax();
    if (op == "Pad") return pad();
    if (op == "Slice") return slice();
    fail("the operator " + op + " is not known");
  }

  Array softmax() const {
    if (attribute("axis") != Shape{-1}) fail("Softmax along another axis than the last");
    Array y = in(0);
    const auto width = static_cast<size_t>(y.shape.back());
    for (size_t row = 0; row < y.values.size(); row += width) {
      double sum = 0;
      for (size_t i = row; i < row + width; ++i) sum += y.values[i] = std::exp(y.values[i]);
      for (size_t i = row; i < row + width; ++i) y.values[i] /= sum;
    }
    return y;
  }

  using Unary = double (*)(double);
  static const std::map<std::string, Unary>& unaries() {
    static const std::map<std::string, Unary> all = {
        {"Identity", [](double x) { return x; }},
        {"Cast", [](double x) { return x; }},
        {"Relu", [](double x) { return x < 0 ? 0 : x; }},
        {"Neg", [](double x) { return -x; }},
        {"Abs", [](double x) { return std::abs(x); }},
        {"Exp", [](double x) { return std::exp(x); }},
        {"Sqrt", [](double x) { return std::sqrt(x); }},
        {"Tanh", [](double x) { return std::tanh(x); }},
        {"Erf", [](double x) { return std::erf(x); }},
        {"HardSwish", [](double x) { return x * std::clamp(x / 6 + 0.5, 0.0, 1.0); }},
        {"Reciprocal", [](double x) { return 1 / x; }},
        {"Sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }},
    };
    return all;
  }
  using Binary = double (*)(double, double);
  static const std::map<std::string, Binary>& binaries() {
    static const std::map<std::string, Binary> all = {
        {"Add", [](double a, double b) { return a + b; }},
        {"Sub", [](double a, double b) { return a - b; }},
        {"Mul", [](double a, double b) { return a * b; }},
        {"Div", [](double a, double b) { return a / b; }},
        {"Max", [](double a, double b) { return std::max(a, b); }},
        {"Min", [](double a, double b) { return std::min(a, b); }},
        {"Pow", [](double a, double b) { return std::pow(a, b); }},
        {"Greater", [](double a, double b) { return a > b ? 1.0 : 0.0; }},
    };
    return all;
  }

  Shape broadcast() const {
    Shape out;
    for (int i = 0; i < node_->input_size(); ++i) {
      const Shape& s = in(i).shape;
      if (s.size() > out.size()) out.insert(out.begin(), s.size() - out.size(), 1);
      for (size_t k = 0; k < s.size(); ++k) {
        int64_t& extent = out[out.size() - s.size() + k];
        if (extent != s[k] && extent != 1 && s[k] != 1) fail("shapes that cannot be broadcast");
        extent = std::max(extent, s[k]);
      }
    }
    return out;
  }
  Array pointwise(Unary fn) const {
    Array out = in(0);
    for (double& value : out.values) value = fn(value);
    return out;
  }
  Array pointwise(Binary fn) const {
    Array out{broadcast(), {}};
    each(out.shape, [&](const Shape& i) { out.values.push_back(fn(at(in(0), i), at(in(1), i))); });
    return out;
  }
  Array where() const {
    Array out{broadcast(), {}};
    each(out.shape, [&](const Shape& i) {
      out.values.push_back(at(in(0), i) != 0 ? at(in(1), i) : at(in(2), i));
    });
    return out;
  }

  Array clip() const {
    Array out = in(0);
    for (double& value : out.values) value = std::clamp(value, in(1).values[0], in(2).values[0]);
    return out;
  }
  // Channels are the second dimension.
  Array batch_normalization() const {
    if (node_->attribute_size() != 0) fail("attributes of BatchNormalization");
    const double epsilon = 1e-5;
    Array out{in(0).shape, {}};
    each(out.shape, [&](const Shape& i) {
      const auto of_channel = [&](int input) { return at(in(input), {i[1]}); };
      out.values.push_back((at(in(0), i) - of_channel(3)) / std::sqrt(of_channel(4) + epsilon) *
                               of_channel(1) +
                           of_channel(2));
    });
    return out;
  }

  // Windows of NCHW images: fn(pixel, tap, h, w) for each tap inside the image.
  struct Windows {
    Shape kernel, stride, pads, dilation;
    int64_t h, w;
    bool ceil = false;
    int64_t out(int axis) const {
      const int64_t size = axis == 0 ? h : w;
      const int64_t room =
          size + pads[axis] + pads[axis + 2] - dilation[axis] * (kernel[axis] - 1) - 1;
      const int64_t down = room / stride[axis] + 1;
      const bool more = ceil && room % stride[axis] != 0 && down * stride[axis] < size + pads[axis];
      return more ? down + 1 : down;
    }
    template <class F>
    void taps(int64_t y, int64_t x, F&& fn) const {
      for (int64_t u = 0; u < kernel[0]; ++u)
        for (int64_t v = 0; v < kernel[1]; ++v) {
          const int64_t r = y * stride[0] - pads[0] + u * dilation[0];
          const int64_t c = x * stride[1] - pads[1] + v * dilation[1];
          if (r >= 0 && r < h && c >= 0 && c < w) fn(u, v, r, c);
        }
    }
  };
  Windows windows() const {
    return {attribute("kernel_shape"),          attribute("strides"), attribute("pads"),
            attribute("dilations", {1, 1}),     in(0).shape[2],       in(0).shape[3],
            attribute("ceil_mode", {0})[0] != 0};
  }

  Array conv() const {
    const Array &x = in(0), &f = in(1);
    const Windows win = windows();
    const int64_t groups = attribute("group", {1})[0], each_in = f.shape[1];
    const int64_t each_out = f.shape[0] / groups;
    Array out{{x.shape[0], f.shape[0], win.out(0), win.out(1)}, {}};
    each(out.shape, [&](const Shape& i) {
      double sum = node_->input_size() > 2 ? at(in(2), {i[1]}) : 0;
      const int64_t first = i[1] / each_out * each_in;
      win.taps(i[2], i[3], [&](int64_t u, int64_t v, int64_t r, int64_t c) {
        for (int64_t k = 0; k < each_in; ++k)
          sum += at(x, {i[0], first + k, r, c}) * at(f, {i[1], k, u, v});
      });
      out.values.push_back(sum);
    });
    return out;
  }

  Array pool(bool is_max) const {
    const Array& x = in(0);
    const Windows win = windows();
    const bool all = attribute("count_include_pad", {0})[0] != 0;
    Array out{{x.shape[0], x.shape[1], win.out(0), win.out(1)}, {}};
    each(out.shape, [&](const Shape& i) {
      double most = -std::numeric_limits<double>::infinity(), sum = 0, count = 0;
      win.taps(i[2], i[3], [&](int64_t, int64_t, int64_t r, int64_t c) {
        const double value = at(x, {i[0], i[1], r, c});
        most = std::max(most, value), sum += value, ++count;
      });
      if (all) count = static_cast<double>(win.kernel[0] * win.kernel[1]);
      out.values.push_back(is_max ? most : sum / count);
    });
    return out;
  }

  // Sums over axes and keeps them with extent 1.
  Array sum(const Shape& axes) const {
    const Array& x = in(0);
    Shape shape = x.shape;
    for (const int64_t axis : axes)
      shape[static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(shape.size()) : axis)] = 1;
    Array out = filled(shape);
    each(x.shape, [&](const Shape& i) {
      int64_t place = 0;
      for (size_t k = 0; k < i.size(); ++k) place = place * shape[k] + (shape[k] == 1 ? 0 : i[k]);
      out.values[static_cast<size_t>(place)] += at(x, i);
    });
    return out;
  }
  Array mean(const Shape& axes) const {
    Array out = sum(axes);
    const auto count = static_cast<double>(in(0).values.size() / out.values.size());
    for (double& value : out.values) value /= count;
    return out;
  }

  Array expand() const {
    Array out{in(0).shape, {}};
    const Shape to = integers(1);
    for (size_t k = 0; k < to.size(); ++k) out.shape[k] = std::max(out.shape[k], to[k]);
    each(out.shape, [&](const Shape& i) { out.values.push_back(at(in(0), i)); });
    return out;
  }

  Array gemm() const {
    const Array &a = in(0), &b = in(1);
    if (a.shape.size() != 2 || b.shape.size() != 2) fail("products of more than two axes");
    const bool ta = attribute("transA", {0})[0] != 0, tb = attribute("transB", {0})[0] != 0;
    Array out{{a.shape[ta ? 1 : 0], b.shape[tb ? 0 : 1]}, {}};
    each(out.shape, [&](const Shape& i) {
      double sum = node_->input_size() > 2 ? at(in(2), i) : 0;
      for (int64_t k = 0; k < a.shape[ta ? 0 : 1]; ++k)
        sum += at(a, ta ? Shape{k, i[0]} : Shape{i[0], k}) *
               at(b, tb ? Shape{i[1], k} : Shape{k, i[1]});
      out.values.push_back(sum);
    });
    return out;
  }

  Array transpose() const {
    const Array& x = in(0);
    const Shape axes = attribute("perm");
    Array out;
    for (const int64_t axis : axes) out.shape.push_back(x.shape[static_cast<size_t>(axis)]);
    each(out.shape, [&](const Shape& i) {
      Shape from(i.size());
      for (size_t k = 0; k < i.size(); ++k) from[static_cast<size_t>(axes[k])] = i[k];
      out.values.push_back(at(x, from));
    });
    return out;
  }

  Array flatten() const {
    return {{in(0).shape[0], product(in(0).shape) / in(0).shape[0]}, in(0).values};
  }
  Array reshape() const {
    Shape shape = integers(1);
    const auto open = std::find(shape.begin(), shape.end(), -1);
    if (open != shape.end()) *open = 1, *open = product(in(0).shape) / product(shape);
    if (product(shape) != product(in(0).shape)) fail("a reshape to another size");
    return {shape, in(0).values};
  }

  Array concat() const {
    const auto axis = static_cast<size_t>(attribute("axis")[0]);
    Array out{in(0).shape, {}};
    for (int k = 1; k < node_->input_size(); ++k) out.shape[axis] += in(k).shape[axis];
    each(out.shape, [&](const Shape& i) {
      Shape from = i;
      int k = 0;
      while (from[axis] >= in(k).shape[axis]) from[axis] -= in(k++).shape[axis];
      out.values.push_back(at(in(k), from));
    });
    return out;
  }

  Array pad() const {
    const Array& x = in(0);
    const Shape pads = integers(1);
    Array out{x.shape, {}};
    const size_t rank = x.shape.size();
    for (size_t k = 0; k < rank; ++k) out.shape[k] += pads[k] + pads[rank + k];
    each(out.shape, [&](const Shape& i) {
      Shape from = i;
      bool inside = true;
      for (size_t k = 0; k < rank; ++k) {
        from[k] -= pads[k];
        inside = inside && from[k] >= 0 && from[k] < x.shape[k];
      }
      out.values.push_back(inside ? at(x, from) : 0);
    });
    return out;
  }

  Array slice() const {
    const Array& x = in(0);
    const Shape starts = integers(1), ends = integers(2), axes = integers(3), steps = integers(4);
    Shape first(x.shape.size(), 0), step(x.shape.size(), 1);
    Array out{x.shape, {}};
    for (size_t k = 0; k < axes.size(); ++k) {
      const auto axis = static_cast<size_t>(axes[k]);
      first[axis] = starts[k], step[axis] = steps[k];
      const int64_t end = std::min(ends[k], x.shape[axis]);
      out.shape[axis] = (end - starts[k] + steps[k] - 1) / steps[k];
    }
    each(out.shape, [&](const Shape& i) {
      Shape from = i;
      for (size_t k = 0; k < i.size(); ++k) from[k] = first[k] + i[k] * step[k];
      out.values.push_back(at(x, from));
    });
    return out;
  }

  std::map<std::string, Array> values_;
  const onnx::NodeProto* node_ = nullptr;
};

}  // namespace

Array run(const onnx::ModelProto& model, const Array& images) {
  return Run(model, images).logits();
}

}  // namespace tessera::testing_onnx
